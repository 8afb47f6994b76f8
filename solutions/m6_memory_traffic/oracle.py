"""Draws milestone 6's questions: which rows are asked again, apart, alone and under other names.

Traffic is counted in whole bytes.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from milestones.runs import LABELS, TEXT
from solutions.draft import Draft, Source

N_SHUFFLED = 1_000
N_ALONE = 6
N_RENAMED = 400


def draw(source: Source) -> Draft:
    """Draw the questions of one split and their answers."""
    rng, runs = source.rng, source.runs
    apart = [rng.permutation(len(runs))[:N_SHUFFLED].tolist()]
    apart += [[int(row)] for row in rng.choice(len(runs), N_ALONE)]
    named = rng.permutation(len(runs))[:N_RENAMED]
    renamed = rename(rng, runs.iloc[named].drop(columns=list(LABELS)).reset_index(drop=True))
    return Draft(
        {"rows.json": {"apart": apart, "named": named.tolist()}, "renamed.csv": renamed},
        {"traffic.npz": traffic(runs), "names.json": {"n_rows": len(named)}},
    )


def traffic(runs: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return the bytes that a step of each run reads of weights and of the batch's cache."""
    parameters = np.rint(runs["params_b"].to_numpy(dtype=float) * 1e9).astype(np.int64)
    tokens = np.ones(len(runs), dtype=np.int64)
    for factor in ("batch_size", "context_len"):
        tokens *= runs[factor].to_numpy(dtype=np.int64)
    bits = tokens * runs["kv_bits"].to_numpy(dtype=np.int64)
    for factor in ("n_layers", "n_kv_heads", "head_dim"):
        bits *= runs[factor].to_numpy(dtype=np.int64)
    return {
        "weight_bytes": parameters * runs["weight_bits"].to_numpy(dtype=np.int64) / 8,
        "kv_bytes_read": bits / 4,  # keys and values: twice the bits, an eighth of them bytes
    }


def rename(rng: np.random.Generator, questions: pd.DataFrame) -> pd.DataFrame:
    """Give half of the rows each other's names, and the other half names nobody has heard."""
    renamed = questions.copy()
    swapped = rng.random(len(renamed)) < 0.5
    for column in TEXT:
        known = np.sort(renamed[column].unique())
        place = np.searchsorted(known, renamed[column].to_numpy())
        others = np.roll(known, 1)[place]
        unheard = np.array([f"{column}-{number:04d}" for number in range(len(known))])[place]
        renamed[column] = np.where(swapped, others, unheard)
    return renamed
