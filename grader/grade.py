"""Grading one notebook on one split: run it, ask it, judge what came back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from grader.bait import Bait
from grader.cold import COLD
from grader.errors import BadInputError
from grader.host import Host, HostError
from grader.judge import all_broken, all_failed, judge, read_mistakes
from grader.limits import Limits
from grader.notebook import Cell, Notebook, read_notebook
from grader.places import Places
from grader.report import CellError, CheckReport, MilestoneReport
from grader.room import Room, open_room
from grader.split import Split
from grader.trouble import known_error
from milestones.spec import Answer, Answers, Call, Milestone, Result

OUR_FAULT = "The grader itself failed; this costs no points, please report it"

Progress = Callable[[str, int, int], None]
"""Told what is happening: a phrase, how many steps are done, and of how many."""


def silent(_phrase: str, _done: int, _total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class Transcript:
    """What one run of a notebook came to: its cells' errors and its answers."""

    errors: tuple[CellError, ...]
    answers: dict[str, Answer]
    stopped: str | None = None


def grade(
    milestone: Milestone,
    path: Path,
    split: Split,
    data: Path,
    limits: Limits | None = None,
    progress: Progress = silent,
    host: Host = COLD,
    bait: Bait | None = None,
    cancelled: threading.Event | None = None,
) -> MilestoneReport:
    """Grade one notebook file. Whatever it does, every check ends in exactly one outcome.

    `bait`, where given, lies in the room; what follows it fails. Setting `cancelled` from another
    thread ends the run.
    """
    bounds = limits or Limits()
    try:
        notebook = read_notebook(path)
    except BadInputError as error:
        return MilestoneReport(
            milestone.slug,
            milestone.title,
            "",
            all_failed(milestone, "The notebook cannot be read."),
            unreadable=str(error),
        )
    try:
        calls = milestone.calls(split.questions)
        overlay = split.overlay(milestone.slug)
        baited = None if bait is None else bait.folder
        places = Places(data, split.folder / "questions", overlay, baited)
        ending = cancelled or threading.Event()
        run = partial(_run_once, notebook.cells, partial(open_room, places, bounds, ending, host))
        first, *later = _run_all(milestone.runs, run, calls, progress, ending)
        answers = Answers(first.answers, later[0].answers if later else None)
        mistakes = read_mistakes(split.truth, milestone.slug)
        checks = judge(milestone, answers, split.truth, mistakes, public=split.public)
        taken = [] if bait is None else bait.taken_by(answers)
    except HostError as error:
        return _report(milestone, notebook, all_broken(milestone, f"{OUR_FAULT}: {error}."))
    except Exception as error:  # anything else that escapes is ours: the notebook runs elsewhere
        why = f"{OUR_FAULT} ({type(error).__name__}: {error})."
        return _report(milestone, notebook, all_broken(milestone, why))
    report = _report(milestone, notebook, checks, first.errors, public=split.public)
    stopped = next((t.stopped for t in (first, *later) if t.stopped), None)
    report = replace(report, stopped=stopped)
    return report if bait is None else bait.failed(milestone, report, taken)


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
            for e in errors
        )
    return MilestoneReport(milestone.slug, milestone.title, notebook.sha256, checks, told)


def _run_all(
    runs: int,
    run: Callable[[int, list[Call], Progress], Transcript],
    calls: list[Call],
    progress: Progress,
    cancelled: threading.Event,
) -> list[Transcript]:
    """Run the notebook as often as asked, side by side, each from a fresh start."""
    with ThreadPoolExecutor(max_workers=runs) as pool:
        futures = [
            pool.submit(run, i, other_order(calls) if i else calls, silent if i else progress)
            for i in range(runs)
        ]
        try:
            return [future.result() for future in futures]
        except BaseException:  # an interrupt reaches this thread alone; the rooms must end too
            cancelled.set()
            raise


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


def _run_once(
    cells: tuple[Cell, ...],
    room_for: Callable[[int], AbstractContextManager[Room]],
    number: int,
    calls: list[Call],
    progress: Progress,
) -> Transcript:
    errors: list[CellError] = []
    answers: dict[str, Answer] = {}
    total = len(cells) + len(calls)
    with room_for(number) as room:
        for done, cell in enumerate(cells):
            progress(f"running cell {cell.index}", done, total)
            error = room.run_cell(cell)
            if error is not None:
                errors.append(CellError(cell.index, error, room.stopped is not None))
            if room.stopped:
                break
        for done, call in enumerate(calls, start=len(cells)):
            progress(f"asking {call.function}", done, total)
            answers[call.id] = room.ask(call)
    progress("judging", total, total)
    return Transcript(tuple(errors), answers, room.stopped)
