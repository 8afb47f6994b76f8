"""Grading one notebook on one split: run it, ask it, judge what came back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from grader.errors import BadInputError
from grader.judge import all_broken, all_failed, judge, read_mistakes
from grader.notebook import Cell, Notebook, read_notebook
from grader.places import Places
from grader.report import CellError, CheckReport, MilestoneReport
from grader.room import Limits, RoomError, open_room
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


def grade(
    milestone: Milestone,
    path: Path,
    split: Split,
    data: Path,
    limits: Limits | None = None,
    progress: Progress = silent,
) -> MilestoneReport:
    """Grade one notebook file. Whatever it does, every check ends in exactly one outcome."""
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
        places = Places(data, split.folder / "questions", split.overlay(milestone.slug))
        first, *later = _run_all(milestone.runs, notebook, calls, places, bounds, progress)
        answers = Answers(first.answers, later[0].answers if later else None)
        mistakes = read_mistakes(split.truth, milestone.slug)
        checks = judge(milestone, answers, split.truth, mistakes, public=split.public)
    except RoomError as error:
        return _report(milestone, notebook, all_broken(milestone, f"{OUR_FAULT}: {error}."))
    except Exception as error:  # anything else that escapes is ours: the notebook runs elsewhere
        why = f"{OUR_FAULT} ({type(error).__name__}: {error})."
        return _report(milestone, notebook, all_broken(milestone, why))
    return _report(milestone, notebook, checks, first.errors, public=split.public)


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
    notebook: Notebook,
    calls: list[Call],
    places: Places,
    limits: Limits,
    progress: Progress,
) -> list[Transcript]:
    """Run the notebook as often as asked, side by side, each from a fresh start."""
    cancelled = threading.Event()
    run = partial(_run_once, notebook.cells, places=places, limits=limits, cancelled=cancelled)
    with ThreadPoolExecutor(max_workers=runs) as pool:
        futures = [
            pool.submit(run, other_order(calls) if i else calls, silent if i else progress)
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
    calls: list[Call],
    progress: Progress,
    *,
    places: Places,
    limits: Limits,
    cancelled: threading.Event,
) -> Transcript:
    errors: list[CellError] = []
    answers: dict[str, Answer] = {}
    total = len(cells) + len(calls)
    with open_room(places, limits, cancelled) as room:
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
    return Transcript(tuple(errors), answers)
