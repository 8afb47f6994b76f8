"""What changed between two gradings of a class: who, in which check, and by how many points."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import milestones
from grader.classroom import Graded
from grader.errors import BadInputError
from grader.handins import HandIn, file_stem
from grader.outputs import spreadsheet_safe
from grader.report import is_all_bonus, shown_points

HEADER = ("student", "milestone", "points_before", "points_after", "change", "what")


@dataclass(frozen=True)
class Before:
    """An earlier grading, as `grader class` left it in a folder."""

    folder: Path

    def of(self, student: str, slug: str) -> Mapping[str, Any] | None:
        """Return the report of a hand-in; None where it was not graded then.

        Raises:
            BadInputError: the report is there and cannot be read.
        """
        path = self.folder / "reports" / file_stem(student) / f"{slug}.json"
        try:
            (found,) = json.loads(path.read_text(encoding="utf-8"))["milestones"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            raise BadInputError(f"{path}: is not a report of `grader class`") from None
        report: Mapping[str, Any] = found
        return report

    def knows(self, student: str) -> bool:
        """Whether anything of a student was graded then."""
        return (self.folder / "reports" / file_stem(student)).is_dir()


def open_before(folder: Path) -> Before:
    """Open an earlier grading.

    Raises:
        BadInputError: the folder holds none.
    """
    if not (folder / "grades.csv").is_file() or not (folder / "reports").is_dir():
        raise BadInputError(f"{folder}: holds no grades of `grader class`; name its --out folder")
    return Before(folder)


def changes(graded: Iterable[Graded], before: Before) -> Iterator[tuple[str, ...]]:
    """Yield a row for every hand-in whose points or outcomes are not what they were.

    A lab that is handed in only now or no more is a row too, of nobody who is new.

    Raises:
        BadInputError: an earlier report cannot be read.
    """
    for student, group in groupby(graded, lambda one: one.hand_in.student):
        theirs = tuple(group)
        for one in theirs:
            old = before.of(student, one.hand_in.slug)
            if old is not None:
                yield from _changed(one, old)
            elif one.hand_in.slug in milestones.BONUS_SLUGS and before.knows(student):
                yield _row(one.hand_in, 0.0, one.report.main[0], "handed in now")
        for slug in milestones.BONUS_SLUGS:
            old = before.of(student, slug)
            if old is not None and all(one.hand_in.slug != slug for one in theirs):
                yield _row(HandIn(student, slug), _main(old), 0.0, "handed in no more")


def _changed(one: Graded, old: Mapping[str, Any]) -> list[tuple[str, ...]]:
    outcomes = {check["name"]: check["outcome"] for check in old["checks"]}
    told = [
        f"{check.name}: {outcomes.get(check.name, 'not there')} -> {check.outcome}"
        for check in one.report.checks
        if outcomes.get(check.name) != str(check.outcome)
    ]
    if old["notebook_sha256"] != one.report.notebook_sha256:
        told.append("another notebook")
    bonus = old.get("bonus", 0), one.report.bonus
    if one.report.points_max and bonus[0] != bonus[1]:
        told.append(f"bonus: {shown_points(bonus[0])} -> {shown_points(bonus[1])}")
    points = _main(old), one.report.main[0]
    if not told and points[0] == points[1]:
        return []
    return [_row(one.hand_in, *points, "; ".join(told))]


def _main(old: Mapping[str, Any]) -> float | None:
    """Return the points of an earlier report; of what was all bonus its bonus."""
    all_bonus = is_all_bonus(old["points_max"], old.get("bonus_max", 0))
    points: float | None = old["bonus" if all_bonus else "points"]
    return points


def _row(hand_in: HandIn, then: float | None, now: float | None, what: str) -> tuple[str, ...]:
    change = "" if then is None or now is None else f"{now - then:+g}"
    shown = ["" if points is None else shown_points(points) for points in (then, now)]
    return hand_in.student, hand_in.slug, *shown, change, what


def gone(hand_ins: Iterable[HandIn], before: Before) -> list[str]:
    """Return the students of the earlier grading who are in this one no more."""
    with (before.folder / "grades.csv").open(encoding="utf-8", newline="") as stream:
        then = {row["student"] for row in csv.DictReader(stream)}
    return sorted(then - {spreadsheet_safe(one.student) for one in hand_ins})
