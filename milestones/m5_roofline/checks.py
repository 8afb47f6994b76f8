"""The checks of milestone 5: each term alone, then what the four predict together."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from milestones.compare import array_agrees, first_failure, named, right_array, same_again
from milestones.compared import Compared
from milestones.predicted_steps import cut_the_mape, cut_the_r2, judge_mape, judge_r2, usable
from milestones.runs import RAW_COLUMNS
from milestones.spec import (
    Answer,
    Answers,
    Compare,
    Files,
    ReadTable,
    Table,
    Verdict,
    check,
    failed,
    passed,
)
from milestones.understanding import understanding_checks

RTOL = 1e-6  # room for single precision; the smallest real slip (1000 for 1024) is 2 %
MAPE_BAR = 0.09  # the contract's; a roofline of real runs, all dtypes, has 0.098 (measured data)
R2_BAR = 0.95  # a sound roofline has 0.965 to 0.99; without its overhead it is below 0
OVERHEAD, WEIGHTS, KV, FLOPS = range(4)
PHYSICS = ("weight_term", "kv_term", "compute_term")  # the terms that leave no choice
NAMES = ("overhead", "weight", "KV", "FLOPs")
STORED = ("", "weight_ms", "kv_ms", "flops_ms")  # what the truth calls each term
OF_A_TOKEN = ("n_layers", "n_kv_heads", "head_dim", "kv_bits")
MADE_OF = (
    ("n_layers", "batch_size"),
    ("params_b", "weight_bits", "gpu_bandwidth_gbps"),
    (*OF_A_TOKEN, "context_len", "batch_size", "gpu_bandwidth_gbps"),
    ("params_b", "batch_size", "gpu_tflops"),
)
"""The columns that a row of each term is shown with."""


def term_beside(column: int) -> Compare:
    """Put one term of every run beside the right one; its row's columns are the quantities."""

    def compare(answers: Answers, truth: Files, read_table: ReadTable) -> list[Compared]:
        right = _truth(truth)
        value, fault = _terms(answers.by_id["terms"], len(right["kv_ms"]))
        if not fault.passed:
            return []
        runs = read_table("questions/runs.csv")
        others = {f"term {i + 1}": right[name] for i, name in enumerate(STORED) if name}
        del others[f"term {column + 1}"]
        quantities = {name: runs[name].to_numpy(dtype=float) for name in RAW_COLUMNS}
        of_the_term = right[STORED[column]]
        return [
            Compared(
                value[:, column],
                of_the_term,
                quantities,
                others,
                rows=True,
                of_row=MADE_OF[column],
            )
        ]

    return compare


def _predicted_steps(answers: Answers, n_rows: int) -> np.ndarray:
    predicted, fault = _predicted(answers, n_rows)
    return predicted if fault.passed else np.full(n_rows, np.nan)


@check(
    points=1.5,
    topics=["terms"],
    reads=[WEIGHTS],
    compare=term_beside(WEIGHTS),
    think="How many bytes do all weights take, and how long does the GPU's memory need to read "
    "them once? One GB/s is 1e6 bytes in a ms.",
)
def weight_term(answers: Answers, truth: Files) -> Verdict:
    """Term 2 is the time to read every weight once at spec bandwidth, in ms."""
    return _exact(answers.by_id["terms"], WEIGHTS, _truth(truth)["weight_ms"])


@check(
    points=2,
    topics=["terms"],
    reads=[KV],
    compare=term_beside(KV),
    think="A step reads the cache of every request of the batch, over its whole context: keys "
    "and values, of each layer and KV head.",
)
def kv_term(answers: Answers, truth: Files) -> Verdict:
    """Term 3 is the time to read the cache of the whole batch at spec bandwidth, in ms."""
    return _exact(answers.by_id["terms"], KV, _truth(truth)["kv_ms"])


@check(
    points=1.5,
    topics=["terms"],
    reads=[FLOPS],
    compare=term_beside(FLOPS),
    think="Each parameter is used once a token: a multiplication and an addition, for every "
    "request of the batch. One TFLOP/s is 1e9 operations in a ms.",
)
def compute_term(answers: Answers, truth: Files) -> Verdict:
    """Term 4 is the arithmetic of the whole batch at peak, in ms, with attention's or without."""
    expected = _truth(truth)
    low, attention = expected["flops_ms"], expected["attention_ms"]
    value, fault = _terms(answers.by_id["terms"], len(low))
    if not fault.passed:
        return fault
    wrong = ~_between(value[:, FLOPS], low, low + attention)
    if not wrong.any():
        return passed()
    first = int(np.argmax(wrong))
    return failed(
        f"{value[first, FLOPS]:,.6g} ms where {low[first]:,.6g} was expected, or up to "
        f"{attention[first]:,.6g} more with attention's operations.",
        f"Off in {int(wrong.sum()):,} of {len(low):,} rows.",
        asked="roofline_terms(runs), term 4",
        row=first,
    )


@check(
    points=1.5,
    topics=["terms", "altered"],
    needs=PHYSICS,
    reads=[OVERHEAD],
    think="What does a step cost that no bandwidth and no peak makes shorter? Launching layers, "
    "and serving each request.",
)
def overhead_term(answers: Answers, truth: Files) -> Verdict:
    """Term 1, the overhead, depends on n_layers and batch_size and on nothing else."""
    expected = _truth(truth)
    value, fault = _terms(answers.by_id["terms"], len(expected["kv_ms"]))
    if not fault.passed:
        return fault
    overhead = value[:, OVERHEAD]
    if not (np.isfinite(overhead).all() and (overhead > 0).all()):
        return failed("", "an overhead is a finite, positive time: no step comes without one")
    pairs = np.column_stack([expected["n_layers"], expected["batch_size"]])
    _, group = np.unique(pairs, axis=0, return_inverse=True)
    low, high = np.full(group.max() + 1, np.inf), np.zeros(group.max() + 1)
    np.minimum.at(low, group, overhead)
    np.maximum.at(high, group, overhead)
    same = _between(low, high, high)
    if not same.all():
        members = np.flatnonzero(group == np.argmin(same))
        one, other = (int(members[pick(overhead[members])]) for pick in (np.argmin, np.argmax))
        return failed(
            f"{overhead[one]:,.6g} ms in row {one} and {overhead[other]:,.6g} ms in row {other}.",
            "two runs with the same n_layers and batch_size have different overheads",
            asked=f"{named(answers.by_id['terms'].call)}, term 1",
        )
    return _reacts(answers, truth, [OVERHEAD])


@check(
    points=1.5,
    topics=["altered"],
    reads=[WEIGHTS, KV, FLOPS],
    think="Which columns is this term made of? Only those may move it, and in proportion.",
)
def altered_rows(answers: Answers, truth: Files) -> Verdict:
    """Change one thing about a run, and each term reacts as its name says: twice the bandwidth
    halves terms 2 and 3 and nothing else, twice the peak halves term 4, and a name means nothing.
    """
    return _reacts(answers, truth, [WEIGHTS, KV, FLOPS])


@check(
    points=1,
    topics=["terms", "apart"],
    needs=PHYSICS,
    think="Is a mean, a maximum or a sort over the whole table used on the way? Each row stands "
    "for itself.",
)
def row_by_row(answers: Answers, truth: Files) -> Verdict:
    """A run's terms are the same in any table: shuffled, among other rows, or alone."""
    whole, fault = _terms(answers.by_id["terms"], len(_truth(truth)["kv_ms"]))
    if not fault.passed:
        return fault
    apart = list(answers.under("apart"))
    return first_failure(
        [
            *(_same_rows(answer, whole) for answer in apart),
            # the second run asks in another order: what is remembered between calls shows there
            same_again(answers, ["terms", *(answer.call.id for answer in apart)]),
        ]
    )


@check(
    points=1.5,
    topics=["coefficients"],
    needs=PHYSICS,
    think="Each coefficient says how many times longer than at spec speed a part takes: four of "
    "them, none below 0.",
)
def coefficients(answers: Answers, truth: Files) -> Verdict:  # noqa: ARG001
    """`fit_roofline` returns four finite numbers, none negative, the same on a second run."""
    value = np.asarray(answers.value("coefficients"))
    if value.shape != (4,):
        told = f"An array of shape {value.shape}; four numbers were expected."
        return failed(told, "the coefficients are not four numbers", asked="fit_roofline(train)")
    if not np.isfinite(value).all():
        return failed("", "a coefficient is NaN or infinite")
    if (value < 0).any():
        return failed("", "a coefficient is negative: no part of a step takes less than no time")
    return same_again(answers, ["coefficients"])


TERMS_ARE_RIGHT = (
    "weight_term",
    "kv_term",
    "compute_term",
    "overhead_term",
    "altered_rows",
    "row_by_row",
    "coefficients",
)


@check(
    points=2.5,
    topics=["terms", "coefficients"],
    needs=TERMS_ARE_RIGHT,
    cut=cut_the_mape(_predicted_steps),
    think="The bar is on relative errors: what does your fit make small, errors in ms or in per "
    "cent?",
)
def step_error(answers: Answers, truth: Files) -> Verdict:
    """Terms times coefficients predict the step with a MAPE of at most 0.09."""
    runs = truth.table("runs.csv")
    predicted, fault = _predicted(answers, len(runs))
    return judge_mape(predicted, runs, MAPE_BAR) if fault.passed else fault


@check(
    points=1,
    topics=["terms", "coefficients"],
    needs=TERMS_ARE_RIGHT,
    cut=cut_the_r2(_predicted_steps),
    think="R² of throughput is about the fastest runs: short steps of large batches. What is a "
    "short step made of?",
)
def throughput_r2(answers: Answers, truth: Files) -> Verdict:
    """The tokens per second that these steps imply have an R² of at least 0.95."""
    runs = truth.table("runs.csv")
    predicted, fault = _predicted(answers, len(runs))
    return judge_r2(predicted, runs, R2_BAR) if fault.passed else fault


CHECKS = (
    weight_term,
    kv_term,
    compute_term,
    overhead_term,
    altered_rows,
    row_by_row,
    coefficients,
    step_error,
    throughput_r2,
    *understanding_checks("m5_roofline"),
)


# ---------------------------------------------------------------- parts


def _truth(truth: Files) -> dict[str, np.ndarray]:
    n_rows = len(truth.table("runs.csv"))
    stored = truth.arrays("m5_roofline/terms.npz")
    return {name: right_array(array, (n_rows,)) for name, array in stored.items()}


def _terms(answer: Answer, n_rows: int) -> tuple[np.ndarray, Verdict]:
    value = np.asarray(answer.value)
    if value.shape != (n_rows, 4):
        told = f"{answer.call.function} returned another shape than (n, 4)"
        shape = f"An array of shape {value.shape}; the table had {n_rows:,} rows."
        return value, failed(shape, told, asked=named(answer.call))
    return value, passed()


def _exact(answer: Answer, column: int, expected: np.ndarray) -> Verdict:
    value, fault = _terms(answer, len(expected))
    if not fault.passed:
        return fault
    verdict = array_agrees(Answer(answer.call, value[:, column]), expected, rel=RTOL, unit="ms")
    return (
        replace(verdict, asked=f"{verdict.asked}, term {column + 1}") if verdict.asked else verdict
    )


def _between(value: ArrayLike, low: ArrayLike, high: ArrayLike) -> np.ndarray:
    """Tell of each value whether it lies between two bounds, both >= 0; NaN never does."""
    found, least, most = (np.asarray(part, dtype=float) for part in (value, low, high))
    with np.errstate(invalid="ignore", over="ignore"):  # a student's values may be anything
        return np.asarray((found >= least * (1 - RTOL)) & (found <= most * (1 + RTOL)))


def _reacts(answers: Answers, truth: Files, columns: list[int]) -> Verdict:
    """Compare altered rows with the rows they come from, in the student's own answer."""
    rows: list[dict[str, Any]] = truth.json("m5_roofline/altered.json")
    value, fault = _terms(answers.by_id["altered"], len({row["row"] for row in rows}))
    if not fault.passed:
        return fault
    for column in columns:
        odd: dict[str, list[int]] = {}
        for row in rows:
            low, high = row["low"][column], row["high"][column]
            if low is None:
                continue
            before, after = float(value[row["base"], column]), float(value[row["row"], column])
            if not (0 < before < math.inf and _between(after, low * before, high * before)):
                odd.setdefault(row["change"], []).append(row["row"])
        if odd:
            change = next(iter(odd))
            row = next(r for r in rows if r["change"] == change and r["row"] in odd[change])
            before, after = (float(value[row[which], column]) for which in ("base", "row"))
            return failed(
                f"{before:,.6g} ms in row {row['base']}, and {after:,.6g} ms in row {row['row']}, "
                f"the same run with {change}.",
                f"with {change}, the {NAMES[column]} term (term {column + 1}) should "
                f"{row['expected'][column]}; in {len(odd[change])} of "
                f"{sum(r['change'] == change for r in rows)} runs it does not",
                asked=f"{named(answers.by_id['altered'].call)}, term {column + 1}",
            )
    return passed()


def _same_rows(answer: Answer, whole: np.ndarray) -> Verdict:
    table = answer.call.args["runs"]
    assert isinstance(table, Table)
    assert table.rows is not None
    value, fault = _terms(answer, len(table.rows))
    if not fault.passed:
        return fault
    expected = whole[list(table.rows)]
    same = np.isclose(value, expected, rtol=RTOL, atol=0.0)
    if same.all():
        return passed()
    row, term = (int(i) for i in np.argwhere(~same)[0])
    return failed(
        f"Term {term + 1} of its row {row} is {value[row, term]:,.6g} ms; in the whole table that "
        f"run is row {table.rows[row]} and has {expected[row, term]:,.6g} ms.",
        "the terms of a run change with the other rows of its table",
        asked=named(answer.call),
    )


def _predicted(answers: Answers, n_rows: int) -> tuple[np.ndarray, Verdict]:
    terms, fault = _terms(answers.by_id["terms"], n_rows)
    shares = np.asarray(answers.value("coefficients"))
    if not fault.passed or shares.shape != (4,):
        return terms, failed("", "terms of shape (n, 4) and four coefficients are needed")
    with np.errstate(over="ignore", invalid="ignore"):
        predicted = np.asarray(terms @ shares)
    return predicted, usable(predicted, n_rows)
