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
    named,
    numbers_beside,
    right_number,
)
from milestones.compared import Compared, of_cases
from milestones.spec import (
    Answer,
    Answers,
    Compare,
    Files,
    ReadTable,
    Verdict,
    check,
    failed,
    passed,
)
from milestones.understanding import understanding_checks

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


def _parts(*names: str) -> Compare:
    """Put parts of every profile beside the right ones, one part at a time."""

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        expected = truth.json(TRUTH)
        return [
            of_cases(
                case
                for answer in answers.under("profile")
                for case in _cases(answer.value, expected[answer.call.id], name)
            )
            for name in names
        ]

    return compare


def _cases(
    profile: Any, right: Mapping[str, Any], name: str
) -> Iterator[tuple[Any, Any, Mapping[str, Any]]]:
    counted = {"the number of runs": right["n_runs"], "the number of GPUs": right["n_gpus"]}
    value = profile.get(name) if isinstance(profile, dict) else None
    if not isinstance(right[name], dict):
        yield value, right[name], counted
        return
    for key, share in right[name].items():
        yield value.get(key) if isinstance(value, dict) else None, share, counted


def _of_topic(topic: str) -> Compare:
    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        return [numbers_beside(answers.under(topic), truth.json(TRUTH))]

    return compare


@check(
    points=1,
    topics=["profile"],
    reads=COUNTS,
    compare=_parts(*COUNTS),
    think="Count rows, and different names, of the table that is passed: each table has others.",
)
def counts(answers: Answers, truth: Files) -> Verdict:
    """You count the runs, the different models and the different GPUs of any table."""
    return _parts_agree(answers, truth, COUNTS, EXACT)


@check(
    points=1.5,
    topics=["profile"],
    reads=LAYOUTS,
    compare=_parts(*LAYOUTS),
    think="A layout follows from two columns: MHA where `n_kv_heads` equals `n_heads`, else MQA "
    "where it is 1, else GQA.",
)
def attention_layouts(answers: Answers, truth: Files) -> Verdict:
    """`runs_by_attention` counts MHA, GQA and MQA, with a 0 for a layout the table lacks."""
    return _parts_agree(answers, truth, LAYOUTS, EXACT)


@check(
    points=1.5,
    topics=["profile"],
    reads=CONTEXTS,
    compare=_parts(*CONTEXTS),
    think="Sort the contexts on paper: which is first, which is last, what stands in the middle?",
)
def context_lengths(answers: Answers, truth: Files) -> Verdict:
    """The shortest, the median and the longest context are right, for odd and even tables."""
    return _parts_agree(answers, truth, CONTEXTS, EXACT)


@check(
    points=1.5,
    topics=["profile"],
    reads=SPEEDS,
    compare=_parts(*SPEEDS),
    think="All three come from one column, `tokens_per_s`: its smallest, its largest, and how many "
    "times one is the other.",
)
def throughput_range(answers: Answers, truth: Files) -> Verdict:
    """You find slowest and fastest throughput and their ratio: above 7,000 in `data/train.csv`."""
    return _parts_agree(answers, truth, SPEEDS, DIVIDED)


@check(
    points=1,
    topics=["profile"],
    reads=SHARES,
    compare=_parts(*SHARES),
    think="A share is a GPU's runs over all runs of the table that is passed.",
)
def share_by_gpu(answers: Answers, truth: Files) -> Verdict:
    """`share_by_gpu` gives each GPU of the table its fraction of the runs; they sum to one."""
    return _parts_agree(answers, truth, SHARES, DIVIDED)


@check(
    points=1.5,
    topics=["baseline"],
    compare=_of_topic("baseline"),
    think="Three things make this number: the columns that go in, the table the line is fitted on, "
    "and R² as 1 - SSE / SST on the other table.",
)
def linear_baseline(answers: Answers, truth: Files) -> Verdict:
    """A linear regression on the 14 raw columns of `data/train.csv` scores right on new tables."""
    return _r2_agrees(answers.under("baseline"), truth)


@check(
    points=1,
    topics=["between"],
    compare=_of_topic("between"),
    think="Which table is fitted on, and which is scored? Both are arguments, `train` and `test`.",
)
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
    *understanding_checks("m1_profile_runs"),
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
        told = "`profile_runs` must return a dict."
        return failed(f"{kind_of(profile)}.", told, asked=named(answer.call))
    if name not in profile:
        told = f"The profile has no {name!r}."
        return failed(f"{kind_of(profile)}.", told, asked=named(answer.call))
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
        told = f"{name!r} must be a dict."
        return failed(f"`{name}` is {kind_of(value)}.", told, asked=named(answer.call))
    if value.keys() != right.keys():
        return failed(
            f"`{name}` has the keys {', '.join(sorted(value)) or 'none'}; "
            f"{', '.join(sorted(right))} belong there.",
            f"{name!r} does not have the right keys.",
            asked=named(answer.call),
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
        came_back = f"`{name}` is {kind_of(value)}; a number was expected."
        return failed(came_back, remark, asked=named(answer.call))
    if not math.isclose(value, right, rel_tol=rel, abs_tol=0.0):
        return failed(f"`{name}` is {how_far(value, right)}.", remark, asked=named(answer.call))
    return passed()


def _r2_agrees(answers: Iterator[Answer], truth: Files) -> Verdict:
    expected = truth.json(TRUTH)
    for answer in answers:
        right = right_number(expected[answer.call.id])
        if not is_number(answer.value):
            return failed(
                f"{kind_of(answer.value)}.",
                "`linear_baseline_r2` must return one number.",
                asked=named(answer.call),
            )
        if not abs(answer.value - right) <= R2_WITHIN:
            return failed(
                f"An R² of {answer.value:.6f}; {right:.6f} was expected.", asked=named(answer.call)
            )
    return passed()
