"""Write the trained model into `data/small_lm/`: weights in 16 bits, vocabulary, held-out tokens.

`python -m solutions.small_lm.export CHECKPOINT_FOLDER`. The gain of each norm is multiplied into
the matrices that read it, so that inference knows no gains; matrices are transposed, so that
activations multiply from the left.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel

from solutions.draft import write_content
from solutions.small_lm.inference import FOLDER
from solutions.small_lm.network import Shape

HELD_OUT_PIECES = 64  # of the model's context each, evenly spaced: some 85 kB of text


def arrays(state: dict[str, torch.Tensor], shape: Shape) -> dict[str, np.ndarray]:
    """Return the weights by name, as they multiply activations from the left, in float16."""
    found = {name: tensor.numpy().astype(np.float64) for name, tensor in state.items()}
    made = {
        "embedding": found["embedding.weight"],
        "unembedding": (found["embedding.weight"] * found["norm_out.gain"]).T,
    }
    readers = {
        "norm_attention": ("w_q", "w_k", "w_v"),
        "norm_network": ("w_gate", "w_up"),
    }
    for i in range(shape.n_layers):
        for norm, names in readers.items():
            for name in names:
                gained = found[f"layers.{i}.{name}.weight"] * found[f"layers.{i}.{norm}.gain"]
                made[f"layers.{i}.{name}"] = gained.T
        for name in ("w_o", "w_down"):
            made[f"layers.{i}.{name}"] = found[f"layers.{i}.{name}.weight"].T
    return {name: np.ascontiguousarray(array, np.float16) for name, array in made.items()}


def token_texts(path: Path, vocab: int) -> list[str]:
    """Return what each token stands for; bytes that are no whole character become U+FFFD."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.decoder = ByteLevel()
    return [tokenizer.decode([i], skip_special_tokens=False) for i in range(vocab)]


def export(checkpoint: Path, out: Path) -> None:
    """Write the model's files; README.md and LICENSE.txt are written by hand."""
    shape = Shape()
    state = torch.load(checkpoint / "checkpoint.pt", weights_only=True)
    out.mkdir(parents=True, exist_ok=True)
    write_content(out / "weights.npz", arrays(state, shape))
    config = asdict(shape) | {"start_token": 0}
    write_content(out / "config.json", config)
    texts = token_texts(checkpoint / "tokenizer.json", shape.vocab)
    (out / "vocabulary.json").write_text(
        json.dumps(texts, ensure_ascii=False, indent=0) + "\n", encoding="utf-8", newline="\n"
    )
    held_out = np.load(checkpoint / "held_out.npy")
    whole = held_out[: len(held_out) // shape.context_len * shape.context_len]
    pieces = whole.reshape(-1, shape.context_len)
    chosen = np.linspace(0, len(pieces) - 1, HELD_OUT_PIECES).round().astype(int)
    write_content(out / "held_out.npz", {"tokens": pieces[chosen]})


def main() -> None:
    """Read the command line and export."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path, help="the folder that training wrote")
    parser.add_argument("--out", type=Path, default=FOLDER)
    args = parser.parse_args()
    export(args.checkpoint, args.out)


if __name__ == "__main__":
    main()
