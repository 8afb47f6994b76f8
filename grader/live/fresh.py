"""The clean run: a notebook's cells in a fresh process, and where its outcomes part from the live.

The room and the judge are those of `grader check`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from grader.cold import COLD
from grader.explain import reader
from grader.grade import grade_notebook
from grader.host import Start
from grader.limits import Limits
from grader.notebook import Notebook
from grader.perform import Job, Transcript, perform
from grader.places import Places
from grader.report import CheckReport, MilestoneReport, Outcome
from grader.split import Split
from milestones.spec import Milestone


@dataclass(frozen=True)
class Difference:
    """A check that ends otherwise from a fresh kernel than in the live one."""

    live: CheckReport
    fresh: CheckReport

    @property
    def lost(self) -> bool:
        """Whether it passes here alone, so that a hand-in would not earn it."""
        return self.live.outcome is Outcome.PASSED


@dataclass(frozen=True)
class Fresh:
    """A clean run: what was run, in words, and what it came to; and the hash of its code."""

    ran: str
    report: MilestoneReport
    code_sha256: str = ""

    def differences(self, live: MilestoneReport) -> tuple[Difference, ...]:
        """Return the checks that end otherwise than in `live`, those that are lost first."""
        by_name = {check.name: check for check in self.report.checks}
        pairs = [Difference(check, by_name[check.name]) for check in live.checks]
        differing = [pair for pair in pairs if pair.live.outcome is not pair.fresh.outcome]
        return tuple(sorted(differing, key=lambda pair: not pair.lost))


def run_fresh(
    milestone: Milestone, notebook: Notebook, ran: str, split: Split, places: Places
) -> Fresh:
    """Run a notebook in fresh processes, as often as a graded run does, and judge it.

    Raises:
        KeyboardInterrupt: Ctrl-C; the processes have ended.
    """

    def here(job: Job) -> list[Transcript]:
        return perform(job, Start(places, Limits()), COLD, threading.Event())

    report = grade_notebook(milestone, notebook, split, here, read_table=reader(places))
    return Fresh(ran, report, notebook.code_sha256)
