"""`python -m solutions world`: the world's figures, its distance from reality, its public data."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from grader.errors import BadInputError
from solutions.world.draw import draw_hidden, draw_public, write_csv
from solutions.world.figures import REQUIRED, Figures, Required
from solutions.world.gpus import DATA
from solutions.world.measured import (
    COMPOSED_SOURCE,
    HELD_ASIDE,
    TWIN,
    as_runs,
    out_of_scope,
    read_measured,
)
from solutions.world.step import step_parts
from solutions.world.tune import N_TRIALS, TUNED_FILE, read_tuned, tune, write_tuned

FIRST_HIDDEN_SEED = 1000  # a seed for display only: hidden splits draw secret ones
MEDIAN_ERROR_GOAL = 0.10
BIAS_GOAL = 0.08


def main(argv: list[str]) -> int:
    """Run the command. 0: every figure in its band, or goal met; 1: not; 2: bad usage or input."""
    parser = argparse.ArgumentParser(prog="python -m solutions world", description=__doc__)
    parser.add_argument("--sets", type=int, default=20, help="fresh hidden sets to measure")
    parser.add_argument("--seed", type=int, default=FIRST_HIDDEN_SEED, help="seed of the first set")
    parser.add_argument("--measured", type=Path, nargs="+", metavar="FILE", help="measured steps")
    parser.add_argument("--tune", action="store_true", help="search the tuned boosting anew")
    parser.add_argument("--trials", type=int, default=N_TRIALS, help="trials of each search")
    parser.add_argument("--write", action="store_true", help="write the public data anew")
    try:
        chosen = parser.parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    if chosen.sets < 1 or chosen.trials < 1 or chosen.seed < 0:
        print(
            "world: --sets and --trials take a number of 1 or more, --seed one of 0 or more",
            file=sys.stderr,
        )
        return 2
    if chosen.write:
        return _write()
    if chosen.tune:
        return _tune(chosen.trials)
    if chosen.measured:
        return max(_compare(path) for path in chosen.measured)
    return _figures(chosen.sets, chosen.seed)


def _write() -> int:
    train, validation = draw_public()
    for table, name in ((train, "train.csv"), (validation, "validation.csv")):
        write_csv(table, DATA / name)
        print(f"wrote data/{name}: {len(table):,} runs of {table['model'].nunique()} models")
    return 0


def _tune(n_trials: int) -> int:
    started = time.monotonic()
    found = tune(draw_public()[0], n_trials)
    write_tuned(found)
    for scheme, best in found.items():
        print(f"{scheme}: cross-validated MAPE {best['cross_validated_mape']:.4f}")
    print(f"wrote data/{TUNED_FILE.name} after {time.monotonic() - started:.0f} s")
    return 0


def _figures(n_sets: int, first_seed: int) -> int:
    train, validation = draw_public()
    tuned = {scheme: best["settings"] for scheme, best in read_tuned().items()}
    started = time.monotonic()
    figures = Figures(train, tuned)
    fitted_s = time.monotonic() - started
    on_validation = figures.measure(validation)
    drawn_s = 0.0
    rows = []
    for seed in range(first_seed, first_seed + n_sets):
        started = time.monotonic()
        hidden = draw_hidden(np.random.default_rng(seed))
        drawn_s += time.monotonic() - started
        rows.append(figures.measure(hidden))
    on_hidden = pd.DataFrame(rows)
    print(
        f"{len(train):,} training runs; {len(validation):,} validation runs; {n_sets} hidden sets"
    )
    print(f"{'':42}{'required':>16}{'valid.':>9}{'mean':>9}{'min':>9}{'max':>9}")
    all_hold = True
    for required in REQUIRED:
        values = on_hidden[required.name]
        seen = (on_validation[required.name], float(values.min()), float(values.max()))
        holds = all(required.holds(value) for value in seen)
        all_hold &= holds
        numbers = (seen[0], float(values.mean()), *seen[1:])
        print(_line(required.sentence, _band(required), numbers, "ok" if holds else "OUT"))
    for name in on_hidden.columns.difference([required.name for required in REQUIRED]):
        values = on_hidden[name]
        numbers = (on_validation[name], values.mean(), values.min(), values.max())
        print(_line(name.replace("_", " "), "", numbers, ""))
    print(f"fits on train {fitted_s:.1f} s; a hidden set is drawn in {drawn_s / n_sets:.2f} s")
    return 0 if all_hold else 1


def _line(title: str, band: str, numbers: Sequence[float], verdict: str) -> str:
    written = "".join(f"{n:>9,.0f}" if n > 100 else f"{n:>9.4f}" for n in numbers)
    return f"{title:42}{band:>16}{written}  {verdict}".rstrip()


def _band(required: Required) -> str:
    if np.isinf(required.high):
        return f">= {required.low:g}"
    if required.low == 0:
        return f"<= {required.high:g}"
    return f"{required.low:g} to {required.high:g}"


def _compare(path: Path) -> int:
    """Print how far the noise-free world lies from the measured rows of one file."""
    try:
        measured = read_measured(path)
    except BadInputError as problem:
        print(f"world: cannot read measured steps from {problem}", file=sys.stderr)
        return 2
    reason = out_of_scope(measured)
    print(f"== {path.name}: {len(measured):,} rows")
    inside = measured[reason == ""]
    if inside.empty:
        print("no row is in scope")
        _print_scope(measured, reason)
        return 1
    runs = as_runs(inside)
    parts = step_parts(runs)
    runs["error"] = parts.step_ms / runs["measured_ms"] - 1
    runs["kernels_error"] = parts.kernels_ms / runs["measured_ms"] - 1
    composed = bool((runs["source"] == COMPOSED_SOURCE).all())
    print("error = world / measured - 1 of decode_step_ms; bias is its mean")
    _print_errors("all rows in scope", runs, lambda r: pd.Series("all", index=r.index))
    _print_errors("by GPU", runs, lambda r: r["gpu"])
    _print_errors("by model", runs, lambda r: r["model"])
    _print_errors("by GPU, weights, cache", runs, _dtypes)
    held = runs[runs["model"].isin(HELD_ASIDE)]
    if composed:
        print(f"held aside while calibrating: {', '.join(HELD_ASIDE)}; {TWIN}, whose layers are")
        print("those of a model that is calibrated on, is compared above and proves nothing here")
        _print_errors("held aside, all", held, lambda r: pd.Series("all", index=r.index))
        _print_errors("held aside, by GPU", held, lambda r: r["gpu"])
        kernels = runs["kernels_error"]
        print(
            "composed rows hold no host time; against the world's kernels alone:"
            f" median |error| {kernels.abs().median():.3f}, bias {kernels.mean():+.3f}"
        )
    _print_scope(measured, reason)
    if composed:
        return 0 if _goal_met(runs, "all rows") & _goal_met(held, "held aside") else 1
    _print_errors("by framework", runs, lambda r: r["framework"])
    offset = (runs["measured_ms"] / parts.step_ms).median()
    print(
        f"median measured / world {offset:.2f}: engines of 2024 took 1.2 to 1.5 times the sum of"
        " their kernels; the world stands for the kernels of 2025 with little host time"
    )
    return 0


def _dtypes(runs: pd.DataFrame) -> pd.Series:
    return runs["gpu"] + " " + runs["weight_dtype"] + " / " + runs["kv_dtype"]


def _print_errors(title: str, runs: pd.DataFrame, key: Callable[[pd.DataFrame], pd.Series]) -> None:
    print(f"{title:34}{'rows':>7}{'median |e|':>12}{'mean |e|':>10}{'bias':>8}{'median e':>10}")
    for name, errors in runs["error"].groupby(key(runs)):
        print(
            f"  {name:32}{len(errors):>7}{errors.abs().median():>12.3f}"
            f"{errors.abs().mean():>10.3f}{errors.mean():>+8.3f}{errors.median():>+10.3f}"
        )


def _print_scope(measured: pd.DataFrame, reason: pd.Series) -> None:
    print("out of scope, and why:")
    for why, n_rows in reason[reason != ""].value_counts().items():
        rows = measured[reason == why]
        formats = ", ".join(sorted(rows["weight_dtype"].astype(str).unique()))
        print(f"  {n_rows:>6} rows ({formats}): {why}")


def _goal_met(runs: pd.DataFrame, whose: str) -> bool:
    median = float(runs["error"].abs().median())
    biases = runs.groupby("gpu")["error"].mean()
    worst = str(biases.abs().idxmax())
    met = median <= MEDIAN_ERROR_GOAL and bool((biases.abs() <= BIAS_GOAL).all())
    print(
        f"goal, {whose}: median |error| {median:.3f} (at most {MEDIAN_ERROR_GOAL:.2f}), largest"
        f" bias {biases[worst]:+.3f} on {worst} (at most {BIAS_GOAL:.2f}):"
        f" {'met' if met else 'MISSED'}"
    )
    return met
