"""A student's week at a glance, from the notebooks as they lie there and the history of checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import milestones
from grader.history import Entry, History, PastCheck
from grader.report import Outcome, is_all_bonus


class State(StrEnum):
    """How a notebook stands to its last check."""

    MISSING = "no notebook"
    UNREADABLE = "cannot be read"
    BLANK = "not started"
    UNCHECKED = "not checked yet"
    CHANGED = "changed since the last check"
    OLDER = "checked by an older course"
    LIVE = "checked in its kernel alone"
    CHECKED = "checked"


@dataclass(frozen=True)
class Found:
    """A milestone and its notebook's file: no `code_sha256` where none can be read.

    `fault` says why, and is empty where there is no file at all.
    """

    points_max: float
    bonus_max: float
    blank_sha256: str
    code_sha256: str | None = None
    fault: str = ""


@dataclass(frozen=True)
class Row:
    """One milestone: its state, and its last check if there was one."""

    slug: str
    state: State
    last: Entry | None
    points_max: float
    bonus_max: float

    @property
    def number(self) -> str:
        """What commands call it: 2."""
        return milestones.number_of(self.slug)

    @property
    def points(self) -> float:
        """Points of the last check; 0 where there was none."""
        return 0.0 if self.last is None else self.last.points

    @property
    def bonus(self) -> float:
        """Bonus points of the last check."""
        return 0.0 if self.last is None else self.last.bonus

    @property
    def main(self) -> tuple[float, float]:
        """Points of the last check and to earn; of the bonus where all of it is bonus."""
        if self.is_owed:
            return self.points, self.points_max
        return self.bonus, self.bonus_max

    @property
    def is_owed(self) -> bool:
        """Whether there are points in it beside a bonus."""
        return not is_all_bonus(self.points_max, self.bonus_max)

    @property
    def is_begun(self) -> bool:
        """Whether it was checked, or there is work in its notebook."""
        return self.last is not None or self.state not in (State.MISSING, State.BLANK)

    @property
    def is_full(self) -> bool:
        """Whether the last check gave every point."""
        earned, most = self.main
        return earned >= most

    @property
    def is_done(self) -> bool:
        """Whether the notebook as it is now has every point."""
        return self.state is State.CHECKED and self.is_full


@dataclass(frozen=True)
class Best:
    """The best that a figure has been, and whether its check passed."""

    slug: str
    check: PastCheck


@dataclass(frozen=True)
class Next:
    """What to do: a milestone, why, what to think about, and the command for it."""

    slug: str
    why: str
    hint: str
    command: str


@dataclass(frozen=True)
class Week:
    """All of it."""

    rows: tuple[Row, ...]
    best: tuple[Best, ...]
    next: Next

    @property
    def shown(self) -> tuple[Row, ...]:
        """The rows to show: what nobody owes is one only once it was begun."""
        return tuple(row for row in self.rows if row.is_owed or row.is_begun)

    @property
    def points(self) -> float:
        """Points of all last checks."""
        return sum(row.points for row in self.rows)

    @property
    def points_max(self) -> float:
        """Points there are to earn."""
        return sum(row.points_max for row in self.rows)

    @property
    def bonus(self) -> float:
        """Bonus points of all last checks."""
        return sum(row.bonus for row in self.rows)

    @property
    def bonus_max(self) -> float:
        """Bonus points there are to earn."""
        return sum(row.bonus_max for row in self.rows)


def week_of(found: Mapping[str, Found], history: History, split_id: str) -> Week:
    """Return the week: `found` by slug, in the order of the course; `split_id` is today's."""
    rows = tuple(_row(slug, one, history, split_id) for slug, one in found.items())
    best = tuple(
        Best(slug, check) for slug in found for check in _best_figures(slug, history, split_id)
    )
    return Week(rows, best, _next(rows, found))


def _row(slug: str, found: Found, history: History, split_id: str) -> Row:
    last = history.last(slug)
    return Row(slug, _state(found, last, split_id), last, found.points_max, found.bonus_max)


def _state(found: Found, last: Entry | None, split_id: str) -> State:
    if found.code_sha256 is None:
        return State.UNREADABLE if found.fault else State.MISSING
    if found.code_sha256 == found.blank_sha256 and (last is None or last.main[0] == 0):
        return State.BLANK
    if last is None:
        return State.UNCHECKED
    if found.code_sha256 != last.code_sha256:
        return State.CHANGED
    if last.split_id != split_id or last.main[1] != (found.points_max or found.bonus_max):
        return State.OLDER
    return State.LIVE if last.is_live else State.CHECKED


def _best_figures(slug: str, history: History, split_id: str) -> list[PastCheck]:
    """Return each figure of a milestone at its best, on one split: another has another bar.

    Of fresh runs alone: a live kernel can hold what no cell makes, and runs nothing twice.
    """
    best: dict[str, PastCheck] = {}
    for entry in history.entries:
        if entry.milestone != slug or entry.split_id != split_id or entry.is_live:
            continue
        for check in entry.checks:
            if check.figure is not None and check.figure_name:
                known = best.setdefault(check.name, check)
                if _rank(check) > _rank(known):
                    best[check.name] = check
    return list(best.values())


def _rank(check: PastCheck) -> float:
    figure = check.figure or 0.0
    return figure if check.highest_is_best else -figure


def _next(rows: tuple[Row, ...], found: Mapping[str, Found]) -> Next:
    untouched = (State.MISSING, State.BLANK)
    left = [r for r in rows if not r.is_done and (r.is_owed or r.state not in untouched)]
    if not left:
        return Next("", "Every milestone has all its points.", "", "grader pack")
    # What was checked last is what is being worked on; without such, the first in the course.
    begun = [(row.last.at, row) for row in left if row.last and row.state is not State.BLANK]
    row = max(begun, key=lambda pair: pair[0])[1] if begun else left[0]
    check = f"grader check {row.number}"
    match row.state:
        case State.MISSING:
            return Next(row.slug, "There is no notebook.", "", f"grader reset {row.number}")
        case State.UNREADABLE:
            return Next(row.slug, "The notebook cannot be read.", found[row.slug].fault, check)
        case State.BLANK:
            where = f"notebooks/{row.slug}.ipynb"
            hint = f"What it asks is in milestones/{row.slug}/handout.md."
            return Next(row.slug, "Not started yet.", hint, f"jupyter lab {where}")
        case State.UNCHECKED:
            return Next(row.slug, "Not checked yet.", "", check)
        case State.CHANGED:
            return Next(row.slug, "It has changed since the last check.", "", check)
        case State.OLDER:
            return Next(row.slug, "The course was updated since the last check.", "", check)
        case State.LIVE | State.CHECKED:
            if row.state is State.LIVE and row.is_full:
                why = "All points in its kernel; a hand-in is run from a fresh one."
                return Next(row.slug, why, "", check)
            open_ones = row.last.failing if row.last else ()
            if not open_ones:  # a history that was edited
                return Next(row.slug, "Some points are missing.", "", check)
            # one that waits for another tells less than the other
            failing = min(open_ones, key=lambda c: c.outcome is Outcome.SKIPPED)
            return Next(row.slug, failing.sentence, failing.hint, check)
