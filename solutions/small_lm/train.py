"""Train the small language model: `python -m solutions.small_lm.train --out FOLDER`.

Needs `pip install -e '.[train]'` (PyTorch on a CPU) and Debian's python3.11-doc. Seeds are fixed;
on another kind of processor the last bits differ, and with them the weights.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer
from torch.nn import functional

from solutions.small_lm.corpus import SOURCES, read_corpus
from solutions.small_lm.network import Shape, SmallLM

SEED = 2026
BATCH = 16
STEPS = 2_600
WARM_UP = 100
PEAK_RATE = 4e-3
DECAY = 0.1
START = "<|start|>"
"""Opens every sequence, as in pre-training of large models: text may begin in mid-sentence."""
SHARE_COPIED = 0.125
"""Sequences made of passages that come twice, so that copying from far back pays early."""


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

    def __init__(self, tokens: np.ndarray, shape: Shape, rng: np.random.Generator) -> None:
        """`tokens` is the whole training text; `rng` decides what is drawn of it."""
        self._tokens, self._rng = tokens, rng
        self._length, self._vocab = shape.context_len, shape.vocab

    def draw(self, count: int) -> torch.Tensor:
        """Return (count, context_len + 1) tokens."""
        rows = [
            self._repeated() if self._rng.random() < SHARE_COPIED else self._text(self._length)
            for _ in range(count)
        ]
        return torch.from_numpy(np.stack([np.concatenate(([0], row)) for row in rows]))

    def _text(self, length: int) -> np.ndarray:
        start = self._rng.integers(len(self._tokens) - length)
        return self._tokens[start : start + length]

    def _repeated(self) -> np.ndarray:
        """Return text with passages of random tokens in it, each of which comes again later."""
        row = self._text(self._length).copy()
        for _ in range(4):
            size = int(self._rng.integers(8, 49))
            passage = self._rng.integers(1, self._vocab, size)
            first, again = np.sort(self._rng.integers(0, self._length - size, 2))
            row[first : first + size] = passage
            row[again : again + size] = passage
        return row


def rate(step: int, steps: int) -> float:
    """Return the learning rate: a linear warm-up, then half a cosine down to a twentieth."""
    if step < WARM_UP:
        return PEAK_RATE * (step + 1) / WARM_UP
    done = (step - WARM_UP) / max(steps - WARM_UP, 1)
    return PEAK_RATE * (0.05 + 0.95 * (1 + math.cos(math.pi * done)) / 2)


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


def train(out: Path, sources: Path, steps: int, threads: int) -> None:
    """Train and write the checkpoint, the vocabulary, the held-out tokens and the log."""
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
    matrices = [p for p in model.parameters() if p.ndim == 2]
    gains = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": DECAY}, {"params": gains, "weight_decay": 0.0}],
        betas=(0.9, 0.98),
        fused=True,
    )
    batches = Batches(learnt, shape, np.random.default_rng(SEED))
    began = time.monotonic()
    log = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps)
        rows = batches.draw(BATCH)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(rows[:, :-1])
        loss = functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 100 == 99 or step == steps - 1:
            line = {
                "step": step + 1,
                "train_loss": round(loss.item(), 4),
                "held_out_loss": round(held_out_loss(model, held_out, 32), 4),
                "minutes": round((time.monotonic() - began) / 60, 2),
            }
            log.append(line)
            print(json.dumps(line), flush=True)
            torch.save(model.state_dict(), out / "checkpoint.pt")
    (out / "training.json").write_text(json.dumps({**about, "log": log}, indent=1) + "\n")


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sources", type=Path, default=SOURCES)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    train(args.out, args.sources, args.steps, args.threads)


if __name__ == "__main__":
    main()
