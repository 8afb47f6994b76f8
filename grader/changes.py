"""What changed between two gradings of a class: who, in which check, and by how many points."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.classroom import Graded
from grader.errors import BadInputError
from grader.handins import file_stem
from grader.outputs import spreadsheet_safe
from grader.report import shown_points

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


def open_before(folder: Path) -> Before:
    """Open an earlier grading.

    Raises:
        BadInputError: the folder holds none.
    """
    if not (folder / "grades.csv").is_file() or not (folder / "reports").is_dir():
        raise BadInputError(f"{folder}: holds no grades of `grader class`; name its --out folder")
    return Before(folder)


def changes(graded: Sequence[Graded], before: Before) -> list[tuple[str, ...]]:
    """Return a row for every hand-in whose points or outcomes are not what they were.

    Raises:
        BadInputError: an earlier report cannot be read.
    """
    rows = []
    for one in graded:
        old = before.of(one.hand_in.student, one.hand_in.slug)
        if old is None:
            continue
        outcomes = {check["name"]: check["outcome"] for check in old["checks"]}
        told = [
            f"{check.name}: {outcomes.get(check.name, 'not there')} -> {check.outcome}"
            for check in one.report.checks
            if outcomes.get(check.name) != str(check.outcome)
        ]
        if old["notebook_sha256"] != one.report.notebook_sha256:
            told.append("another notebook")
        points = old["points"], one.report.points
        bonus = old.get("bonus", 0), one.report.bonus
        if bonus[0] != bonus[1]:
            told.append(f"bonus: {shown_points(bonus[0])} -> {shown_points(bonus[1])}")
        if told or points[0] != points[1]:
            known = points[0] is not None and points[1] is not None
            change = f"{points[1] - points[0]:+g}" if known else ""
            shown = [shown_points(value) if value is not None else "" for value in points]
            student, slug = one.hand_in.student, one.hand_in.slug
            rows.append((student, slug, *shown, change, "; ".join(told)))
    return rows


def gone(graded: Sequence[Graded], before: Before) -> list[str]:
    """Return the students of the earlier grading who are in this one no more."""
    with (before.folder / "grades.csv").open(encoding="utf-8", newline="") as stream:
        then = {row["student"] for row in csv.DictReader(stream)}
    return sorted(then - {spreadsheet_safe(one.hand_in.student) for one in graded})
