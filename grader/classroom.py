"""Grading a class: every hand-in ends in one result with one reason, whatever happens."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from queue import SimpleQueue
from typing import overload
from weakref import finalize

import milestones
from grader.bait import Bait
from grader.errors import BadInputError
from grader.grade import grade_notebook, unreadable
from grader.handins import HandIn
from grader.judge import all_failed
from grader.notebook import parse_notebook
from grader.perform import Perform
from grader.report import MilestoneReport, Outcome
from grader.results import Results, as_text, from_text
from grader.scratch import Scratch
from grader.split import Split
from milestones.spec import Milestone, ReadTable

AHEAD = 2  # hand-ins begun or waiting for each worker: the next is there when one is done


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


class GradedClass(Sequence[Graded]):
    """What hand-ins came to, in the order they were given; to be read when all are kept.

    Reports lie on disk, and each look at one reads it: memory holds none, however many there are.
    """

    def __init__(self, hand_ins: Sequence[HandIn]) -> None:
        """Be ready for what each of these comes to.

        Raises:
            BadInputError: there is no room on disk for that.
        """
        self._hand_ins = hand_ins
        self._kept = Scratch(
            "CREATE TABLE graded (number INTEGER PRIMARY KEY, reason TEXT, report TEXT)"
        )
        finalize(self, self._kept.close)

    def keep(self, number: int, graded: Graded) -> None:
        """Keep what the hand-in of a number came to.

        Raises:
            BadInputError: there is no room on disk for it.
        """
        row = number, str(graded.reason), as_text(graded.report)
        with self._kept.using() as database:
            database.execute("INSERT INTO graded VALUES (?, ?, ?)", row)

    def reasons(self) -> Counter[Reason]:
        """Return how many hand-ins ended for each reason."""
        query = "SELECT reason, count(*) FROM graded GROUP BY reason"
        with self._kept.using() as database:
            return Counter({Reason(reason): n for reason, n in database.execute(query)})

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._hand_ins)

    @overload
    def __getitem__(self, number: int) -> Graded: ...

    @overload
    def __getitem__(self, number: slice) -> list[Graded]: ...

    def __getitem__(self, number: int | slice) -> Graded | list[Graded]:
        """Read one from the disk, or some."""
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        at = range(len(self))[number]
        query = "SELECT report, reason FROM graded WHERE number = ?"
        with self._kept.using() as database:
            report, reason = database.execute(query, (at,)).fetchone()
        return Graded(self._hand_ins[at], from_text(report), Reason(reason))


def grade_class(
    hand_ins: Sequence[HandIn],
    course: Course,
    workers: int,
    told: Callable[[HandIn], None] = lambda _hand_in: None,
    cancelled: threading.Event | None = None,
) -> GradedClass:
    """Grade hand-ins, `workers` at a time; return what they came to in the order they were given.

    `told` hears of each as it is done, in this thread. `cancelled` is set when this is interrupted.

    Raises:
        BadInputError: a result cannot be written.
    """
    ending = cancelled or threading.Event()
    graded = GradedClass(hand_ins)
    done: SimpleQueue[Future[HandIn]] = SimpleQueue()
    ahead = min(AHEAD * workers, len(hand_ins))

    def grade(number: int) -> HandIn:
        graded.keep(number, _grade_one(hand_ins[number], course, ending))
        return hand_ins[number]

    with ThreadPoolExecutor(max_workers=workers) as pool:
        try:
            for number in range(len(hand_ins) + ahead):
                if number >= ahead:
                    told(done.get().result())
                if number < len(hand_ins):
                    pool.submit(grade, number).add_done_callback(done.put)
        except BaseException:
            ending.set()
            pool.shutdown(cancel_futures=True)
            raise
    return graded


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
