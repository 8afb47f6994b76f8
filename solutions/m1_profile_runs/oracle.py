"""Draws milestone 1's tables and computes their profiles with counters and sorted lists.

The tables are drawn for this milestone alone: none of their runs is one of the split's, so a
question holds no label of the truth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from milestones.runs import RAW_COLUMNS
from solutions.draft import Draft, Source
from solutions.world.draw import draw_runs, draw_tables
from solutions.world.shapes import SHAPE_COLUMNS, shapes_of

FloatArray = npt.NDArray[np.float64]

N_ROWS = 600  # at most, in one drawn table
MAX_CONDITION = 200.0  # of a standardised design, so that every solver agrees far below 1e-6
MIN_MEAN_SHIFT = 0.01  # in standard deviations: moves an R² by 5e-5, the tolerance is 1e-6
BASELINE_TABLES = ("first", "one_gpu_less")
TRAIN = "data/train.csv"
FOLDER = "questions/m1_profile_runs"
ONE_HEAD = ("toy-one-head", 4, 256, 1, 1, 256, 1_024, 0.02, 2_048)
"""A toy with one query head and one KV head: its layout is MHA, although it has one KV head."""


def draw(source: Source) -> Draft:
    """Draw the questions of one split and their answers."""
    tables = _tables(source.rng, source.known)
    while not all(_means_differ(tables[name], source.train) for name in BASELINE_TABLES):
        tables = _tables(source.rng, source.known)
    paths = {name: f"{FOLDER}/{name}.csv" for name in tables}
    by_path = {TRAIN: source.train} | {paths[name]: table for name, table in tables.items()}
    profile = [*paths.values(), TRAIN]
    baseline = [(TRAIN, paths[name]) for name in BASELINE_TABLES]
    between = [
        (paths["first"], paths["second"]),
        (paths["second"], paths["first"]),
        (paths["no_mqa"], TRAIN),
    ]
    answers: dict[str, Any] = {
        f"profile/{i}": profile_of(by_path[path].to_dict("records"))
        for i, path in enumerate(profile)
    }
    for topic, pairs in {"baseline": baseline, "between": between}.items():
        answers |= {
            f"{topic}/{i}": linear_r2(by_path[train], by_path[test])
            for i, (train, test) in enumerate(pairs)
        }
    questions = {"profile": profile, "baseline": baseline, "between": between}
    files = {f"{name}.csv": table for name, table in tables.items()}
    return Draft({"questions.json": questions, **files}, {"answers.json": answers})


# ---------------------------------------------------------------- tables


def _tables(rng: np.random.Generator, avoid: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Draw six tables that differ in size, in parity and in what they lack."""
    first, second, other, no_mqa, no_mha = _solvable_tables(rng, avoid)
    absent = rng.choice(np.sort(other["gpu"].unique()))
    heads, kv_heads = no_mha["n_heads"], no_mha["n_kv_heads"]
    return {
        "first": _cut(_digits_for_names(rng, first), even=True),
        "second": _cut(_digits_for_names(rng, second), even=False),
        "one_gpu_less": _cut(other[other["gpu"] != absent], even=True),
        "no_mqa": _cut(no_mqa[no_mqa["n_kv_heads"] > 1], even=False),
        "no_mha": _cut(no_mha[heads != kv_heads], even=True),
        "small": _cut(_small(rng, avoid), even=True),
    }


def _means_differ(table: pd.DataFrame, train: pd.DataFrame) -> bool:
    """Tell whether an SST about the mean of `train` shows in the R² of this table."""
    speeds = table["tokens_per_s"]
    shift = abs(speeds.mean() - train["tokens_per_s"].mean()) / speeds.std()
    return bool(shift > MIN_MEAN_SHIFT)


def _solvable_tables(rng: np.random.Generator, avoid: pd.DataFrame) -> list[pd.DataFrame]:
    while True:
        tables = draw_tables(rng, 5, N_ROWS, avoid)
        fitted = (tables[0], tables[1], tables[3][tables[3]["n_kv_heads"] > 1])
        if all(condition(table) <= MAX_CONDITION for table in fitted):
            return tables


def _digits_for_names(rng: np.random.Generator, table: pd.DataFrame) -> pd.DataFrame:
    """Name the runs in digits, with leading zeros: names that only look like numbers."""
    numbers = rng.choice(100_000, len(table), replace=False)
    return table.assign(run_id=[f"{number:05d}" for number in numbers])


def _small(rng: np.random.Generator, avoid: pd.DataFrame) -> pd.DataFrame:
    """Draw two dozen runs of three released shapes and of the toy with one head."""
    public = shapes_of("train")
    released = public.iloc[np.sort(rng.choice(len(public), 3, replace=False))]
    toy = pd.DataFrame([ONE_HEAD], columns=[*SHAPE_COLUMNS, "max_context"])
    shapes = pd.concat([released, toy], ignore_index=True)
    return draw_runs(rng, shapes, int(rng.integers(20, 30)), prefix="small-", avoid=avoid)


def _cut(table: pd.DataFrame, even: bool) -> pd.DataFrame:
    """Drop rows from the end until the number is even or odd as asked.

    An even table also keeps two different contexts in the middle, so that its median is neither.
    """
    kept = table.reset_index(drop=True)
    while len(kept) % 2 == int(even) or (even and _middle(kept)[0] == _middle(kept)[1]):
        kept = kept.iloc[:-1]
    return kept


def _middle(table: pd.DataFrame) -> tuple[int, int]:
    contexts = sorted(table["context_len"].tolist())
    half = len(contexts) // 2
    return int(contexts[half - 1]), int(contexts[half])


# ---------------------------------------------------------------- truth


def profile_of(runs: list[dict[Hashable, Any]]) -> dict[str, Any]:
    """Profile a table row by row."""
    layouts = Counter({"MHA": 0, "GQA": 0, "MQA": 0})
    layouts.update(_layout(run["n_heads"], run["n_kv_heads"]) for run in runs)
    by_gpu = Counter(run["gpu"] for run in runs)
    contexts = sorted(int(run["context_len"]) for run in runs)
    half = len(contexts) // 2
    median = contexts[half] if len(runs) % 2 else (contexts[half - 1] + contexts[half]) / 2
    speeds = _ends(run["tokens_per_s"] for run in runs)
    return {
        "n_runs": len(runs),
        "n_models": len({run["model"] for run in runs}),
        "n_gpus": len(by_gpu),
        "runs_by_attention": dict(layouts),
        "context_len_min": contexts[0],
        "context_len_median": median,
        "context_len_max": contexts[-1],
        "tokens_per_s_min": speeds[0],
        "tokens_per_s_max": speeds[1],
        "throughput_ratio": speeds[1] / speeds[0],
        "share_by_gpu": {gpu: number / len(runs) for gpu, number in sorted(by_gpu.items())},
    }


def _layout(n_heads: int, n_kv_heads: int) -> str:
    if n_kv_heads == n_heads:
        return "MHA"
    return "MQA" if n_kv_heads == 1 else "GQA"


def _ends(values: Iterable[float]) -> tuple[float, float]:
    ordered = sorted(float(value) for value in values)
    return ordered[0], ordered[-1]


def linear_r2(train: pd.DataFrame, test: pd.DataFrame) -> float:
    """Return the baseline's R² of tokens_per_s, by QR of the standardised columns of `train`."""
    q, r = np.linalg.qr(_design(train, train))
    slopes = np.linalg.solve(r, q.T @ _speed(train))
    residual = _speed(test) - _design(test, train) @ slopes
    about_mean = _speed(test) - _speed(test).mean()
    return float(1 - residual @ residual / (about_mean @ about_mean))


def condition(train: pd.DataFrame) -> float:
    """Return the condition number of the standardised design of `train`."""
    return float(np.linalg.cond(_design(train, train)))


def _design(table: pd.DataFrame, like: pd.DataFrame) -> FloatArray:
    columns = list(RAW_COLUMNS)
    centre = like[columns].to_numpy(dtype=np.float64).mean(axis=0)
    scale = like[columns].to_numpy(dtype=np.float64).std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    scaled = (table[columns].to_numpy(dtype=np.float64) - centre) / scale
    return np.column_stack([np.ones(len(table)), scaled])


def _speed(table: pd.DataFrame) -> FloatArray:
    return table["tokens_per_s"].to_numpy(dtype=np.float64)
