"""One check of a live notebook: find the milestone, ask, judge, compare with the saved file."""

from __future__ import annotations

import os
import warnings
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import milestones
from grader.errors import BadInputError
from grader.explain import reader
from grader.judge import all_broken, judge, read_mistakes
from grader.live.asking import Asked, ask_all
from grader.live.drift import Note, drift
from grader.live.fresh import run_fresh
from grader.live.history import History, saved_at
from grader.live.place import beside, milestone_of, notebook_file
from grader.live.report import LiveReport
from grader.notebook import Notebook, read_notebook
from grader.paths import course_folder
from grader.places import Places
from grader.report import CheckReport, MilestoneReport, Outcome
from grader.split import Split, open_split, read_manifest
from milestones.spec import Answers, Milestone


class Reading:
    """The course's files, once read, for as long as their manifests stay the same."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._manifests: tuple[bytes, ...] = ()
        self._read: dict[str, Any] = {}

    def of(self, places: Places, split: Split) -> dict[str, Any]:
        """Return what was read so far of these files."""
        folders = (places.data, split.folder)
        manifests = tuple((folder / "MANIFEST.json").read_bytes() for folder in folders)
        if manifests != self._manifests:
            self._manifests, self._read = manifests, {}
        return self._read


@dataclass(frozen=True)
class Subject:
    """What is checked: a milestone, by a live namespace and perhaps its notebook's file."""

    milestone: Milestone
    namespace: MutableMapping[str, Any]
    file: Path | None
    split: Split
    places: Places
    course: Path


def subject_of(named: str, namespace: MutableMapping[str, Any]) -> Subject:
    """Return what a live notebook means by `%check NAMED`.

    Raises:
        BadInputError: no milestone or no course can be found; the message says what to do.
    """
    file = notebook_file(namespace, os.environ)
    slug = milestone_of(named, file, namespace.keys())
    course = course_folder(None if file is None else file.parent)
    data = course / "data"
    read_manifest(data, skip=("public_split",))
    split = open_split(data / "public_split")
    places = Places(data, split.folder / "questions", split.overlay(slug))
    found = file or beside(slug, namespace, os.environ)
    return Subject(milestones.load(slug), namespace, found, split, places, course)


def check_live(subject: Subject, history: History, reading: Reading) -> LiveReport:
    """Ask the namespace every question of the public split and judge what comes back.

    Raises:
        StoppedError: it was stopped by Ctrl-C or a notebook's stop button.
    """
    milestone = subject.milestone
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of our own reading; the student's filters are theirs
        calls = milestone.calls(subject.split.questions)
        read = reading.of(subject.places, subject.split)
    asked = ask_all(calls, subject.namespace, subject.places, read)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checks = _judged(subject, asked)
        notebook, notes = _compared(subject, history)
    return LiveReport(
        MilestoneReport(milestone.slug, milestone.title, "", checks),
        subject.split.split_id,
        milestone.runs,
        asked.own_s,
        asked.printed,
        asked.n_printed,
        notes,
        subject.file is not None,
        _unwritten(milestone, checks, asked),
        "" if notebook is None or notes else notebook.code_sha256,
    )


def with_fresh_run(live: LiveReport, subject: Subject, history: History) -> LiveReport:
    """Return the report with a clean run beside it: of the saved file, or of the cells as run.

    Raises:
        BadInputError: the file cannot be read.
        KeyboardInterrupt: it was stopped.
    """
    if subject.file is None:
        notebook, ran = history.as_notebook(), "the cells you ran, in the order you ran them"
    else:
        notebook, ran = read_notebook(subject.file), f"{subject.file.name} as it is saved"
    fresh = run_fresh(subject.milestone, notebook, ran, subject.split, subject.places)
    return replace(live, fresh=fresh)


def _judged(subject: Subject, asked: Asked) -> tuple[CheckReport, ...]:
    milestone, split = subject.milestone, subject.split
    try:
        mistakes = read_mistakes(split.truth, milestone.slug)
        answers = Answers(asked.answers)
        return judge(
            milestone,
            answers,
            split.truth,
            mistakes,
            public=split.public,
            read_table=reader(subject.places),
        )
    except Exception as error:  # the split is ours, so is the fault
        return all_broken(milestone, f"The grader failed ({type(error).__name__}: {error}).")


@lru_cache
def _given(slug: str) -> frozenset[str]:
    """Return the sources of the cells that the course gave."""
    blank = Path(milestones.__file__).parent / slug / "blank.ipynb"
    try:
        return frozenset(cell.source for cell in read_notebook(blank).cells)
    except BadInputError:
        return frozenset()


def _unwritten(milestone: Milestone, checks: Sequence[CheckReport], asked: Asked) -> dict[str, str]:
    """Return the checks that wait for a function to be written, and its name."""
    found = {}
    for check, report in zip(milestone.checks, checks, strict=True):
        under = [a for a in asked.answers.values() if a.call.topic in check.topics]
        calls = [answer.call for answer in under if answer.call.id in asked.unwritten]
        if calls and report.outcome is Outcome.FAILED:
            found[check.name] = calls[0].function
    return found


def _compared(subject: Subject, history: History) -> tuple[Notebook | None, tuple[Note, ...]]:
    """Return the saved notebook, where one can be read, and where the kernel parts from it."""
    if subject.file is None:
        return None, ()
    try:
        notebook = read_notebook(subject.file)
    except BadInputError as error:
        return None, (Note("unreadable", "", str(error)),)
    names = subject.milestone.functions
    missing = [name for name in names if name not in subject.namespace]
    found = drift(
        names,
        history.saved_cells(notebook),
        history.run_cells(),
        saved_at(subject.file),
        missing,
        _given(subject.milestone.slug),
    )
    return notebook, found
