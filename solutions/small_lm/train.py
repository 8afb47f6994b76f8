"""Train the small language model: `python -m solutions.small_lm.train --out FOLDER`.

Needs `pip install -e '.[train]'` (PyTorch on a CPU) and Debian's python3.11-doc. Seeds are fixed;
on another kind of processor the last bits differ, and with them the weights.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer
from torch.nn import functional

from solutions.small_lm.corpus import SOURCES, read_corpus
from solutions.small_lm.network import Shape, SmallLM

SEED = 2026
BATCH = 16
WARM_UP = 100
FRESH = 30  # steps until an optimizer of a later phase is at its full rate
PEAK_RATE = 4e-3
DECAY = 0.1
START = "<|start|>"
"""Opens every sequence, as in pre-training of large models: text may begin in mid-sentence."""


@dataclass(frozen=True)
class Phase:
    """A part of the training, with an optimizer and a random stream of its own.

    `passages` is the share of sequences whose text holds passages of random tokens that come twice;
    `tiled` the share that is one such passage again and again, from which copying is learnt fast;
    `of_text` the share of passages that are text from elsewhere instead.
    """

    steps: int
    passages: float
    tiled: float
    of_text: float = 0.0


PHASES = (
    Phase(600, passages=0.125, tiled=0.0),
    Phase(200, passages=0.125, tiled=0.25),
    Phase(500, passages=0.125, tiled=0.5, of_text=0.6),
    Phase(1_300, passages=0.125, tiled=0.05, of_text=0.3),
)
"""Text first; then copying over the context, which is not found by itself in so short a training;
then text again, with enough copying that it is kept."""


def learn_vocabulary(texts: list[str], size: int) -> ByteLevelBPETokenizer:
    """Return a byte-level BPE of `size` tokens; the start token is number 0."""
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(
        texts, vocab_size=size, min_frequency=2, special_tokens=[START], show_progress=False
    )
    return tokenizer


def encode(tokenizer: ByteLevelBPETokenizer, texts: dict[str, str]) -> np.ndarray:
    """Return the texts' tokens one after the other."""
    found = [tokenizer.encode(text).ids for _, text in sorted(texts.items())]
    return np.concatenate([np.asarray(ids, np.int64) for ids in found])


class Batches:
    """Draws sequences: a start token, then text, or passages that are repeated further on."""

    def __init__(
        self, tokens: np.ndarray, shape: Shape, phase: Phase, rng: np.random.Generator
    ) -> None:
        """`tokens` is the whole training text; `rng` decides what is drawn of it."""
        self._tokens, self._phase, self._rng = tokens, phase, rng
        self._length, self._vocab = shape.context_len, shape.vocab

    def draw(self, count: int) -> torch.Tensor:
        """Return (count, context_len + 1) tokens."""
        rows = [self._row() for _ in range(count)]
        return torch.from_numpy(np.stack([np.concatenate(([0], row)) for row in rows]))

    def _row(self) -> np.ndarray:
        kind = self._rng.random()
        if kind < self._phase.passages:
            return self._repeated()
        if kind < self._phase.passages + self._phase.tiled:
            return self._tiled()
        return self._text(self._length)

    def _text(self, length: int) -> np.ndarray:
        start = self._rng.integers(len(self._tokens) - length)
        return self._tokens[start : start + length]

    def _tiled(self) -> np.ndarray:
        """Return one passage of random tokens, again and again to the end."""
        return np.resize(self._passage(int(self._rng.integers(16, 200))), self._length)

    def _passage(self, size: int) -> np.ndarray:
        if self._phase.of_text and self._rng.random() < self._phase.of_text:
            return self._text(size)
        return self._rng.integers(1, self._vocab, size)

    def _repeated(self) -> np.ndarray:
        """Return text with passages of random tokens in it, each of which comes again later."""
        row = self._text(self._length).copy()
        for _ in range(4):
            size = int(self._rng.integers(8, 49))
            passage = self._passage(size)
            first, again = np.sort(self._rng.integers(0, self._length - size, 2))
            row[first : first + size] = passage
            row[again : again + size] = passage
        return row


def rate(step: int, steps: int, phase_began: int) -> float:
    """Return the learning rate: a linear warm-up, then half a cosine down to a twentieth.

    `step` counts through all phases and `phase_began` is the first step of this one.
    """
    if step < WARM_UP:
        return PEAK_RATE * (step + 1) / WARM_UP
    # an optimizer that knows nothing yet of its gradients begins gently
    begun = min((step + 1 - phase_began) / FRESH, 1.0)
    done = (step - WARM_UP) / max(steps - WARM_UP, 1)
    return begun * PEAK_RATE * (0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2)


def held_out_loss(model: SmallLM, tokens: np.ndarray, sequences: int) -> float:
    """Return the mean loss in nats a token over whole held-out sequences, start token first."""
    length = model.shape.context_len
    total = 0.0
    for i in range(sequences):
        row = np.concatenate(([0], tokens[i * length : (i + 1) * length]))
        row = torch.from_numpy(row)[None]
        with torch.no_grad():
            total += functional.cross_entropy(model(row[:, :-1])[0], row[0, 1:]).item()
    return total / sequences


def train(out: Path, sources: Path, first_phase: int, threads: int) -> None:
    """Train and write the checkpoint, the vocabulary, the held-out tokens and the log.

    With a `first_phase` above 0, go on from the checkpoint that the phases before it left.
    """
    torch.manual_seed(SEED)
    torch.set_num_threads(threads)
    shape = Shape()
    corpus = read_corpus(sources)
    tokenizer = learn_vocabulary([text for _, text in sorted(corpus.train.items())], shape.vocab)
    learnt, held_out = encode(tokenizer, corpus.train), encode(tokenizer, corpus.held_out)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    np.save(out / "held_out.npy", held_out.astype(np.uint16))
    model = SmallLM(shape)
    if first_phase:
        model.load_state_dict(torch.load(out / f"phase_{first_phase}.pt", weights_only=True))
    steps = sum(phase.steps for phase in PHASES)
    sizes = sum(p.numel() for p in model.parameters())
    about = {
        "parameters": sizes,
        "train_files": len(corpus.train),
        "train_bytes": sum(len(t.encode()) for t in corpus.train.values()),
        "train_tokens": len(learnt),
        "held_out_files": sorted(corpus.held_out),
        "held_out_bytes": sum(len(t.encode()) for t in corpus.held_out.values()),
        "held_out_tokens": len(held_out),
        "steps": steps,
        "tokens_per_step": BATCH * shape.context_len,
    }
    print(json.dumps(about), flush=True)
    began = time.monotonic()
    log = []
    for number, phase in enumerate(PHASES[first_phase:], first_phase):
        phase_began = sum(phase.steps for phase in PHASES[:number])
        optimizer = new_optimizer(model)
        batches = Batches(learnt, shape, phase, np.random.default_rng(SEED + number))
        for step in range(phase_began, phase_began + phase.steps):
            for group in optimizer.param_groups:
                group["lr"] = rate(step, steps, phase_began)
            loss = learn(model, optimizer, batches.draw(BATCH))
            if step % 100 == 99:
                line = {
                    "step": step + 1,
                    "train_loss": round(loss, 4),
                    "held_out_loss": round(held_out_loss(model, held_out, 32), 4),
                    "minutes": round((time.monotonic() - began) / 60, 2),
                }
                log.append(line)
                print(json.dumps(line), flush=True)
                torch.save(model.state_dict(), out / "checkpoint.pt")
        torch.save(model.state_dict(), out / f"phase_{number + 1}.pt")
    text = json.dumps({**about, "log": log}, indent=1) + "\n"
    (out / "training.json").write_text(text, encoding="utf-8")


def new_optimizer(model: SmallLM) -> torch.optim.Optimizer:
    """Return AdamW, which decays the matrices and leaves the gains alone."""
    matrices = [p for p in model.parameters() if p.ndim == 2]
    gains = [p for p in model.parameters() if p.ndim == 1]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": DECAY}, {"params": gains, "weight_decay": 0.0}],
        betas=(0.9, 0.98),
        fused=True,
    )


def learn(model: SmallLM, optimizer: torch.optim.Optimizer, rows: torch.Tensor) -> float:
    """Take one step on a batch and return its loss in nats a token."""
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(rows[:, :-1])
    loss = functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return float(loss.item())


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sources", type=Path, default=SOURCES)
    parser.add_argument("--first-phase", type=int, default=0, choices=range(len(PHASES)))
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    train(args.out, args.sources, args.first_phase, args.threads)


if __name__ == "__main__":
    main()
