"""The checks of milestone 1: each reads one part of every profile, or one family of baselines."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from milestones.compare import (
    TruthError,
    first_failure,
    how_far,
    is_number,
    kind_of,
    right_number,
)
from milestones.spec import Answer, Answers, Files, Verdict, check, failed, passed

TRUTH = "m1_profile_runs/answers.json"
COUNTS = ("n_runs", "n_models", "n_gpus")
CONTEXTS = ("context_len_min", "context_len_median", "context_len_max")
SPEEDS = ("tokens_per_s_min", "tokens_per_s_max", "throughput_ratio")
LAYOUTS, SHARES = ("runs_by_attention",), ("share_by_gpu",)
EXACT = 0.0  # counts and positions in a sorted column involve no rounding
DIVIDED = 1e-9  # relative: one or two float operations on six-digit labels, some 1e-15 apart
R2_WITHIN = 1e-6
"""Absolute. The drawn designs have condition numbers of at most 200 standardised and some 1e5 raw:
solvers agree on R² within 1e-9, even normal equations. Named mistakes are 1e-4 or more off on some
pair of tables."""


@check(points=1.5, topics=["profile"], reads=COUNTS)
def counts(answers: Answers, truth: Files) -> Verdict:
    """You count the runs, the different models and the different GPUs of any table."""
    return _parts_agree(answers, truth, COUNTS, EXACT)


@check(points=1.5, topics=["profile"], reads=LAYOUTS)
def attention_layouts(answers: Answers, truth: Files) -> Verdict:
    """`runs_by_attention` counts MHA, GQA and MQA, with a 0 for a layout the table lacks."""
    return _parts_agree(answers, truth, LAYOUTS, EXACT)


@check(points=1.5, topics=["profile"], reads=CONTEXTS)
def context_lengths(answers: Answers, truth: Files) -> Verdict:
    """The shortest, the median and the longest context are right, for odd and even tables."""
    return _parts_agree(answers, truth, CONTEXTS, EXACT)


@check(points=1.5, topics=["profile"], reads=SPEEDS)
def throughput_range(answers: Answers, truth: Files) -> Verdict:
    """You find slowest and fastest throughput and their ratio: above 7,000 in `data/train.csv`."""
    return _parts_agree(answers, truth, SPEEDS, DIVIDED)


@check(points=1, topics=["profile"], reads=SHARES)
def share_by_gpu(answers: Answers, truth: Files) -> Verdict:
    """`share_by_gpu` gives each GPU of the table its fraction of the runs; they sum to one."""
    return _parts_agree(answers, truth, SHARES, DIVIDED)


@check(points=2, topics=["baseline"])
def linear_baseline(answers: Answers, truth: Files) -> Verdict:
    """A linear regression on the 14 raw columns of `data/train.csv` scores right on new tables."""
    return _r2_agrees(answers.under("baseline"), truth)


@check(points=1, topics=["between"])
def baseline_from_any_table(answers: Answers, truth: Files) -> Verdict:
    """The baseline is fitted on whichever table is passed as `train`, and scored on `test`."""
    return _r2_agrees(answers.under("between"), truth)


CHECKS = (
    counts,
    attention_layouts,
    context_lengths,
    throughput_range,
    share_by_gpu,
    linear_baseline,
    baseline_from_any_table,
)


# ---------------------------------------------------------------- comparing one part


def _parts_agree(answers: Answers, truth: Files, names: tuple[str, ...], rel: float) -> Verdict:
    expected = truth.json(TRUTH)
    return first_failure(
        _part_agrees(answer, name, expected[answer.call.id], rel)
        for name in names
        for answer in answers.under("profile")
    )


def _part_agrees(answer: Answer, name: str, truth: Mapping[str, Any], rel: float) -> Verdict:
    profile, right = answer.value, truth[name]
    if not isinstance(profile, dict):
        return failed(
            f"{answer.call} returned {kind_of(profile)}.", "`profile_runs` must return a dict."
        )
    if name not in profile:
        return failed(f"It holds {kind_of(profile)}.", f"The profile has no {name!r}.")
    if name in (*LAYOUTS, *SHARES):
        whole = 1.0 if name in SHARES else right_number(truth["n_runs"])
        if not math.isclose(sum(map(right_number, right.values())), whole, rel_tol=DIVIDED):
            raise TruthError(f"{name} does not add up")
        return _shares_agree(answer, name, profile[name], right, rel)
    return _number_agrees(answer, name, profile[name], right, rel)


def _shares_agree(
    answer: Answer, name: str, value: Any, right: Mapping[str, float], rel: float
) -> Verdict:
    if not isinstance(value, dict):
        return failed(f"{answer.call} has {kind_of(value)} there.", f"{name!r} must be a dict.")
    if value.keys() != right.keys():
        return failed(
            f"{answer.call} has {', '.join(sorted(value)) or 'none'} "
            f"where {', '.join(sorted(right))} belong.",
            f"{name!r} does not have the right keys.",
        )
    return first_failure(
        _number_agrees(answer, f"{name}[{key!r}]", value[key], share, rel, told=name)
        for key, share in right.items()
    )


def _number_agrees(
    answer: Answer, name: str, value: Any, right: float, rel: float, told: str = ""
) -> Verdict:
    remark = f"{told or name!r} is not right for every table."
    right = right_number(right)
    if not is_number(value):
        return failed(f"{answer.call} has {kind_of(value)} at {name}.", remark)
    if not math.isclose(value, right, rel_tol=rel, abs_tol=0.0):
        return failed(f"In {answer.call}, {name} is {how_far(value, right)}.", remark)
    return passed()


def _r2_agrees(answers: Iterator[Answer], truth: Files) -> Verdict:
    expected = truth.json(TRUTH)
    for answer in answers:
        right = right_number(expected[answer.call.id])
        if not is_number(answer.value):
            return failed(
                f"{answer.call} returned {kind_of(answer.value)}.",
                "`linear_baseline_r2` must return one number.",
            )
        if not abs(answer.value - right) <= R2_WITHIN:
            return failed(
                f"{answer.call} returned {answer.value:.6f}; right is {right:.6f}.",
            )
    return passed()
