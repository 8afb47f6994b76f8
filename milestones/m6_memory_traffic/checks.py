"""The checks of milestone 6: the traffic, predictions that stand on their own, and their error."""

from __future__ import annotations

import numpy as np

from milestones.compare import (
    array_agrees,
    first_failure,
    right_array,
    right_number,
    same_again,
)
from milestones.figures import mape
from milestones.predicted_steps import judge_mape, judge_r2, usable
from milestones.spec import Answer, Answers, Files, Table, Verdict, check, failed, passed

EXACT_RTOL = 1e-6  # room for single precision; the smallest real slip (1000 for 1024) is 2 %
ALONE_RTOL = 1e-5  # a network in single precision rounds one row and many rows differently
SENSE_BAR = 0.5  # all bytes over the bandwidth, unfitted, has 0.4; the best constant 0.7
MAPE_BAR = 0.062  # the contract's; the best tuned boosting on raw columns has 0.066 or more
R2_BAR = 0.97  # the contract's; a sound traffic model has 0.98
WEIGHTS, KV = range(2)


@check(points=1.5, topics=["features"], reads=[WEIGHTS])
def weight_bytes(answers: Answers, truth: Files) -> Verdict:
    """`weight_bytes` is what a step reads of the weights: every parameter once, in bytes."""
    return _column(answers.by_id["features"], WEIGHTS, _traffic(truth)["weight_bytes"])


@check(points=2.5, topics=["features"], reads=[KV])
def kv_bytes_read(answers: Answers, truth: Files) -> Verdict:
    """`kv_bytes_read` is what a step reads of the cache: that of the whole batch, in bytes."""
    return _column(answers.by_id["features"], KV, _traffic(truth)["kv_bytes_read"])


@check(points=1.5, topics=["fit", "predictions"])
def usable_predictions(answers: Answers, truth: Files) -> Verdict:
    """Every run gets a positive, finite time in ms that makes sense: a MAPE of at most 0.5."""
    runs, predicted = truth.table("runs.csv"), _values(answers.by_id["predictions"])
    fault = usable(predicted, len(runs))
    if not fault.passed:
        return fault
    error = mape(predicted, runs["decode_step_ms"])
    if error > SENSE_BAR:
        return failed("", f"the predictions are off by {error:.0%} on average: check their unit")
    return passed()


@check(points=2, topics=["fit", "predictions", "apart"], needs=["usable_predictions"])
def row_by_row(answers: Answers, truth: Files) -> Verdict:  # noqa: ARG001
    """A run's prediction is the same in any table, shuffled, among other rows or alone, and the
    same when the notebook is run again and asked in another order.
    """
    whole = _values(answers.by_id["predictions"])
    apart = list(answers.under("apart"))
    return first_failure(
        [
            *(_same_rows(answer, whole) for answer in apart),
            same_again(answers, ["predictions", *(answer.call.id for answer in apart)]),
        ]
    )


@check(points=1.5, topics=["fit", "names"], needs=["usable_predictions"])
def names_mean_nothing(answers: Answers, truth: Files) -> Verdict:
    """A prediction does not change when run_id, model and gpu get other names."""
    before = _values(answers.by_id["names/as_they_are"])
    after = _values(answers.by_id["names/renamed"])
    n_rows = right_number(truth.json("m6_memory_traffic/names.json")["n_rows"])
    if before.shape != (n_rows,) or after.shape != (n_rows,):
        return failed("", "expected one number a run")
    n_changed = int((~_close(after, before)).sum())
    if n_changed == 0:
        return passed()
    return failed("", f"other names change {n_changed:,} of {n_rows:,} predictions")


@check(points=4, topics=["fit", "predictions"], needs=["usable_predictions"])
def step_error(answers: Answers, truth: Files) -> Verdict:
    """The predicted step has a MAPE of at most 0.062."""
    runs, predicted = truth.table("runs.csv"), _values(answers.by_id["predictions"])
    fault = usable(predicted, len(runs))
    return judge_mape(predicted, runs, MAPE_BAR) if fault.passed else fault


@check(points=2, topics=["fit", "predictions"], needs=["usable_predictions"])
def throughput_r2(answers: Answers, truth: Files) -> Verdict:
    """The tokens per second that these steps imply have an R² of at least 0.97."""
    runs, predicted = truth.table("runs.csv"), _values(answers.by_id["predictions"])
    fault = usable(predicted, len(runs))
    return judge_r2(predicted, runs, R2_BAR) if fault.passed else fault


CHECKS = (
    weight_bytes,
    kv_bytes_read,
    usable_predictions,
    row_by_row,
    names_mean_nothing,
    step_error,
    throughput_r2,
)


# ---------------------------------------------------------------- parts


def _traffic(truth: Files) -> dict[str, np.ndarray]:
    n_rows = len(truth.table("runs.csv"))
    stored = truth.arrays("m6_memory_traffic/traffic.npz")
    return {name: right_array(array, (n_rows,)) for name, array in stored.items()}


def _values(answer: Answer) -> np.ndarray:
    """Return predictions as one row of numbers; a single column, as some models give, is one."""
    value = np.asarray(answer.value)
    return value[:, 0] if value.ndim == 2 and value.shape[1] == 1 else value


def _column(answer: Answer, column: int, expected: np.ndarray) -> Verdict:
    value = np.asarray(answer.value)
    if value.shape != (len(expected), 2):
        detail = f"Its two columns have the shape {value.shape}; there are {len(expected):,} runs."
        return failed(detail, "the DataFrame has not one row a run")
    return array_agrees(Answer(answer.call, value[:, column]), expected, rel=EXACT_RTOL)


def _close(value: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(np.isclose(value, other, rtol=ALONE_RTOL, atol=0.0))


def _same_rows(answer: Answer, whole: np.ndarray) -> Verdict:
    table = answer.call.args["runs"]
    assert isinstance(table, Table)
    assert table.rows is not None
    value, expected = _values(answer), whole[list(table.rows)]
    if value.shape != expected.shape:
        asked = f"{len(expected):,} run{'s' if len(expected) > 1 else ''}"
        told = f"asked for {asked}, `predict_step_ms` gave another number of predictions"
        return failed(f"Their shape is {value.shape}.", told)
    if _close(value, expected).all():
        return passed()
    how = "when it is asked alone" if len(expected) == 1 else "with the other rows of its table"
    return failed("", f"the prediction of a run changes {how}")
