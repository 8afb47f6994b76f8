"""Grading one notebook on one split: run it, ask it, judge what came back."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from grader.bait import Bait
from grader.cold import COLD
from grader.errors import BadInputError
from grader.explain import reader
from grader.host import Host, HostError, Start
from grader.judge import all_broken, all_failed, judge, read_mistakes
from grader.limits import Limits
from grader.notebook import Notebook, read_notebook
from grader.perform import Job, Perform, Progress, Transcript, perform, silent
from grader.places import Places
from grader.report import CellError, CheckReport, MilestoneReport
from grader.split import Split
from grader.trouble import known_error, printable
from milestones.spec import Answers, Milestone, ReadTable

MAX_CELLS_TOLD = 20  # on a hidden split: which cells raise what is a notebook's own choice
OUR_FAULT = "The grader itself failed; this costs no points, please report it"


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
        why = f"{OUR_FAULT}: {printable(str(error))}."
        return _report(milestone, notebook, all_broken(milestone, why))
    except Exception as error:  # anything else that escapes is ours: the notebook runs elsewhere
        why = f"{OUR_FAULT} ({type(error).__name__}: {printable(str(error))})."
        return _report(milestone, notebook, all_broken(milestone, why))
    report = _report(milestone, notebook, checks, _told(first, later), public=split.public)
    stop = next((t.stop for t in (first, *later) if t.stop), None)
    report = replace(report, stop=stop, document=_document(milestone, answers))
    return report if bait is None else bait.failed(milestone, report, taken)


def _told(first: Transcript, later: list[Transcript]) -> tuple[CellError, ...]:
    """Return what became of the cells of a first run, and what was stopped in another alone."""
    errors = {error.cell: error for error in first.errors}
    for error in (error for run in later for error in run.errors if error.stopped):
        again = replace(error, error=f"{error.error}, when run a second time")
        errors.setdefault(error.cell, again)
    return tuple(errors[cell] for cell in sorted(errors))


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
