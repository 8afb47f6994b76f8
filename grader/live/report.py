"""What a live check came to, as plain data that its two displays are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grader.live.drift import Note
from grader.live.fresh import Fresh
from grader.report import MilestoneReport

FRESH_START = (
    "Asked in this kernel as it stands. What you hand in is graded from a fresh kernel: the saved "
    "notebook, every cell from the top."
)
TWICE = "It is run and asked twice, and the answers compared: what hangs on chance shows there."
UNFOUND = (
    "The notebook's file could not be found from here, so it was not compared with this kernel."
)


@dataclass(frozen=True)
class LiveReport:
    """One check of a live notebook.

    `own_s` are the seconds spent on the student's functions. `compared` tells whether the saved
    file was found and compared with the kernel, which gave the `notes`. `unwritten` are the checks
    that fail for want of a function, and its name. `code_sha256` is that of the file's code cells
    where the kernel agrees with them.
    """

    report: MilestoneReport
    split_id: str
    runs: int
    own_s: float
    printed: str
    n_printed: int
    notes: tuple[Note, ...]
    compared: bool
    unwritten: Mapping[str, str]
    code_sha256: str = ""
    fresh: Fresh | None = None

    @property
    def said(self) -> tuple[str, ...]:
        """What holds for any live check, in sentences."""
        parts = [FRESH_START]
        if self.runs > 1:
            parts.append(TWICE)
        if not self.compared and self.fresh is None:
            parts.append(UNFOUND)
        if self.fresh is None:
            parts.append("`%check --fresh` tries that now.")
        return tuple(parts)
