"""Judging: answers and truth in, one outcome a check out. Pure, and knows no milestone by name."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np

from grader.explain import Judged, Known, explain, in_one_string
from grader.report import CheckReport, Outcome
from grader.wire import as_sent
from milestones.compare import named
from milestones.figures import MOST_TOLD
from milestones.spec import (
    Answer,
    Answers,
    Check,
    Files,
    Milestone,
    Problem,
    ReadTable,
    Verdict,
)

PROBE_ROWS = 16  # wrong rows kept of a mistake's long answer: enough to tell mistakes apart
PROBE_TEXT = 200  # characters
TEXT_SHA256 = "text_sha256"
SIGNED_ZEROS = "signed_zeros"  # only the signs of zeros tell a mistake's array from the right one
DECIMALS_TOLD = 4  # as a terminal shows a figure
SAME_RTOL = 1e-9  # two computations of the same wrong formula differ by rounding only


@dataclass(frozen=True)
class Mistake:
    """A known mistake as a split stores it: the checks that catch it, its hint, its answers.

    Whoever makes it fails the first of its `checks`, and may fail the others.
    `problems` are the calls that it gives no usable answer to, and why: an error of another kind is
    another mistake.
    """

    name: str
    checks: tuple[str, ...]
    hint: str
    answers: Mapping[str, Any]
    problems: Mapping[str, str] = field(default_factory=dict)


def read_mistakes(truth: Files, slug: str) -> tuple[Mistake, ...]:
    """Read the mistakes stored beside the truth of one milestone."""
    return tuple(
        Mistake(
            entry["name"],
            tuple(entry["checks"]),
            entry["hint"],
            entry["answers"],
            entry["problems"],
        )
        for entry in truth.json(f"{slug}/mistakes.json")
    )


def probe(wrong: Any, right: Any) -> Any:
    """Return what a split stores of a mistake's answer, so that it can be known again.

    Of an array these are a few rows spread over all, and more from those that the mistake gets
    wrong, if only in the sign of a zero where they differ in nothing else; an array of no rows, or
    of no dimension, has nothing to be known by: None. Of a long text
    it is a hash: what somebody wrote at length is nobody else's to read. Any other answer is stored
    as it was sent.
    """
    if isinstance(wrong, str) and len(wrong) > PROBE_TEXT:
        return {TEXT_SHA256: sha256(wrong.encode("utf-8", "surrogatepass")).hexdigest()}
    if not isinstance(wrong, np.ndarray):
        return as_sent(wrong)
    if wrong.size == 0 or wrong.ndim == 0:
        return None
    rows = _spread(np.arange(len(wrong)), PROBE_ROWS // 4)
    by_sign = False
    if isinstance(right, np.ndarray) and wrong.shape == right.shape:
        far = ~np.isclose(wrong, right, rtol=SAME_RTOL, atol=0.0, equal_nan=True)
        if not far.any():
            far = (right == 0) & (np.signbit(wrong) != np.signbit(right))
            by_sign = bool(far.any())
        differing = np.flatnonzero(far.reshape(len(far), -1).any(axis=1))
        rows = np.union1d(rows, _spread(differing, PROBE_ROWS))
    kept = {"rows": rows.tolist(), "values": _without_nan_tokens(wrong[rows].tolist())}
    return kept | {SIGNED_ZEROS: True} if by_sign else kept


def _spread(rows: np.ndarray, count: int) -> np.ndarray:
    """Return at most `count` of the rows, evenly spread."""
    if len(rows) <= count:
        return rows
    return np.asarray(rows[np.linspace(0, len(rows) - 1, count).astype(int)])


def _without_nan_tokens(values: Any) -> Any:
    """Return nested lists that strict JSON carries; numpy reads them back as they were."""
    if isinstance(values, list):
        return [_without_nan_tokens(value) for value in values]
    if math.isnan(values):
        return None
    return values if math.isfinite(values) else str(values)


def judge(
    milestone: Milestone,
    answers: Answers,
    truth: Files,
    mistakes: Sequence[Mistake],
    *,
    public: bool,
    read_table: ReadTable | None = None,
    settled: Sequence[CheckReport] = (),
) -> tuple[CheckReport, ...]:
    """Judge every check of a milestone, in order; other checks of these answers may be `settled`.

    On a split that is not public, what names a single question is left out of the hint. With
    `read_table`, which reads what calls name by a path, a diagnosis also tells slips and slices.
    """
    reports: list[CheckReport] = []
    for check in milestone.checks:
        waits_for = [
            report.sentence
            for report in reports
            if report.name in check.needs and report.outcome is not Outcome.PASSED
        ]
        if waits_for:
            skipped = _report(check, Outcome.SKIPPED, hint=f"Waits for: {waits_for[0]}")
            reports.append(skipped)
            continue
        before = {r.name for r in (*settled, *reports) if r.outcome is Outcome.PASSED}
        possible = [m for m in mistakes if check.name in m.checks and m.checks[0] not in before]
        with np.errstate(all="ignore"):  # answers may be of any size: that is no news, and no fault
            judged = _judge_one(check, answers, truth, possible, public, read_table)
            reports.append(judged)
    return tuple(reports)


def _judge_one(
    check: Check,
    answers: Answers,
    truth: Files,
    mistakes: Sequence[Mistake],
    public: bool,
    read_table: ReadTable | None,
) -> CheckReport:
    asked = [answer for topic in check.topics for answer in answers.under(topic)]
    if not asked:
        return _report(check, Outcome.BROKEN, hint="No question of this split belongs to it.")
    first = next((answer for answer in asked if answer.problem is not None), None)
    problem = None if first is None else first.problem
    if first is not None and problem is not None and not check.sees_problems:
        at = named(first.call) if problem.was_put else ""
        verdict = Verdict(0.0, detail=problem.detail, remark=problem.summary, asked=at)
    else:
        try:
            verdict = check.judge(answers, truth)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{where.name}, line {where.lineno}"
            return _report(
                check,
                Outcome.BROKEN,
                hint=f"The grader itself failed here ({type(error).__name__} in {place}). "
                "This is not your fault and costs no points; please report it.",
            )
    if not public:
        verdict = replace(verdict, figure=_coarse(verdict.figure))
    if verdict.passed:
        return _report(check, Outcome.PASSED, verdict)
    made = next((mistake for mistake in mistakes if _same(mistake, check, asked)), None)
    known = None if made is None else Known(made.hint, len(asked))
    unanswered = problem is not None and (
        not check.sees_problems or all(answer.problem is not None for answer in asked)
    )
    judged = Judged(check, verdict, answers, truth, unanswered)
    diagnosis = explain(judged, known, read_table, public=public)
    hint = in_one_string(diagnosis, equals=known is None)
    report = replace(_report(check, Outcome.FAILED, verdict, hint=hint), diagnosis=diagnosis)
    return report if made is None else replace(report, mistake=made.name)


def shows(mistake: Mistake, check: Check, right: Answers) -> bool:
    """Tell whether what is stored of a mistake differs from the right answers that a check reads.

    Where it does not, whoever fails that check by any other mistake would seem to make this one.
    The words of an exception count here: a check may read them, though a mistake is recognised in
    any wording.
    """
    asked = [answer for topic in check.topics for answer in right.under(topic)]
    return not all(
        _same_answer(mistake, answer, () if answer.call.returns == "raised" else check.reads)
        for answer in asked
    )


def _same(mistake: Mistake, check: Check, asked: Sequence[Answer]) -> bool:
    """Tell whether all answers to a failed check are this mistake's, the right ones among them.

    Several answers of nothing but 0 are no mistake's: any slip that is large enough makes them.
    """
    if len(asked) > 1 and all(_is_zero(answer.value) for answer in asked):
        return False
    return all(_same_answer(mistake, answer, check.reads) for answer in asked)


def _is_zero(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == 0


def _same_answer(mistake: Mistake, answer: Answer, reads: Sequence[int | str]) -> bool:
    call_id = answer.call.id
    if answer.problem is not None:
        return mistake.problems.get(call_id) == answer.problem.summary
    if call_id not in mistake.answers:
        return False
    if answer.call.returns == "kept":
        return True
    value, stored = answer.value, mistake.answers[call_id]
    if reads and isinstance(value, np.ndarray):
        columns = [part for part in reads if isinstance(part, int)]
        return isinstance(stored, dict) and _same_rows(value, stored, columns)
    if reads and isinstance(value, dict) and isinstance(stored, dict):
        value = {key: item for key, item in value.items() if key in reads}
        stored = {key: item for key, item in stored.items() if key in reads}
    return _equal(value, stored)


def _equal(value: Any, stored: Any) -> bool:
    if isinstance(value, np.ndarray):
        return isinstance(stored, dict) and _same_rows(value, stored)
    if isinstance(value, dict) and isinstance(stored, dict):
        return value.keys() == stored.keys() and all(_equal(value[k], stored[k]) for k in value)
    if isinstance(value, str) and isinstance(stored, dict):
        return bool(probe(value, value) == stored)
    if isinstance(value, Problem):
        return bool(as_sent(value) == stored)
    if isinstance(value, list) and isinstance(stored, list):
        return len(value) == len(stored) and all(map(_equal, value, stored))
    if isinstance(value, float) or isinstance(stored, float):
        both = (value, stored)
        return all(isinstance(v, int | float) for v in both) and bool(
            np.isclose(value, stored, rtol=SAME_RTOL, atol=0.0)
        )
    return type(value) is type(stored) and bool(value == stored)


def _same_rows(value: np.ndarray, stored: Mapping[str, Any], columns: Sequence[int] = ()) -> bool:
    if stored.keys() - {SIGNED_ZEROS} != {"rows", "values"}:  # a dict was answered, and no array
        return False
    rows, kept = stored["rows"], np.asarray(stored["values"], dtype=float)
    if value.ndim == 0 or value.ndim != kept.ndim or len(value) <= max(rows):
        return False
    found = value[rows]
    if columns and found.shape[1:] == kept.shape[1:] and value.ndim == 2:
        found, kept = found[:, list(columns)], kept[:, list(columns)]
    if found.shape != kept.shape:
        return False
    same = np.isclose(found, kept, rtol=SAME_RTOL, atol=0.0, equal_nan=True)
    if SIGNED_ZEROS in stored:
        same &= (kept != 0) | (np.signbit(found) == np.signbit(kept))
    return bool(same.all())


def _report(
    check: Check, outcome: Outcome, verdict: Verdict | None = None, hint: str = ""
) -> CheckReport:
    found = verdict or Verdict(0.0)
    return CheckReport(
        name=check.name,
        sentence=check.sentence,
        outcome=outcome,
        points=None if outcome is Outcome.BROKEN else found.share * check.points,
        points_max=check.points,
        figure=_finite(found.figure),
        bar=found.bar,
        hint=hint or (found.remark if outcome is Outcome.PASSED else ""),
        bonus=check.bonus,
        figure_name=found.figure_name,
        highest_is_best=found.highest_is_best,
    )


def _coarse(figure: float | None) -> float | None:
    """Return a figure as a hidden split tells it: every digit more is a digit of some label."""
    if figure is None or not math.isfinite(figure):
        return figure
    return round(min(max(figure, -MOST_TOLD), MOST_TOLD), DECIMALS_TOLD)


def _finite(figure: float | None) -> float | None:
    """Return a figure that a report can carry: JSON has no infinity and no NaN."""
    return figure if figure is not None and math.isfinite(figure) else None


def all_broken(milestone: Milestone, why: str) -> tuple[CheckReport, ...]:
    """Return every check as BROKEN, for a fault of ours before any check could be judged."""
    return tuple(_report(check, Outcome.BROKEN, hint=why) for check in milestone.checks)


def all_failed(milestone: Milestone, why: str) -> tuple[CheckReport, ...]:
    """Return every check as FAILED for one reason, for a notebook that cannot be read."""
    return tuple(_report(check, Outcome.FAILED, hint=why) for check in milestone.checks)


def mistake_as_json(mistake: Mistake) -> dict[str, Any]:
    """Return a mistake in the form that `read_mistakes` reads."""
    return {
        "name": mistake.name,
        "checks": list(mistake.checks),
        "hint": mistake.hint,
        "answers": dict(mistake.answers),
        "problems": dict(mistake.problems),
    }
