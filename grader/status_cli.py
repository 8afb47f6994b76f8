"""`grader status`: the week at a glance."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import milestones
from grader import history
from grader.errors import BadInputError
from grader.notebook import read_notebook
from grader.paths import course_folder
from grader.report import Outcome, shown_bonus, shown_points
from grader.split import open_split
from grader.week import Found, Row, State, Week, week_of

BAR_CELLS = 10
STYLES = {
    State.MISSING: "red",
    State.UNREADABLE: "red",
    State.BLANK: "dim",
    State.UNCHECKED: "yellow",
    State.CHANGED: "yellow",
    State.OLDER: "yellow",
    State.LIVE: "",
    State.CHECKED: "",
}


@click.command()
def status() -> None:
    """Show your week: points, the best figures so far, and what to do next.

    The points are those of your last checks of the course's own notebooks, `%check` among them;
    the best figures are those of fresh runs. They are kept in .grader/history.jsonl for you alone:
    nobody grades by them.
    """
    course = course_folder()
    split_id = open_split(course / "data" / "public_split").split_id
    past = history.read(course)
    found = {slug: find(slug, course / "notebooks") for slug in milestones.all_slugs()}
    week = week_of(found, past, split_id)
    print_week(week, Console(highlight=False), datetime.now().astimezone(), past.n_unread)


def find(slug: str, folder: Path) -> Found:
    """Look at a milestone's notebook in a folder."""
    milestone = milestones.load(slug)
    blank = read_notebook(Path(milestones.__file__).parent / slug / "blank.ipynb")
    path = folder / f"{slug}.ipynb"
    code, fault = None, ""
    try:
        code = read_notebook(path).code_sha256
    except BadInputError as error:
        beside = "is there; give it the name" in str(error)  # a copy under another name
        fault = str(error) if path.exists() or beside else ""
    return Found(milestone.points, milestone.bonus, blank.code_sha256, code, fault)


def print_week(week: Week, console: Console, now: datetime, n_unread: int = 0) -> None:
    """Print a week as it is at a moment, on 80 columns or more."""
    console.print(Text.assemble(("KV Capacity  ", "bold"), _sum(week)))
    console.print()
    console.print(Padding(_rows(week, console, now), (0, 0, 1, 2)))
    if week.best:
        console.print(Text("Best so far", "bold"))
        console.print(Padding(_best(week), (0, 0, 1, 2)))
    console.print(Text(f"Next: {week.next.slug}" if week.next.slug else "Next", "bold"))
    console.print(Padding(Text(week.next.why), (0, 0, 0, 2)))
    if week.next.hint:
        console.print(Padding(Text(week.next.hint, "yellow"), (0, 0, 0, 2)))
    console.print(Padding(Text(week.next.command, "cyan"), (0, 0, 0, 2)))
    if n_unread:
        lines = "1 line" if n_unread == 1 else f"{n_unread} lines"
        told = f"Passed over in .grader/history.jsonl: {lines} that cannot be read."
        console.print(Text(told, "dim"))


def _sum(week: Week) -> str:
    told = f"{shown_points(week.points)} of {shown_points(week.points_max)} points"
    bonus = shown_bonus(week.bonus, week.bonus_max)
    return f"{told}, {bonus}" if bonus else told


def _rows(week: Week, console: Console, now: datetime) -> Table:
    table = Table.grid(padding=(0, 2))
    for row in week.shown:
        style = STYLES[row.state]
        table.add_row(
            Text(row.slug, "dim" if row.state is State.BLANK else ""),
            Text(_points(row), "green" if row.is_done else style, justify="right"),
            Text(_bar(row, console), "green" if row.is_done else style),
            Text(_told(row, now), style),
        )
    return table


def _points(row: Row) -> str:
    earned, most = row.main
    told = f"{'-' if row.last is None else shown_points(earned)}/{shown_points(most)}"
    if not row.is_owed:
        return f"{told} bonus"
    return f"{told} +{shown_points(row.bonus)}" if row.bonus else told


def _bar(row: Row, console: Console) -> str:
    full, empty = ("#", ".") if console.options.ascii_only else ("━", "·")
    earned, most = row.main
    share = earned / most if most else 0.0
    n_full = int(share * BAR_CELLS)  # full only where every point is there
    return full * n_full + empty * (BAR_CELLS - n_full)


def _told(row: Row, now: datetime) -> str:
    if row.last is not None and row.state in (State.CHECKED, State.LIVE):
        live = "%check " if row.state is State.LIVE else "checked "
        return live + moment(row.last.at, now)
    return str(row.state)


def moment(at: datetime, now: datetime) -> str:
    """Return a time as a person tells it: today, this week, else the date."""
    local = at.astimezone(now.tzinfo)
    days = (now.date() - local.date()).days
    if days == 0:
        return f"today {local:%H:%M}"
    if 0 < days < 7:
        return f"{local:%a %H:%M}"
    return f"{local:%Y-%m-%d}"


def _best(week: Week) -> Table:
    table = Table.grid(padding=(0, 2))
    for best in week.best:
        check = best.check
        passed = check.outcome is Outcome.PASSED
        table.add_row(
            best.slug,
            check.figure_name,
            Text(f"{check.figure:.4f}", "bold", justify="right"),
            Text("" if check.bar is None else f"bar {check.bar:g}", "dim"),
            Text("passed" if passed else "not yet", "green" if passed else "yellow"),
        )
    return table
