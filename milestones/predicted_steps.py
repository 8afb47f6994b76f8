"""Judging predicted decode steps of a split's runs: usable at all, then their two figures."""

from __future__ import annotations

import numpy as np
import pandas as pd

from milestones.figures import at_least, at_most, bootstrap_interval, mape, r2
from milestones.spec import Verdict, failed, passed

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
