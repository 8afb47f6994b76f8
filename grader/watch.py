"""`grader check --watch`: each notebook is graded again when it is saved.

One thread follows the files, another grades; an answer that a newer save has overtaken is dropped.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from watchfiles import watch as watch_files

from grader.follow import Change, Follower
from grader.report import MilestoneReport

LOOK_MS = 250  # between two looks when the system tells of no change, as on a network drive
STEP_MS = 20  # changes that come closer together than this are one save

Grade = Callable[[str, threading.Event], MilestoneReport]
"""Grades a milestone by its slug, until the event is set."""


@dataclass(frozen=True)
class Graded:
    """A milestone that was graded: the report, the last one of a notebook that could be read."""

    report: MilestoneReport
    before: MilestoneReport | None
    on_save: bool


class Told(Protocol):
    """Who is told of what happens, always from the thread that grades."""

    def graded(self, graded: Graded) -> None:
        """A milestone was graded."""

    def overtaken(self, slug: str) -> None:
        """A newer save has made void what a milestone was about to come to."""

    def same_code(self, slug: str) -> None:
        """A notebook was saved with the code it had."""


@dataclass
class Wanted:
    """What is to be done about a milestone."""

    slug: str
    on_save: bool
    grade: bool = True


@dataclass
class _Work:
    """What the two threads share, under one lock."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    waiting: list[Wanted] = field(default_factory=list)
    at: Wanted | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    closed: bool = False


def watch(
    slugs: Sequence[str], folder: Path, grade: Grade, told: Told, idle: Callable[[], None]
) -> dict[str, MilestoneReport]:
    """Grade every milestone once and then each that is saved, until Ctrl-C.

    Calls `idle` whenever nothing is left to grade. Returns the last report of each that was graded.
    """
    followers = {slug: Follower(folder / f"{slug}.ipynb") for slug in slugs}
    grader = Grader(grade, told, idle)
    for slug in slugs:
        grader.want(Wanted(slug, on_save=False))
    grader.start()
    try:
        for _ in _looks(folder):
            grader.raise_its_fault()
            for slug, follower in followers.items():
                change = follower.look(time.monotonic())
                if change is not None:
                    grade_it = change is not Change.SAME_CODE
                    grader.want(Wanted(slug, on_save=True, grade=grade_it))
    except KeyboardInterrupt:
        pass
    finally:
        grader.close()
    grader.raise_its_fault()
    return grader.last


class Grader:
    """The thread that grades what is wanted, one milestone at a time, first come first served."""

    def __init__(self, grade: Grade, told: Told, idle: Callable[[], None]) -> None:
        """Grade by `grade`; tell `told`, and call `idle` when nothing is left to do."""
        self._grade, self._told, self._idle = grade, told, idle
        self._work = _Work()
        self._fault: BaseException | None = None
        self._readable: dict[str, MilestoneReport] = {}
        self.last: dict[str, MilestoneReport] = {}
        self._thread = threading.Thread(target=self._run, name="grading", daemon=True)

    def start(self) -> None:
        """Begin with what is wanted."""
        self._thread.start()

    def want(self, wanted: Wanted) -> None:
        """Put a milestone on the list: what was saved goes before what nobody asked for yet."""
        work = self._work
        with work.changed:
            listed = [*work.waiting, *([] if work.at is None else [work.at])]
            if not wanted.grade and any(w.slug == wanted.slug for w in listed):
                return  # what is told of it then holds for this save too
            if wanted.grade:
                work.waiting = [w for w in work.waiting if w.slug != wanted.slug]
                at = work.at
                if at is not None and at.grade and (at.slug == wanted.slug or not at.on_save):
                    work.cancelled.set()
                    if at.slug != wanted.slug:
                        work.waiting.append(at)
            work.waiting.append(wanted)
            work.waiting.sort(key=lambda w: not w.on_save)
            work.changed.notify_all()

    def close(self) -> None:
        """End what is being graded, and the thread."""
        with self._work.changed:
            self._work.closed = True
            self._work.cancelled.set()
            self._work.changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def raise_its_fault(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            while (wanted := self._next()) is not None:
                self._do(wanted)
        except BaseException as fault:
            self._fault = fault

    def _next(self) -> Wanted | None:
        work = self._work
        with work.changed:
            work.at = None
            quiet = not work.waiting and not work.closed
        if quiet:
            self._idle()
        with work.changed:
            work.changed.wait_for(lambda: work.waiting or work.closed)
            if work.closed:
                return None
            work.at = work.waiting.pop(0)
            work.cancelled = threading.Event()
            return work.at

    def _do(self, wanted: Wanted) -> None:
        cancelled = self._work.cancelled
        if not wanted.grade:
            self._told.same_code(wanted.slug)
            return
        report = self._grade(wanted.slug, cancelled)
        with self._work.changed:
            self._work.at = None  # from here on a newer save finds nothing to cancel
            void = cancelled.is_set()
            saved = any(w.slug == wanted.slug and w.on_save for w in self._work.waiting)
            closed = self._work.closed
        if void:
            if saved and not closed:  # else it made room for another, and its turn comes again
                self._told.overtaken(wanted.slug)
            return
        before = self._readable.get(wanted.slug)
        self.last[wanted.slug] = report
        if report.unreadable is None:
            self._readable[wanted.slug] = report
        self._told.graded(Graded(report, before, wanted.on_save))


def _looks(folder: Path) -> Iterator[None]:
    """Yield when something in the folder may have changed, and a few times a second anyway.

    The folder may go and come back; where the system tells of no changes, they are looked for.
    """
    polling: bool | None = None  # as watchfiles finds best
    while True:
        home = _identity(folder)
        if home is not None:
            changes = watch_files(
                folder,
                watch_filter=None,
                debounce=10 * STEP_MS,
                step=STEP_MS,
                rust_timeout=LOOK_MS,
                yield_on_timeout=True,
                recursive=False,
                force_polling=polling,
            )
            try:
                for _ in changes:
                    yield
                    if _identity(folder) != home:
                        break
            except (OSError, RuntimeError):  # no more watches to be had, or the folder has gone
                polling = True
            finally:
                changes.close()
        with contextlib.suppress(OSError):
            time.sleep(LOOK_MS / 1000)
        yield


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
