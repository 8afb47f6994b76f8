"""Judging predicted decode steps of a split's runs: usable at all, then their two figures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from milestones.diagnosis import Breakdown
from milestones.figures import at_least, at_most, bootstrap_interval, mape, r2
from milestones.slices import cut_by, where_error_lies
from milestones.spec import Answers, Cut, Files, ReadTable, Verdict, failed, passed

SHORTEST_MS, LONGEST_MS = 1e-6, 1e7
"""A nanosecond and three hours: nothing outside is the time of a decode step."""


def usable(predicted: np.ndarray, n_runs: int) -> Verdict:
    """Tell whether there is one positive, finite, possible time in ms for each run."""
    if predicted.shape != (n_runs,):
        detail = f"Their shape is {predicted.shape}; there are {n_runs:,} runs."
        return failed(detail, "the predictions are not one number a run")
    if not np.isfinite(predicted).all():
        n_odd = int((~np.isfinite(predicted)).sum())
        return failed("", f"{n_odd:,} of {n_runs:,} predictions are NaN or infinite")
    if (predicted <= 0).any():
        n_odd = int((predicted <= 0).sum())
        return failed("", f"{n_odd:,} of {n_runs:,} predictions are zero or negative")
    if predicted.min() < SHORTEST_MS or predicted.max() > LONGEST_MS:
        return failed("", "some predictions are below a nanosecond or above three hours")
    return passed()


def judge_mape(predicted: np.ndarray, runs: pd.DataFrame, bar: float) -> Verdict:
    """Judge the MAPE of usable predictions, shape (n,) in ms, of the labelled `runs`."""
    actual = runs["decode_step_ms"].to_numpy(dtype=float)
    interval = bootstrap_interval(np.abs(predicted - actual) / actual)
    return at_most(mape(predicted, actual), bar, "the MAPE of decode_step_ms", interval)


def judge_r2(predicted: np.ndarray, runs: pd.DataFrame, bar: float) -> Verdict:
    """Judge the R² of tokens_per_s that usable predictions of the step, shape (n,), imply."""
    actual = runs["tokens_per_s"].to_numpy(dtype=float)
    # tokens_per_s is 1000 x batch / step, so the batch cancels out
    implied = actual * runs["decode_step_ms"].to_numpy(dtype=float) / predicted
    per_row = 1 - (implied - actual) ** 2 / np.var(actual)  # their mean is the R²
    interval = bootstrap_interval(per_row)
    return at_least(r2(implied, actual), bar, "the R² of tokens_per_s", interval)


Predicted = Callable[[Answers, int], np.ndarray]
"""Returns the predictions of so many runs that the answers hold, whether they are usable or not."""


def cut_the_mape(predicted_by: Predicted) -> Cut:
    """Return the breakdown of a MAPE: each run counts by its relative error."""

    def weight(predicted: np.ndarray, labels: pd.DataFrame) -> np.ndarray:
        actual = labels["decode_step_ms"].to_numpy(dtype=float)
        off_by: np.ndarray = np.abs(predicted - actual) / actual
        return off_by

    return _cut(predicted_by, weight, "Where the error lies")


def cut_the_r2(predicted_by: Predicted) -> Cut:
    """Return the breakdown of an R²: each run counts by its squared error of tokens_per_s."""

    def weight(predicted: np.ndarray, labels: pd.DataFrame) -> np.ndarray:
        actual = labels["decode_step_ms"].to_numpy(dtype=float)
        speed = labels["tokens_per_s"].to_numpy(dtype=float)
        off_by: np.ndarray = (speed * actual / predicted - speed) ** 2
        return off_by

    return _cut(predicted_by, weight, "Where the squared error of tokens_per_s lies")


def _cut(
    predicted_by: Predicted, weight: Callable[[np.ndarray, pd.DataFrame], np.ndarray], title: str
) -> Cut:
    """Return the breakdown of usable predictions by what `weight` says each run counts, (n,)."""

    def cut(answers: Answers, truth: Files, read_table: ReadTable) -> Breakdown | None:
        labels = truth.table("runs.csv")
        predicted = predicted_by(answers, len(labels))
        if not usable(predicted, len(labels)).passed:
            return None
        cuts = cut_by(read_table("questions/runs.csv"), read_table("data/train.csv"))
        actual = labels["decode_step_ms"].to_numpy(dtype=float)
        return where_error_lies(cuts, predicted, actual, weight(predicted, labels), title)

    return cut
