"""A student's page: what each check found, beside the code that it judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from grader import __version__
from grader.classroom import Graded, Reason
from grader.html.charts import bullet
from grader.html.code import MAX_ERROR, ShownCell, shown_cells
from grader.html.page import fill
from grader.html.reasons import REASONS, Told
from grader.html.scale import Scale
from grader.html.slices import ShownBreakdown
from grader.html.visible import shorten
from grader.notebook import Notebook
from grader.report import (
    CheckReport,
    MilestoneReport,
    Outcome,
    Report,
    is_all_bonus,
    shown_bonus,
    shown_points,
    total,
)

COURSE = "KV Capacity"
MAX_RAISED = 20  # errors in the list above the checks
MAX_TEXT = 4_000  # characters of a hint or a sentence


@dataclass(frozen=True)
class Mark:
    """How an outcome is shown: never by its colour alone."""

    word: str
    symbol: str
    kind: str


MARKS = {
    Outcome.PASSED: Mark("passed", "✓", "passed"),
    Outcome.FAILED: Mark("failed", "✗", "failed"),
    Outcome.SKIPPED: Mark("waits", "…", "skipped"),
    Outcome.BROKEN: Mark("not graded", "!", "broken"),
}
PARTLY = Mark("partly", "◐", "skipped")  # some of the points, short of the bar


@dataclass(frozen=True)
class ShownCheck:
    """A check as its page shows it."""

    sentence: str
    mark: Mark
    points: str
    hint: str
    figure: str = ""
    bar: str = ""
    chart: Markup | None = None
    bonus: bool = False
    rows: tuple[tuple[str, str], ...] = ()  # of its diagnosis, each a label and a text
    breakdown: ShownBreakdown | None = None


@dataclass(frozen=True)
class Section:
    """One milestone of the page."""

    slug: str
    title: str
    points: str
    points_max: str  # empty where all of it is bonus
    bonus: str  # what was earned of the bonus, in words
    known: bool
    ending: Told | None  # None where it ran to its end
    said: str  # the grader's own sentence on that ending
    checks: tuple[ShownCheck, ...]
    counts: str
    same_hint: str  # what all checks say, told once
    tried: bool  # whether there was anything to try the checks on
    cells: tuple[ShownCell, ...]  # the student's own, and those that raised
    given: tuple[ShownCell, ...]  # those that are as the course gave them
    more_cells: int
    raised: tuple[ShownCell, ...]
    lost_errors: tuple[tuple[int, str], ...]  # of cells that are not shown
    n_raised: int
    more_raised: int


def feedback_page(
    student: str,
    graded: Sequence[Graded],
    notebooks: Mapping[str, Notebook],
    *,
    split_id: str,
    public: bool,
    title: str = COURSE,
) -> str:
    """Return a student's page: one section a hand-in, in the order given.

    `notebooks` are those that could be read, by milestone; it may lack any. What the page tells of
    a hidden split is what the reports tell.
    """
    sections = [_section(one.report, one.reason, notebooks.get(one.hand_in.slug)) for one in graded]
    reports = [one.report for one in graded]
    return _page(student, reports, sections, split_id=split_id, public=public, title=title)


def report_page(report: Report, notebooks: Mapping[str, Notebook], *, title: str = COURSE) -> str:
    """Return the page of `grader check`, for whoever ran it."""
    sections = [
        _section(milestone, _reason(milestone), notebooks.get(milestone.milestone))
        for milestone in report.milestones
    ]
    return _page(
        "", report.milestones, sections, split_id=report.split_id, public=report.public, title=title
    )


def _reason(report: MilestoneReport) -> Reason:
    if report.count(Outcome.BROKEN):
        return Reason.BROKEN
    if report.unreadable is not None:
        return Reason.UNREADABLE
    if report.stop is None:
        return Reason.GRADED
    return Reason.LIMIT if report.stop.by_bound else Reason.ENDED


def _page(
    student: str,
    reports: Sequence[MilestoneReport],
    sections: Sequence[Section],
    *,
    split_id: str,
    public: bool,
    title: str,
) -> str:
    known = [report for report in reports if report.points is not None]
    open_points = sum(report.points_max for report in reports if report.points is None)
    whole = Report(split_id, public, tuple(reports))
    return fill(
        "feedback.html",
        student=shorten(student, 200),
        title=title,
        where="the public split" if public else f"split {shorten(split_id, 100)}",
        sections=sections,
        points=shown_points(total(report.points for report in known)),
        points_max=""
        if is_all_bonus(whole.points_max, whole.bonus_max)
        else shown_points(sum(report.points_max for report in known)),
        open_points=shown_points(open_points) if open_points else "",
        bonus=shown_bonus(whole.bonus, whole.bonus_max),
        version=__version__,
    )


def _section(report: MilestoneReport, reason: Reason, notebook: Notebook | None) -> Section:
    cells, more = ([], 0) if notebook is None else shown_cells(notebook, report)
    shown = {cell.index for cell in cells}
    errors = [error for error in report.cells if not error.stopped]
    raised = [cell for cell in cells if cell.error is not None and not cell.error.stopped]
    lost = [error for error in errors if error.cell not in shown]
    hints = {check.hint for check in report.checks}
    same = hints.pop() if len(hints) == 1 and len(report.checks) > 1 else ""
    said = _said(report)
    return Section(
        slug=report.milestone,
        title=report.title,
        points=shown_points(report.points),
        points_max="" if report.is_all_bonus else shown_points(report.points_max),
        bonus=shown_bonus(report.bonus, report.bonus_max),
        known=report.points is not None,
        ending=REASONS.get(reason),
        said="" if reason is Reason.MISSING else shorten(said, MAX_TEXT),
        checks=tuple(_check(check, same) for check in report.checks),
        counts=_counts(report),
        same_hint="" if same == said else shorten(same, MAX_TEXT),
        tried=reason not in (Reason.MISSING, Reason.UNREADABLE),
        cells=tuple(cell for cell in cells if not cell.given or cell.error is not None),
        given=tuple(cell for cell in cells if cell.given and cell.error is None),
        more_cells=more,
        raised=tuple(raised[:MAX_RAISED]),
        lost_errors=tuple(
            (error.cell, shorten(error.error, MAX_ERROR)) for error in lost[:MAX_RAISED]
        ),
        n_raised=len(errors),
        more_raised=len(raised[MAX_RAISED:]) + len(lost[MAX_RAISED:]),
    )


def _said(report: MilestoneReport) -> str:
    if report.unreadable is not None:
        return report.unreadable
    stopped = [cell for cell in report.cells if cell.stopped]
    if len(stopped) > 1:
        return "; ".join(f"cell {cell.cell} {cell.told}" for cell in stopped)
    return "" if report.stop is None else report.stop.why


def _counts(report: MilestoneReport) -> str:
    found = [(MARKS[outcome].word, report.count(outcome)) for outcome in Outcome]
    return ", ".join(f"{count} {word}" for word, count in found if count)


def _check(check: CheckReport, told_above: str) -> ShownCheck:
    partly = check.outcome is Outcome.FAILED and bool(check.points)
    measured = check.figure is not None and check.bar is not None
    cut = None if check.diagnosis is None else check.diagnosis.breakdown
    return ShownCheck(
        sentence=shorten(check.sentence, MAX_TEXT),
        mark=PARTLY if partly else MARKS[check.outcome],
        points=f"{shown_points(check.points)} / {shown_points(check.points_max)}",
        hint="" if check.hint == told_above else shorten(check.hint, MAX_TEXT),
        figure=f"{check.figure:.4f}" if check.figure is not None and measured else "",
        bar=Scale.of(check.bar).words if check.bar is not None and measured else "",
        chart=bullet(check.figure, check.bar)
        if check.figure is not None and check.bar is not None
        else None,
        bonus=check.bonus,
        rows=_rows(check),
        breakdown=None if cut is None else ShownBreakdown.of(cut),
    )


def _rows(check: CheckReport) -> tuple[tuple[str, str], ...]:
    """Return the labelled lines of a diagnosis; none where one line says all."""
    if check.diagnosis is None or len(check.diagnosis.rows) < 2:
        return ()
    return tuple((label, shorten(text, MAX_TEXT)) for label, text in check.diagnosis.rows)
