"""What `grader check --watch` shows: the report after a save, and what is otherwise than before."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.text import Text

from grader.desk import Desk
from grader.errors import BadInputError
from grader.present import points_told, print_milestone
from grader.report import CheckReport, MilestoneReport, Report, shown_points
from grader.since import Since, since
from grader.split import Split
from grader.watch import Graded
from grader.written import Files, show_in_browser


class WatchScreen:
    """Shows what a watch comes to, and keeps the files of the last report up to date."""

    def __init__(
        self, desk: Desk, files: Files, page: Path | None, console: Console, *, alone: bool
    ) -> None:
        """Show on a console; `page` is opened in the browser once, when it is first written.

        Where a milestone is watched `alone`, its first report is shown whole.
        """
        self._desk, self._files, self._page = desk, files, page
        self._console, self._alone = console, alone
        self._last: dict[str, MilestoneReport] = {}
        self._first_pass = True

    def begin(self, n_notebooks: int) -> None:
        """Say what is watched."""
        what = "1 notebook" if n_notebooks == 1 else f"{n_notebooks} notebooks"
        where = escape(str(self._desk.folder))
        self._console.print(f"Watching {what} in {where}. Save to grade; Ctrl-C ends.")

    def graded(self, graded: Graded) -> None:
        """Show a milestone, write it into the history, and write the files anew."""
        report = graded.report
        self._last[report.milestone] = report
        if graded.on_save or self._alone:
            self._show_whole(graded)
        else:
            points = points_told(report) if report.unreadable is None else "cannot be read"
            self._console.print(Text.assemble((f"{report.milestone:<24}", "bold"), points))
        try:
            split = self._desk.split()
            self._desk.remember(Report(split.split_id, split.public, (report,)), "watch")
            if not self._first_pass:
                self._write(split)
        except BadInputError as error:
            self._console.print(Text(f"grader: {error}", "yellow"))

    def overtaken(self, slug: str) -> None:
        """Say that what was being graded is old by now."""
        self._moment(slug, "saved again while it was graded; starting over")

    def same_code(self, slug: str) -> None:
        """Say that there is nothing new to grade."""
        self._moment(slug, "saved; its code is as it was")

    def idle(self) -> None:
        """Show the whole once every notebook has been graded once."""
        if not self._first_pass:
            return
        self._first_pass = False
        try:
            split = self._desk.split()
            self._write(split)
        except BadInputError as error:
            self._console.print(Text(f"grader: {error}", "yellow"))
            return
        if not self._alone:
            whole = self._report(split)
            self._console.print(Text.assemble((f"{'total':<24}", "bold"), points_told(whole)))
        if self._page is not None:
            show_in_browser(self._page)

    def _report(self, split: Split) -> Report:
        return Report(split.split_id, split.public, tuple(self._last.values()))

    def _write(self, split: Split) -> None:
        self._files.write(self._report(split), self._desk.folder)

    def _moment(self, slug: str, what: str) -> None:
        now = f"{datetime.now():%H:%M:%S} "
        self._console.print(Text.assemble((now, "dim"), (slug, "bold"), f" {what}"))

    def _show_whole(self, graded: Graded) -> None:
        report, before = graded.report, graded.before
        if graded.on_save:
            self._console.rule(
                f"[dim]graded at {datetime.now():%H:%M:%S}", align="left", style="dim"
            )
        print_milestone(report, self._console)
        if before is not None and report.unreadable is None:
            show_since(since(before, report), shown_points(report.main[0]), self._console)


def show_since(found: Since, points: str, console: Console) -> None:
    """Show which checks ended otherwise than before, and which figures moved."""
    if found.nothing:
        console.print(Padding(Text("Every outcome is as it was before.", "dim"), (0, 0, 1, 2)))
        return
    lines = [Text(f"+ newly passed: {c.sentence}", "green") for c in found.newly_passed]
    lines += [Text(f"- newly failed: {c.sentence}", "red") for c in found.newly_failed]
    lines += [Text(f"~ {_figure(moved.now, moved.before)}") for moved in found.moved]
    before = shown_points(found.points_before)
    change = "" if before == points else f", {before} -> {points} points"
    title = f"Since the last time{change}:"
    console.print(Padding(Text(title, "bold"), (0, 0, 0, 2)))
    for line in lines:  # each on one line: the whole sentence stands above
        line.truncate(console.width - 4, overflow="ellipsis")
        console.print(Padding(line, (0, 0, 0, 4)))
    console.print()


def _figure(check: CheckReport, before: float) -> str:
    name = check.figure_name or check.sentence
    bar = "" if check.bar is None else f" (bar {check.bar:g})"
    return f"{name}: {before:.4f} -> {check.figure:.4f}{bar}"
