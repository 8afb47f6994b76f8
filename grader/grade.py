"""Grading one notebook on one split: run it, ask it, judge what came back."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from grader.bait import Bait
from grader.cold import COLD
from grader.errors import BadInputError
from grader.explain import reader
from grader.host import Host, HostError, Start
from grader.judge import all_broken, all_failed, judge, read_mistakes
from grader.limits import Limits
from grader.notebook import Cell, Notebook, read_notebook
from grader.places import Places
from grader.report import CellError, CheckReport, MilestoneReport, Stop
from grader.room import Room, open_room
from grader.split import Split
from grader.trouble import known_error, printable
from milestones.spec import Answer, Answers, Call, Milestone, ReadTable, Result

MAX_CELLS_TOLD = 20  # on a hidden split: which cells raise what is a notebook's own choice
OUR_FAULT = "The grader itself failed; this costs no points, please report it"

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


def grade(
    milestone: Milestone,
    path: Path,
    split: Split,
    data: Path,
    limits: Limits | None = None,
    progress: Progress = silent,
    host: Host = COLD,
    cancelled: threading.Event | None = None,
) -> MilestoneReport:
    """Grade one notebook file here. Whatever it does, every check ends in exactly one outcome.

    Setting `cancelled` from another thread ends it soon, with a report that is worth nothing.
    """
    try:
        notebook = read_notebook(path)
    except BadInputError as error:
        return unreadable(milestone, str(error))
    places = Places(data, split.folder / "questions", split.overlay(milestone.slug))
    start = Start(places, limits or Limits())

    def here(job: Job) -> list[Transcript]:
        return perform(job, start, host, cancelled or threading.Event(), progress)

    return grade_notebook(milestone, notebook, split, here, read_table=reader(places))


def unreadable(milestone: Milestone, why: str) -> MilestoneReport:
    """Return the report of a file that is not a notebook."""
    checks = all_failed(milestone, "The notebook cannot be read.")
    return MilestoneReport(milestone.slug, milestone.title, "", checks, unreadable=why)


def grade_notebook(
    milestone: Milestone,
    notebook: Notebook,
    split: Split,
    do: Perform,
    bait: Bait | None = None,
    read_table: ReadTable | None = None,
) -> MilestoneReport:
    """Grade a notebook whose job is done by `do`; what follows the `bait` fails.

    `read_table` reads what calls name by a path, for the diagnosis of what fails.
    """
    try:
        job = Job(notebook.cells, milestone.calls(split.questions), milestone.runs)
        first, *later = do(job)
        answers = Answers(first.answers, later[0].answers if later else None)
        mistakes = read_mistakes(split.truth, milestone.slug)
        checks = judge(
            milestone,
            answers,
            split.truth,
            mistakes,
            public=split.public,
            read_table=read_table,
        )
        taken = [] if bait is None else bait.taken_by(answers)
    except HostError as error:
        return _report(milestone, notebook, all_broken(milestone, f"{OUR_FAULT}: {error}."))
    except Exception as error:  # anything else that escapes is ours: the notebook runs elsewhere
        why = f"{OUR_FAULT} ({type(error).__name__}: {error})."
        return _report(milestone, notebook, all_broken(milestone, why))
    report = _report(milestone, notebook, checks, first.errors, public=split.public)
    stop = next((t.stop for t in (first, *later) if t.stop), None)
    report = replace(report, stop=stop, document=_document(milestone, answers))
    return report if bait is None else bait.failed(milestone, report, taken)


def _document(milestone: Milestone, answers: Answers) -> str:
    """Return what a person is to read, each line printable; a fault here costs no grade."""
    if milestone.document is None:
        return ""
    try:
        return "\n".join(printable(line) for line in milestone.document(answers).splitlines())
    except Exception as error:
        return f"{OUR_FAULT} ({type(error).__name__}). The text is in the notebook."


def _report(
    milestone: Milestone,
    notebook: Notebook,
    checks: tuple[CheckReport, ...],
    errors: tuple[CellError, ...] = (),
    *,
    public: bool = True,
) -> MilestoneReport:
    # What a cell raises may quote what it saw; on a hidden split only a known kind is told.
    told = errors
    if not public:
        told = tuple(
            e if e.stopped else CellError(e.cell, known_error(e.error.partition(":")[0]))
            for e in errors[:MAX_CELLS_TOLD]
        )
    return MilestoneReport(milestone.slug, milestone.title, notebook.sha256, checks, told)


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
    all_cells_done = threading.Barrier(job.runs)

    def run(number: int) -> Transcript:
        calls = other_order(job.calls) if number else job.calls
        told = silent if number else progress
        try:
            with open_room(start.places, start.limits, cancelled, host, number) as room:
                found = _run(room, job.cells, calls, told, all_cells_done)
                left = room.left
        except BaseException:
            all_cells_done.abort()
            raise
        # An endless function costs its own questions: the others are asked in a fresh process, as
        # long as the bounds in all allow. What its cells raise is told to nobody, since what they
        # are started by, and when, can hang on a question.
        ended_by = found.ended_by
        while left is not None and ended_by is not None:
            unasked, calls = _without(ended_by, calls)
            if not unasked:
                break
            with open_room(start.places, left, cancelled, host, number) as room:
                more = _run(room, job.cells, calls, told)
                left, ended_by = room.left, more.ended_by
            if not any(error.stopped for error in more.errors):
                found.answers.update({call.id: more.answers[call.id] for call in unasked})
        return found

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


def _run(
    room: Room,
    cells: tuple[Cell, ...],
    calls: list[Call],
    progress: Progress,
    all_cells_done: threading.Barrier | None = None,
) -> Transcript:
    errors: list[CellError] = []
    answers: dict[str, Answer] = {}
    total = len(cells) + len(calls)
    for done, cell in enumerate(cells):
        progress(f"running cell {cell.index}", done, total)
        error = room.run_cell(cell)
        if error is not None:
            errors.append(CellError(cell.index, error, room.stop is not None))
        if room.stop:
            break
    if all_cells_done is not None:
        with contextlib.suppress(threading.BrokenBarrierError):  # whose run failed tells it
            all_cells_done.wait()
    ended_by = None
    for done, call in enumerate(calls, start=len(cells)):
        progress(f"asking {call.function}", done, total)
        was_asked = room.stop is None
        answers[call.id] = room.ask(call)
        if was_asked and room.stop is not None and room.stop.by_bound:
            ended_by = call
    progress("judging", total, total)
    return Transcript(tuple(errors), answers, room.stop, ended_by)
