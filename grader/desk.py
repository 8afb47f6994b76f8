"""Where a check of one's own notebooks finds what it needs, and leaves what it found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from grader import history
from grader.errors import BadInputError
from grader.notebook import read_notebook
from grader.report import MilestoneReport, Report
from grader.split import Split, open_split, read_manifest


@dataclass(frozen=True)
class Desk:
    """The course's folder, the folder of notebooks, and the split's if it is not the public one."""

    course: Path
    folder: Path
    split_folder: Path | None

    @property
    def data(self) -> Path:
        """The public data."""
        return self.course / "data"

    def split(self) -> Split:
        """Open the split and the public data, each file of which is as it was made.

        Raises:
            BadInputError: they are not.
        """
        read_manifest(self.data, skip=("public_split",))
        return open_split(self.split_folder or self.data / "public_split")

    def notebook(self, slug: str) -> Path:
        """Return the file of a milestone's notebook."""
        return self.folder / f"{slug}.ipynb"

    def remember(self, report: Report, by: str) -> None:
        """Write a report into the student's history, if it belongs there."""
        if not history.is_kept(self.course, self.folder, report):
            return
        now = datetime.now(UTC)
        try:
            for one in report.milestones:
                code = self._code_of(one)
                history.append(self.course, report.split_id, one, code, by, now)
        except BadInputError as error:  # the grades are what was asked for
            click.echo(f"grader: {error}", err=True)

    def _code_of(self, report: MilestoneReport) -> str:
        """Return the hash of the code that was graded; nothing if the file is another by now."""
        try:
            notebook = read_notebook(self.notebook(report.milestone))
        except BadInputError:
            return ""
        return notebook.code_sha256 if notebook.sha256 == report.notebook_sha256 else ""
