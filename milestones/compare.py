"""Comparisons that checks share: each says what came back, and how far off, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from milestones.compared import Compared, of_cases
from milestones.spec import CUT, Answer, Answers, Call, Problem, Table, Verdict, failed, passed


class TruthError(Exception):
    """The truth of a split is not what belongs there: a fault of the split, of no answer."""


def right_number(value: Any) -> float:
    """Return a number of the truth.

    Raises:
        TruthError: it is no finite number.
    """
    if not is_number(value) or not math.isfinite(value):
        raise TruthError(f"{value!r} where a number belongs")
    found: float = value
    return found


def right_array(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return an array of the truth.

    Raises:
        TruthError: it has another shape, or holds no numbers, or other things.
    """
    numeric = value.dtype.kind in "iuf" and value.size > 0 and bool(np.isfinite(value).all())
    if value.shape != shape or not numeric:
        raise TruthError(f"an array of {value.dtype}, {value.shape}, where {shape} belongs")
    return value


def is_number(value: Any) -> bool:
    """Tell whether a JSON value is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def shown(number: float) -> str:
    """Show a number as a person writes it: whole ones in full, others to six digits."""
    if abs(number) < 1e15 and number == int(number):  # beyond, a float no longer knows its units
        return f"{int(number):,}"
    return f"{number:,.6g}"


FEW = 2  # a whole number as near as this is told by the difference


def how_far(value: float, expected: float, unit: str = "") -> str:
    """Say how far a number is from the expected one, as a factor where that reads better."""
    unit = f" {_of_one(unit) if value == 1 else unit}" if unit else ""
    if not math.isfinite(value):
        return f"{value} where {shown(expected)}{unit} was expected"
    if expected == 0 or value == 0:
        return f"{shown(value)}{unit} where {shown(expected)} was expected"
    ratio = value / expected
    few = value == int(value) and expected == int(expected) and abs(value - expected) <= FEW
    if few or abs(ratio - 1) < 1e-4:  # a percentage would read 0.00
        return f"{shown(value)}{unit}, off by {shown(value - expected)}"
    if 0.8 < ratio < 1.25:
        return f"{shown(value)}{unit}, {abs(ratio - 1):.2%} too {'high' if ratio > 1 else 'low'}"
    if 0 < ratio < 0.1:
        return f"{shown(value)}{unit}, {_factor(1 / ratio)} times too small"
    return f"{shown(value)}{unit}, which is {_factor(ratio)} times the right value"


def _factor(ratio: float) -> str:
    """Show a factor to four digits, a large one in full where it is whole."""
    whole = round(ratio) if abs(ratio) < 1e9 else 0
    return f"{whole:,}" if whole and abs(ratio / whole - 1) < 1e-9 else f"{ratio:.4g}"


def _of_one(unit: str) -> str:
    return unit.removesuffix("s") if len(unit) > 2 else unit  # a request, and a ms


def named(call: Call) -> str:
    """Show a call, its name if its arguments are too long to be shown, and where its tables lie."""
    told = str(call)
    if CUT in told:
        told += f", question {call.id}"
    tables = [value for value in call.args.values() if isinstance(value, Table)]
    places = dict.fromkeys(f"{table.name} is {table.path}" for table in tables)
    return f"{told}, where {' and '.join(places)}" if places else told


def numbers_agree(
    answers: Iterable[Answer], expected: Mapping[str, float], rel: float = 0.0, unit: str = ""
) -> Verdict:
    """Compare numeric answers with `expected` by call id, within a relative tolerance."""
    wrong, n_asked = [], 0
    for answer in answers:
        n_asked += 1
        right = right_number(expected[answer.call.id])
        if not is_number(answer.value):
            wrong.append((answer.call, f"{kind_of(answer.value)}; one number was expected."))
        elif not math.isclose(answer.value, right, rel_tol=rel, abs_tol=0.0):
            wrong.append((answer.call, f"{how_far(answer.value, right, unit)}."))
    if not wrong:
        return passed()
    call, came_back = wrong[0]
    told = f"Off in {len(wrong)} of {n_asked} answers." if n_asked > 1 else ""
    return failed(came_back, told, asked=named(call))


def numbers_beside(
    answers: Iterable[Answer],
    expected: Mapping[str, float],
    *,
    whole: bool = False,
    name: str = "",
) -> Compared:
    """Put numeric answers beside the right ones, each with the numbers of its question."""
    return of_cases(
        (
            (
                answer.value,
                right_number(expected[answer.call.id]),
                {name: value for name, value in answer.call.args.items() if is_number(value)},
            )
            for answer in answers
        ),
        whole=whole,
        name=name,
    )


def form_agrees(
    answer: Answer, shape: tuple[int | None, ...], other: str, what: str = "values"
) -> Verdict:
    """Judge whether an answer is an array of a shape, None being any size, of finite numbers.

    `other` completes what it returns if its shape is another, and `what` names its numbers.
    """
    value, name = answer.value, f"`{answer.call.function}`"
    if not isinstance(value, np.ndarray):
        return failed(
            f"{kind_of(value)}; an array was expected.",
            remark=f"{name} returns something other than an array",
            asked=str(answer.call),
        )
    fits = value.ndim == len(shape) and all(
        size > 0 if wanted is None else size == wanted
        for size, wanted in zip(value.shape, shape, strict=True)
    )
    if not fits:
        told = str(shape).replace("None", "any")
        return failed(
            f"An array of shape {value.shape}; {told} was expected.",
            remark=f"{name} returns {other}",
            asked=str(answer.call),
        )
    lost = int((~np.isfinite(value)).sum())
    if lost:
        return failed(
            f"NaN or infinity in {lost:,} of {value.size:,} {what}.",
            remark=f"{name} returned {what} that are NaN or infinite",
            asked=str(answer.call),
        )
    return passed()


def array_agrees(
    answer: Answer,
    expected: np.ndarray,
    rel: float,
    what: str = "row",
    absolute: float = 0.0,
    unit: str = "",
) -> Verdict:
    """Compare one array answer with `expected`: shape first, then every element."""
    value, expected = np.asarray(answer.value), right_array(expected, expected.shape)
    if value.shape != expected.shape:
        return failed(
            f"An array of shape {value.shape}; {expected.shape} was expected.",
            asked=named(answer.call),
        )
    with np.errstate(invalid="ignore"):
        wrong = ~np.isclose(value, expected, rtol=rel, atol=absolute)  # NaN is never close
    if not wrong.any():
        return passed()
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    told = how_far(float(value[first]), float(expected[first]), unit)
    is_row = what == "row" and len(first) == 1
    return failed(
        f"{told}."
        if is_row
        else f"First at {what} {first if len(first) > 1 else first[0]}: {told}.",
        f"Off in {int(wrong.sum()):,} of {wrong.size:,} {'rows' if is_row else 'values'}.",
        asked=named(answer.call),
        row=first[0] if is_row else None,
    )


def kind_of(value: Any) -> str:
    """Name a JSON value's kind the way a student would."""
    match value:
        case Problem():
            return value.summary
        case None:
            return "None"
        case bool():
            return f"the truth value {value}"
        case int() | float():
            return f"the number {shown(value)}"
        case str():
            return f"the text {value[:40]!r}"
        case list():
            return f"a list of {len(value)}"
        case dict():
            keys = ", ".join(str(key)[:20] for key in list(value)[:6])
            return f"a dict with {keys}" if value else "an empty dict"
    return f"an array of shape {np.shape(value)}"


def first_failure(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the first verdict that failed, or a pass when none did."""
    return next((verdict for verdict in verdicts if not verdict.passed), passed())


SAME_AGAIN_RTOL = 1e-6
"""What two runs of one program may differ by: the order of a sum may follow memory alignment (as
some BLAS builds document) and single precision keeps seven digits, while a draw of chance moves an
answer in its third or fourth."""


def same_again(answers: Answers, call_ids: Iterable[str]) -> Verdict:
    """Compare the numeric answers of a second run from a fresh start with those of the first.

    Passes when there was no second run.
    """
    if answers.again is None:
        return passed()
    for call_id in call_ids:
        first, second = answers.by_id[call_id], answers.again.get(call_id)
        if first.problem is not None:
            continue  # told by the checks that ask for it
        if second is not None and second.problem is not None:
            return failed(
                "",
                f"not reproducible: run twice from a fresh start, `{first.call.function}` answered "
                f"the first time alone. The second time, {second.problem.summary}.",
            )
        if second is None or not _alike(first.value, second.value):
            return failed(
                "",
                f"not reproducible: run twice from a fresh start, `{first.call.function}` gave two "
                "different answers. Seed every random draw, and remember nothing between calls.",
            )
    return passed()


def _alike(first: Any, second: Any) -> bool:
    try:
        one, two = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    except (ValueError, TypeError, OverflowError):
        return bool(first == second)
    return one.shape == two.shape and bool(
        np.allclose(one, two, rtol=SAME_AGAIN_RTOL, atol=0.0, equal_nan=True)
    )
