"""Grading a class: every hand-in ends in one result with one reason, whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from enum import StrEnum

import milestones
from grader.bait import Bait
from grader.errors import BadInputError
from grader.grade import grade_notebook, unreadable
from grader.handins import HandIn
from grader.judge import all_failed
from grader.notebook import parse_notebook
from grader.perform import Perform
from grader.report import CheckReport, MilestoneReport, Outcome
from grader.results import Results
from grader.split import Split
from milestones.spec import Milestone, ReadTable


class Reason(StrEnum):
    """How a hand-in ended; exactly one each."""

    GRADED = "graded"  # it ran to its end, and its checks say the rest
    MISSING = "missing"  # nothing was handed in
    UNREADABLE = "unreadable"  # what was handed in is no notebook that can be read
    ENDED = "ended"  # the notebook ended its own process, or spoke over the grader's channel
    LIMIT = "limit"  # it passed a bound on time, memory, processes or output
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
    perform: Mapping[str, Perform]  # by milestone
    results: Results
    bait: Bait | None = None
    read_table: Mapping[str, ReadTable] | None = None  # by milestone, for diagnoses


def grade_class(
    hand_ins: Sequence[HandIn],
    course: Course,
    workers: int,
    told: Callable[[Graded], None] = lambda _graded: None,
    cancelled: threading.Event | None = None,
) -> list[Graded]:
    """Grade hand-ins, `workers` at a time; return them in the order they were given.

    `told` hears of each as it is done, in this thread. `cancelled` is set when this is interrupted.

    Raises:
        BadInputError: a result cannot be written.
    """
    ending = cancelled or threading.Event()
    alike: dict[CheckReport, CheckReport] = {}

    def grade(hand_in: HandIn) -> Graded:
        graded = _grade_one(hand_in, course, ending)
        # A thousand students pass a check in the same words, which are kept once for all.
        checks = tuple(_kept_once(check, alike) for check in graded.report.checks)
        return replace(graded, report=replace(graded.report, checks=checks))

    with ThreadPoolExecutor(max_workers=workers) as pool:
        futures = [pool.submit(grade, one) for one in hand_ins]
        try:
            for future in as_completed(futures):
                told(future.result())
        except BaseException:
            ending.set()
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _kept_once(check: CheckReport, alike: dict[CheckReport, CheckReport]) -> CheckReport:
    kept = alike.setdefault(check, check)
    return kept if repr(kept) == repr(check) else check  # 0.0 equals -0.0, and is not written so


def _grade_one(hand_in: HandIn, course: Course, cancelled: threading.Event) -> Graded:
    milestone = milestones.load(hand_in.slug)
    if hand_in.missing:
        return Graded(hand_in, _nothing(milestone), Reason.MISSING)
    try:
        notebook = parse_notebook(hand_in.read(), f"{hand_in.student}/{hand_in.slug}.ipynb")
    except BadInputError as error:
        return Graded(hand_in, unreadable(milestone, str(error)), Reason.UNREADABLE)
    except Exception as error:  # of one student's bytes, which must not end the class
        why = f"{hand_in.slug}.ipynb cannot be read ({type(error).__name__}); hand it in again"
        return Graded(hand_in, unreadable(milestone, why), Reason.UNREADABLE)

    def grade() -> MilestoneReport:
        perform = course.perform[milestone.slug]
        read_table = None if course.read_table is None else course.read_table[milestone.slug]
        report = grade_notebook(milestone, notebook, course.split, perform, course.bait, read_table)
        if cancelled.is_set():  # its rooms may have been ended half way
            raise KeyboardInterrupt
        return report

    report = course.results.of(milestone.slug, notebook.sha256, grade)
    return Graded(hand_in, report, _reason(report))


def _nothing(milestone: Milestone) -> MilestoneReport:
    why = "Nothing was handed in."
    checks = all_failed(milestone, why)
    return MilestoneReport(milestone.slug, milestone.title, "", checks, unreadable=why)


def _reason(report: MilestoneReport) -> Reason:
    if report.count(Outcome.BROKEN):
        return Reason.BROKEN
    if report.note:
        return Reason.TRAP
    if report.stop is None:
        return Reason.GRADED
    return Reason.LIMIT if report.stop.by_bound else Reason.ENDED
