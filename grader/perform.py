"""Running one notebook: its cells, then its calls, in a room of its own for every run.

What does not end costs what hangs on it: the rest is done in a fresh room without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass

from grader.host import Host, Start
from grader.limits import Limits
from grader.notebook import Cell
from grader.report import CellError, Stop
from grader.room import LOOK_S, Room, open_room
from milestones.spec import Answer, Call, Result

Progress = Callable[[str, int, int], None]
"""Told what is happening: a phrase, how many steps are done, and of how many."""


def silent(_phrase: str, _done: int, _total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class Transcript:
    """What one run of a notebook came to: its cells' errors and its answers.

    `ended_by` is the call in whose course a bound stopped it.
    """

    errors: tuple[CellError, ...]
    answers: dict[str, Answer]
    stop: Stop | None = None
    ended_by: Call | None = None


@dataclass(frozen=True)
class Job:
    """What is done with one notebook in its rooms: the cells to run and the calls to put."""

    cells: tuple[Cell, ...]
    calls: list[Call]
    runs: int


Perform = Callable[[Job], list[Transcript]]
"""Does a job somewhere, and returns a transcript a run."""


def perform(
    job: Job,
    start: Start,
    host: Host,
    cancelled: threading.Event,
    progress: Progress = silent,
) -> list[Transcript]:
    """Run a notebook as often as asked, side by side, each in a room of its own.

    Setting `cancelled` from another thread ends the rooms.

    Raises:
        HostError: a room could not be set up.
    """

    # No question enters any room before the cells of all have run: one run could tell the other
    # what it is asked, and the other's cells tell the student.
    all_cells_done = _Gate(job.runs)

    def run(number: int) -> Transcript:
        calls = other_order(job.calls) if number else job.calls
        told = silent if number else progress
        try:
            return _transcript(
                job.cells,
                calls,
                lambda limits: open_room(start.places, limits, cancelled, host, number),
                start.limits,
                told,
                all_cells_done,
            )
        except BaseException:
            all_cells_done.let_through()
            raise

    with ThreadPoolExecutor(max_workers=job.runs) as pool:
        futures = [pool.submit(run, number) for number in range(job.runs)]
        try:
            faults = [future.exception() for future in futures]
            if any(faults):
                raise next(fault for fault in faults if fault)
            return [future.result() for future in futures]
        except Exception:  # a room that cannot be had ends this job alone, not all of a class
            raise
        except BaseException:  # an interrupt reaches this thread alone; the rooms must end too
            cancelled.set()
            raise


class _Gate:
    """Where runs wait until all have come."""

    def __init__(self, runs: int) -> None:
        self._to_come = threading.Semaphore(runs - 1)
        self._is_open = threading.Event()

    def let_through(self) -> None:
        """Let all pass: the last has come, or one has failed and tells it."""
        self._is_open.set()

    def wait(self, room: Room) -> None:
        """Wait for the others; what cells have started is held to its bounds meanwhile."""
        if not self._to_come.acquire(blocking=False):
            self.let_through()
        while not self._is_open.wait(LOOK_S):
            room.look("after its last cell")


def _without(ended_by: Call, calls: list[Call]) -> tuple[list[Call], list[Call]]:
    """Return the calls after an endless one that are not of its function, and what to ask for them.

    Those are put after the earlier calls whose results they build on.
    """
    asked = {call.id: call for call in calls if call.function != ended_by.function}
    after = calls[calls.index(ended_by) :]
    unasked = [call for call in after if call.id in asked]
    needed = {call.id for call in unasked}
    for call in reversed(list(asked.values())):  # what a call builds on comes before it
        if call.id in needed:
            needed |= {v.call_id for v in call.args.values() if isinstance(v, Result)}
    return unasked, [call for call in asked.values() if call.id in needed]


def other_order(calls: list[Call]) -> list[Call]:
    """Return the calls from last to first, each after those whose results it builds on.

    What a notebook remembers from one call to the next shows when it is asked in another order.
    """
    by_id = {call.id: call for call in calls}
    placed: dict[str, Call] = {}

    def place(call: Call) -> None:
        for value in call.args.values():
            if isinstance(value, Result) and value.call_id not in placed:
                place(by_id[value.call_id])
        placed.setdefault(call.id, call)

    for call in reversed(calls):
        place(call)
    return list(placed.values())


def _transcript(
    cells: tuple[Cell, ...],
    calls: list[Call],
    opened: Callable[[Limits], AbstractContextManager[Room]],
    limits: Limits,
    progress: Progress,
    all_cells_done: _Gate,
) -> Transcript:
    """Run the cells, ask the calls, and go on without what does not end.

    A cell that a bound stops costs what it defines, and an endless function its own questions: the
    rest is done in a fresh process without it, as long as the bounds in all allow.
    """
    endless: list[CellError] = []
    first_stop: Stop | None = None
    while True:
        with opened(limits) as room:
            errors = _run(room, cells, progress, len(calls))
            more = room.left if room.stop is not None and room.stop.by_bound else None
            if more is None:
                all_cells_done.wait(room)
                answers, ended_by = _ask(room, calls, progress, len(cells))
                left = room.left
            first_stop = first_stop or room.stop
        if more is None:
            break
        endless.append(errors[-1])
        cells = tuple(cell for cell in cells if cell.index != errors[-1].cell)
        limits = more
    errors = sorted([*endless, *errors], key=lambda error: error.cell)
    # What cells raise from here on is told to nobody, since what they are started by, and when, can
    # hang on a question.
    while left is not None and ended_by is not None:
        unasked, calls = _without(ended_by, calls)
        if not unasked:
            break
        with opened(left) as room:
            again = _run(room, cells, progress, len(calls))
            found, ended_by = _ask(room, calls, progress, len(cells))
            left = room.left
        if not any(error.stopped for error in again):
            answers.update({call.id: found[call.id] for call in unasked})
    return Transcript(tuple(errors), answers, first_stop)


def _run(room: Room, cells: tuple[Cell, ...], progress: Progress, more: int) -> list[CellError]:
    """Run the cells until one stops the room; return what they raised. `more` steps are to come."""
    errors: list[CellError] = []
    for done, cell in enumerate(cells):
        progress(f"running cell {cell.index}", done, len(cells) + more)
        error = room.run_cell(cell)
        if error is not None:
            errors.append(CellError(cell.index, error, room.stop is not None))
        if room.stop:
            break
    return errors


def _ask(
    room: Room, calls: list[Call], progress: Progress, done: int
) -> tuple[dict[str, Answer], Call | None]:
    """Put the calls; return the answers, and the call in whose course a bound stopped the room."""
    answers: dict[str, Answer] = {}
    ended_by, total = None, done + len(calls)
    for step, call in enumerate(calls, start=done):
        progress(f"asking {call.function}", step, total)
        was_asked = room.stop is None
        answers[call.id] = room.ask(call)
        if was_asked and room.stop is not None and room.stop.by_bound:
            ended_by = call
    progress("judging", total, total)
    return answers, ended_by
