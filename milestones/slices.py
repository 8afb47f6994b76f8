"""Which slice of the runs carries a model's error: cut by GPU, dtype, attention, size and shape."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from milestones.diagnosis import Breakdown, Part

SHAPE = ["n_layers", "hidden_size", "n_heads", "n_kv_heads", "head_dim"]
BATCHES = (1, 2, 8, 32, 128)
CONTEXTS = (0, 512, 1024, 2048, 8192)
SIZES_B = (0, 1, 4, 8, 20)
STANDS_OUT = 1.25  # a slice this many times as wrong as the others is worth a look
FEWEST = 0.02  # of the runs: a slice that is told of holds more


def cut_by(runs: pd.DataFrame, trained: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the slice of each run by every cut, (n,) names each.

    `runs` are raw columns; `trained` the runs that were there to learn from.
    """
    shared_by = runs["n_heads"] / runs["n_kv_heads"]  # query heads that read one KV head
    several = np.where(runs["n_kv_heads"] > 1, "GQA", "MQA")
    layout = np.where(shared_by == 1, "MHA", several)
    seen = pd.MultiIndex.from_frame(trained[SHAPE])
    is_seen = pd.MultiIndex.from_frame(runs[SHAPE]).isin(seen)
    return {
        "GPU": runs["gpu"].to_numpy(dtype=str),
        "weights": _named(runs["weight_bits"], "{}-bit"),
        "cache": _named(runs["kv_bits"], "{}-bit"),
        "attention": layout,
        "batch": _ranges(runs["batch_size"], BATCHES),
        "context": _ranges(runs["context_len"], CONTEXTS),
        "model size": _ranges(runs["params_b"], SIZES_B, "B"),
        "shape": np.where(is_seen, "in train", "not in train"),
    }


def where_error_lies(
    cuts: Mapping[str, np.ndarray],
    predicted: np.ndarray,
    actual: np.ndarray,
    weight: np.ndarray,
    title: str,
) -> Breakdown:
    """Return the breakdown of an error.

    `predicted` and `actual` are steps in ms, (n,); `weight` (n,) is each run's part of the error
    that was judged, in any unit. Cuts come in the order of how unevenly that error is spread.
    """
    signed = (predicted - actual) / actual
    whole = float(weight.sum())
    found: list[tuple[float, tuple[Part, ...]]] = []
    for by, names in cuts.items():
        parts = []
        for name in _in_order(names):
            mask = names == name
            parts.append(
                Part(
                    by,
                    name,
                    int(mask.sum()),
                    float(weight[mask].sum()) / whole if whole else 0.0,
                    float(np.abs(signed[mask]).mean()),
                    float(signed[mask].mean()),
                )
            )
        if len(parts) > 1:
            found.append((_unevenness(parts, len(actual)), tuple(parts)))
    found.sort(key=lambda one: -one[0])  # a stable sort: ties stay in the order of the cuts
    ordered = tuple(part for _, parts in found for part in parts)
    return Breakdown(title, "runs", ordered, _told(ordered, len(actual)), "MAPE")


def _unevenness(parts: list[Part], n_runs: int) -> float:
    """Return the share of the error that lies elsewhere than an even spread would put it."""
    return sum(abs(part.share - part.count / n_runs) for part in parts) / 2


def _told(parts: tuple[Part, ...], n_runs: int) -> str:
    """Name the slice that holds most more of the error than its share of the runs."""
    large = [part for part in parts if FEWEST < part.count / n_runs < 1]
    if not large:
        return ""
    worst = max(large, key=lambda part: part.share - part.count / n_runs)
    share = worst.count / n_runs
    rate = worst.share / share
    if rate < STANDS_OUT or worst.figure is None or worst.bias is None:
        return "No slice stands out: the error is spread over all of them."
    told = (
        f"Look first at {worst.by} {worst.name}: {share:.0%} of the runs, {worst.share:.0%} of the "
        "error"
    )
    if abs(worst.bias) > worst.figure / 2:
        told += f", predicted {abs(worst.bias):.0%} too {'high' if worst.bias > 0 else 'low'}"
        told += " on average"
    return f"{told}."


def _named(column: pd.Series, form: str) -> np.ndarray:
    return np.array([form.format(f"{value:g}") for value in column.tolist()])


def _ranges(column: pd.Series, starts: tuple[int, ...], unit: str = "") -> np.ndarray:
    """Return the range of each number; a range runs from one start to below the next."""
    place = np.searchsorted(starts, column.to_numpy(dtype=float), side="right") - 1
    whole = not unit  # counts end before the next start, sizes at it
    names = []
    for i, start in enumerate(starts):
        end = starts[i + 1] if i + 1 < len(starts) else None
        if end is None:
            names.append(f"{start:,}{unit} and more")
        elif start == 0:
            names.append(f"below {end:,}{unit}")
        elif whole and end == start + 1:
            names.append(f"{start:,}")
        else:
            names.append(f"{start:,} to {end - 1 if whole else end:,}{unit}")
    return np.array(names)[np.clip(place, 0, len(starts) - 1)]


def _in_order(names: np.ndarray) -> list[str]:
    """Return the names that occur, ranges by their first number and others by the alphabet."""

    def rank(name: str) -> tuple[float, str]:
        first = re.match(r"[\d,.]+", name)
        if first is None:
            return (-1.0, name)
        return (float(first.group().replace(",", "")), name)

    return sorted(dict.fromkeys(names.tolist()), key=rank)
