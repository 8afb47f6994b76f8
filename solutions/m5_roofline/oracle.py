"""Draws milestone 5's questions: altered rows whose effect on each term is known beforehand.

The truth of terms 2 to 4 is counted in whole bytes and operations; how an altered row must
compare with the row it came from is decided from the alteration, not from a formula of a term.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from milestones.runs import COLUMNS, LABELS
from solutions.draft import Draft, Source

ASKED = [column for column in COLUMNS if column not in LABELS]
N_BASES = 6
N_CANDIDATES = 4 * N_BASES  # own runs on a grid may lead to public ones more often
N_SHUFFLED = 400
N_ALONE = 4
SAME = 1.0
Range = tuple[float, float]


@dataclass(frozen=True)
class Alteration:
    """One change to a run, and the factor it puts on each term: None where anything goes.

    `flops` says what the FLOPs term does; "attention" means it grows by attention's share at most,
    since counting attention's operations is allowed and not required.
    """

    name: str
    factors: dict[str, float]
    overhead: float | None = SAME
    weights: float = SAME
    kv: float = SAME
    flops: float | str = SAME


UNCHANGED = Alteration("no change", {})
RENAMED = Alteration("other names for run, model and GPU", {})
ALTERATIONS = (
    Alteration("twice the memory bandwidth", {"gpu_bandwidth_gbps": 2}, weights=0.5, kv=0.5),
    Alteration("twice the peak TFLOP/s", {"gpu_tflops": 2}, flops=0.5),
    Alteration("twice the batch", {"batch_size": 2}, overhead=None, kv=2, flops=2),
    Alteration("twice the context", {"context_len": 2}, kv=2, flops="attention"),
    Alteration("half the bits in the cache", {"kv_bits": 0.5}, kv=0.5),
    Alteration("half the bits in the weights", {"weight_bits": 0.5}, weights=0.5),
    Alteration("twice the parameters", {"params_b": 2}, weights=2, flops="parameters"),
    Alteration("twice the layers", {"n_layers": 2}, overhead=None, kv=2, flops="attention"),
    Alteration("twice the KV heads", {"n_kv_heads": 2}, kv=2),
    Alteration("twice the query heads", {"n_heads": 2}, flops="attention"),
    Alteration("twice the head size", {"head_dim": 2}, kv=2, flops="attention"),
    Alteration("twice the hidden size", {"hidden_size": 2}),
    Alteration("twice the intermediate size", {"intermediate_size": 2}),
    Alteration("twice the GPU memory", {"gpu_memory_gb": 2}),
    RENAMED,
)


def draw(source: Source) -> Draft:
    """Draw the questions of one split and their answers."""
    rng, runs = source.rng, source.runs
    others = source.known[~source.known["run_id"].isin(runs["run_id"])]
    table, rows = _altered(rng, runs[ASKED], others[ASKED])
    apart = [rng.choice(len(runs), min(N_SHUFFLED, len(runs)), replace=False).tolist()]
    apart += [[int(row)] for row in rng.choice(len(runs), N_ALONE)]
    return Draft(
        {"altered.csv": table, "apart.json": apart},
        {"terms.npz": spec_times(runs), "altered.json": rows},
    )


def spec_times(runs: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return each term's ms at spec speed, and the columns an overhead may depend on."""
    integer = {name: runs[name].to_numpy(dtype=np.int64) for name in COUNTS}
    parameters = np.rint(runs["params_b"].to_numpy(dtype=float) * 1e9)
    weight_bits = parameters * integer["weight_bits"]
    cached = integer["batch_size"] * integer["context_len"]
    kv_bits = 2 * cached * integer["n_layers"] * integer["n_kv_heads"] * integer["head_dim"]
    kv_bits = kv_bits * integer["kv_bits"]
    # a score and a weighted sum: two multiply-adds for each cached token and query dimension
    attention = 4 * cached * integer["n_layers"] * integer["n_heads"] * integer["head_dim"]
    bits_per_ms = runs["gpu_bandwidth_gbps"].to_numpy(dtype=float) * 8e6
    flops_per_ms = runs["gpu_tflops"].to_numpy(dtype=float) * 1e9
    return {
        "weight_ms": weight_bits / bits_per_ms,
        "kv_ms": kv_bits / bits_per_ms,
        "flops_ms": 2 * parameters * integer["batch_size"] / flops_per_ms,
        "attention_ms": attention / flops_per_ms,
        "n_layers": integer["n_layers"],
        "batch_size": integer["batch_size"],
    }


COUNTS = (
    "n_layers",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "weight_bits",
    "kv_bits",
    "batch_size",
    "context_len",
)


def _altered(
    rng: np.random.Generator, questions: pd.DataFrame, public: pd.DataFrame
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Return base rows with their alterations, and what each must come to.

    A base row stands among its own alterations, in random order: the first two bases then show
    every alteration within the few dozen rows by which a named mistake is recognised. No base is
    taken of which an alteration is a public run, as long as there are others: doubled or halved,
    a few rows in a thousand are.
    """
    wide = questions[(questions["weight_bits"] == 16) & (questions["kv_bits"] == 16)]
    pool = wide if len(wide) else questions  # real runs may all be quantized
    candidates = pool.iloc[rng.permutation(len(pool))[:N_CANDIDATES]]
    fresh = candidates[~_lead_to(public, candidates)]
    chosen = (fresh if len(fresh) >= N_BASES else candidates)[:N_BASES].reset_index(drop=True)
    changes = (UNCHANGED, *ALTERATIONS)
    tables: list[pd.DataFrame] = []
    told: list[dict[str, Any]] = []
    for number in range(len(chosen)):
        start = number * len(changes)
        order = rng.permutation(len(changes))
        base = start + int(np.flatnonzero(order == 0)[0])
        row = chosen.iloc[[number]]
        share = _attention_share(row)
        for place, change in enumerate(order):
            tables.append(_apply(row, changes[change]))
            told.append(_row(changes[change], start + place, base, share))
    table = pd.concat(tables, ignore_index=True)
    table["run_id"] = [f"q{i:05d}" for i in range(len(table))]
    return table, told


def _lead_to(public: pd.DataFrame, rows: pd.DataFrame) -> np.ndarray:
    """Return which rows become, by one of the alterations, a row of the public runs."""
    columns = [column for column in ASKED if column != "run_id"]
    numbered = rows.assign(place=np.arange(len(rows)))
    altered = [_apply(numbered, alteration) for alteration in (UNCHANGED, *ALTERATIONS)]
    found = pd.concat(altered).merge(public[columns].drop_duplicates(), on=columns)
    return np.isin(np.arange(len(rows)), found["place"])


def _apply(row: pd.DataFrame, alteration: Alteration) -> pd.DataFrame:
    altered = row.copy()
    for column, factor in alteration.factors.items():
        kind = altered[column].dtype
        altered[column] = (altered[column] * factor).astype(kind)
    if alteration is RENAMED:
        altered["model"], altered["gpu"] = "another-model", "another-gpu"
    return altered


def _attention_share(row: pd.DataFrame) -> float:
    """Return attention's operations as a share of all other operations of one run."""
    times = spec_times(row)
    return float(times["attention_ms"][0] / times["flops_ms"][0])


def _row(alteration: Alteration, row: int, base: int, share: float) -> dict[str, Any]:
    match alteration.flops:
        case "attention":  # from not counted to doubled beside the rest
            flops, told = (SAME, (1 + 2 * share) / (1 + share)), "grow by attention's part at most"
        case "parameters":
            flops, told = ((2 + share) / (1 + share), 2.0), "double, but for attention's part"
        case factor:
            flops, told = (float(factor), float(factor)), SPELLED[float(factor)]
    plain = (alteration.overhead, alteration.weights, alteration.kv)
    return {
        "change": alteration.name,
        "row": row,
        "base": base,
        "low": [*plain, flops[0]],
        "high": [*plain, flops[1]],
        "expected": [*("" if f is None else SPELLED[f] for f in plain), told],
    }


SPELLED = {0.5: "halve", 1.0: "stay as it is", 2.0: "double"}
