"""The files that `grader check` writes its report to, and the page in the browser."""

from __future__ import annotations

import webbrowser
from dataclasses import dataclass
from pathlib import Path

import click

from grader.errors import BadInputError
from grader.notebook import read_notebook
from grader.present import as_json, as_junit
from grader.report import Report


@dataclass(frozen=True)
class Files:
    """Where a report goes; None where it does not."""

    json: Path | None
    junit: Path | None
    html: Path | None

    def refuse_lost_ones(self) -> None:
        """Check that each has a folder to lie in, before anything is graded.

        Raises:
            BadInputError: one has not.
        """
        for file in (self.json, self.junit, self.html):
            if file is not None and not file.absolute().parent.is_dir():
                raise BadInputError(f"{file}: its folder does not exist; make it first")

    def write(self, report: Report, notebooks: Path) -> None:
        """Write them all.

        Raises:
            BadInputError: one cannot be written.
        """
        if self.json is not None:
            _write(self.json, as_json(report))
        if self.junit is not None:
            _write(self.junit, as_junit(report))
        if self.html is not None:
            _write(self.html, _page(report, notebooks))


def show_in_browser(page: Path) -> None:
    """Open a page in the browser; where there is none, say where the page lies."""
    where = page.resolve()
    try:
        shown = webbrowser.open(where.as_uri())
    except webbrowser.Error:
        shown = False
    if not shown:
        click.echo(f"No browser could be started; open {where} in one.", err=True)


def _page(report: Report, folder: Path) -> str:
    from grader.html import report_page  # a slow import, for those who ask for a page

    notebooks = {}
    for milestone in report.milestones:
        if milestone.unreadable is None:
            path = folder / f"{milestone.milestone}.ipynb"
            notebooks[milestone.milestone] = read_notebook(path)
    return report_page(report, notebooks)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise BadInputError(f"{file}: cannot be written: {error.strerror}") from None
