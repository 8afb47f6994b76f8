"""Grading a class: every hand-in in a room of its own, one row each, whatever happens."""

from __future__ import annotations

import csv
import io
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

import milestones
from grader.bait import Bait
from grader.errors import BadInputError
from grader.grade import grade
from grader.handins import HandIn
from grader.host import Host
from grader.judge import all_failed
from grader.limits import Limits
from grader.present import as_json
from grader.report import MilestoneReport, Outcome, Report, shown_points
from grader.split import Split

COLUMNS = ("student", "milestone", "points", "points_max", "reason")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would run


class Reason(StrEnum):
    """How a hand-in ended; exactly one each."""

    GRADED = "graded"  # it ran to its end, and its checks say the rest
    MISSING = "missing"  # nothing was handed in
    UNREADABLE = "unreadable"  # the file is no notebook
    STOPPED = "stopped"  # a bound was passed, or the notebook ended its own process
    TRAP = "trap"  # its answers follow the label file left as a trap
    BROKEN = "broken"  # the grader's or the machine's fault: no points are known


@dataclass(frozen=True)
class Graded:
    """One hand-in and what it came to."""

    hand_in: HandIn
    report: MilestoneReport
    reason: Reason


@dataclass(frozen=True)
class Course:
    """What every hand-in of a class is graded with."""

    split: Split
    data: Path
    host: Host
    bait: Bait | None = None
    limits: Limits | None = None  # None: the usual bounds


def grade_class(
    hand_ins: Sequence[HandIn],
    course: Course,
    workers: int,
    told: Callable[[Graded], None] = lambda _graded: None,
) -> list[Graded]:
    """Grade hand-ins, `workers` at a time; return them in the order they were given.

    `told` hears of each as it is done, in this thread.
    """
    cancelled = threading.Event()
    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures = {pool.submit(_grade_one, one, course, cancelled): one for one in hand_ins}
        try:
            for future in as_completed(futures):
                told(future.result())
        except BaseException:
            cancelled.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _grade_one(hand_in: HandIn, course: Course, cancelled: threading.Event) -> Graded:
    milestone = milestones.load(hand_in.slug)
    if hand_in.missing or hand_in.fault:
        why = hand_in.fault or "Nothing was handed in."
        report = MilestoneReport(
            milestone.slug, milestone.title, "", all_failed(milestone, why), unreadable=why
        )
        return Graded(hand_in, report, Reason.MISSING if hand_in.missing else Reason.UNREADABLE)
    report = grade(
        milestone,
        hand_in.path,
        course.split,
        course.data,
        course.limits,
        host=course.host,
        bait=course.bait,
        cancelled=cancelled,
    )
    return Graded(hand_in, report, _reason(report))


def _reason(report: MilestoneReport) -> Reason:
    if report.count(Outcome.BROKEN):
        return Reason.BROKEN
    if report.unreadable is not None:
        return Reason.UNREADABLE
    if report.note:
        return Reason.TRAP
    return Reason.GRADED if report.stopped is None else Reason.STOPPED


def make_ready(out: Path) -> None:
    """Make the folder for the results before hours are spent on them.

    Raises:
        BadInputError: it cannot be made or written to.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out):
            pass
    except OSError as error:
        raise BadInputError(f"{out}: cannot be written to: {error.strerror}") from None


def write_class(graded: Sequence[Graded], split: Split, out: Path) -> None:
    """Write `grades.csv`, a report for each hand-in, and `notes.csv` for the instructor alone.

    Raises:
        BadInputError: the folder cannot be written to.
    """
    try:
        for one in graded:
            folder = out / "reports" / one.hand_in.path.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            report = as_json(Report(split.split_id, split.public, (one.report,)))
            _write(folder / f"{one.hand_in.slug}.json", report)
        _write(out / "grades.csv", _table(COLUMNS, map(_row, graded)))
        notes = [
            (one.hand_in.student, one.hand_in.slug, one.report.note)
            for one in graded
            if one.report.note
        ]
        _write(out / "notes.csv", _table(("student", "milestone", "note"), notes))
    except OSError as error:
        where = error.filename or out
        raise BadInputError(f"{where}: cannot be written: {error.strerror}") from None


def _row(one: Graded) -> tuple[str, ...]:
    points = "" if one.report.points is None else shown_points(one.report.points)
    points_max = shown_points(one.report.points_max)
    return one.hand_in.student, one.hand_in.slug, points, points_max, str(one.reason)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(tuple(map(spreadsheet_safe, row)) for row in rows)
    return text.getvalue()


def spreadsheet_safe(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula: an apostrophe marks it as text."""
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_text(text, encoding="utf-8", newline="\n")
    unfinished.replace(path)
