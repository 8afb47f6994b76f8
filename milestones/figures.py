"""The two figures every model of this course is judged by: MAPE and R²."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from milestones.spec import Verdict

MOST_TOLD = 10.0  # a larger figure is one of a model that is broken, or of a label that is sought


def mape(predicted: ArrayLike, actual: ArrayLike) -> float:
    """Return the mean absolute percentage error, as a fraction: mean of |p - y| / y."""
    y = _labels(actual)
    return float(np.mean(np.abs(np.asarray(predicted, dtype=float) - y) / y))


def r2(predicted: ArrayLike, actual: ArrayLike) -> float:
    """Return the coefficient of determination, 1 - SSE / SST about the mean of `actual`."""
    y = _labels(actual)
    residual = np.asarray(predicted, dtype=float) - y
    return float(1 - np.sum(residual**2) / np.sum((y - y.mean()) ** 2))


def _labels(actual: ArrayLike) -> np.ndarray:
    y = np.asarray(actual, dtype=float)
    if not np.isfinite(y).all():  # else a figure of nothing would fail the predictions
        raise ValueError("a label is no finite number")
    return y


def bootstrap_interval(
    per_row: np.ndarray, n_draws: int = 200, level: float = 0.95
) -> tuple[float, float]:
    """Return the interval that the mean of `per_row` has when the rows are drawn again.

    A fixed seed makes the same answers give the same interval.
    """
    rng = np.random.default_rng(0)
    means = np.sort(
        [per_row[rng.integers(0, len(per_row), len(per_row))].mean() for _ in range(n_draws)]
    )
    tail = (1 - level) / 2
    return float(np.quantile(means, tail)), float(np.quantile(means, 1 - tail))


def _told(figure: float) -> str:
    """Say a figure; of one that is far off, its size says less than the digits would give away."""
    if abs(figure) > MOST_TOLD:
        return f"above {MOST_TOLD:g}" if figure > 0 else f"below {-MOST_TOLD:g}"
    return f"{figure:.4f}"


def at_most(
    figure: float, bar: float, name: str, interval: tuple[float, float] | None = None
) -> Verdict:
    """Judge a figure that must not exceed its bar; up to 1.25 times the bar earns half."""
    share = 1.0 if figure <= bar else 0.5 if figure <= 1.25 * bar else 0.0
    return _judged(figure, bar, share, name, interval)


def at_least(
    figure: float, bar: float, name: str, interval: tuple[float, float] | None = None
) -> Verdict:
    """Judge a figure of at most 1 that must reach its bar; half is earned while the shortfall
    from a perfect 1 stays within 1.25 times the one the bar allows.
    """
    share = 1.0 if figure >= bar else 0.5 if 1 - figure <= 1.25 * (1 - bar) else 0.0
    return replace(_judged(figure, bar, share, name, interval), highest_is_best=True)


def _judged(
    figure: float, bar: float, share: float, name: str, interval: tuple[float, float] | None
) -> Verdict:
    close = interval is not None and interval[0] <= bar <= interval[1]
    half = "half the points: within a quarter of the bar" if share == 0.5 else ""
    remark = "; ".join(
        part
        for part in (
            "" if share == 1.0 else f"{name} is {_told(figure)}; the bar is {bar:g}",
            half,
            "too close to call: another draw of the runs could fall on the other side of the bar"
            if close
            else "",
        )
        if part
    )
    shown = name.removeprefix("the ")
    return Verdict(share, remark=remark, figure=figure, bar=bar, figure_name=shown)
