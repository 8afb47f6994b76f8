"""What a live check leaves in the student's history, for `grader status` to tell of."""

from __future__ import annotations

from datetime import UTC, datetime

from grader import history
from grader.live.check import Subject
from grader.live.report import LiveReport
from grader.report import MilestoneReport, Report

BY_FRESH = "fresh"  # `%check --fresh`: a run like that of `grader check`


def keep(live: LiveReport, subject: Subject) -> None:
    """Write down what a live check came to; of one with a fresh run, what that came to.

    A kernel that is known to part from a fresh one is not kept: its points would not be earned.
    Work that is merely not saved yet is, without a hash: it is the code of no file.

    Raises:
        BadInputError: it cannot be written; the message says why.
    """
    if live.fresh is not None:
        _append(live.fresh.report, live.fresh.code_sha256, BY_FRESH, subject)
    elif all(note.kind == "unsaved" for note in live.notes):
        _append(live.report, live.code_sha256, history.LIVE, subject)


def _append(report: MilestoneReport, code_sha256: str, by: str, subject: Subject) -> None:
    split, file = subject.split, subject.file
    if file is None or file.name != f"{report.milestone}.ipynb":  # another one, or a copy
        return
    if history.is_kept(
        subject.course, file.parent, Report(split.split_id, split.public, (report,))
    ):
        now = datetime.now(UTC)
        history.append(subject.course, split.split_id, report, code_sha256, by, now)
