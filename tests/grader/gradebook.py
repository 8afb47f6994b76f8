"""Graded hand-ins made by hand, and what a gradebook makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from grader.classroom import Graded, Reason
from grader.gradebook.book import Book, open_book, record, settle
from grader.handins import HandIn
from grader.report import CellError, CheckReport, MilestoneReport, Outcome, Stop

M2, M7 = "m2_kv_bytes", "m7_planner"
SPLIT = "hidden-1"
STUDENTS = ("ann", "Bjørn Ångström", "王小明", "=HYPERLINK(1)", "o'neil")
MONDAY = datetime(2026, 10, 5, 12, tzinfo=UTC)

Item = tuple[Graded, datetime | None]


def graded(
    student: str,
    points: Sequence[float | None] = (4.0, 3.5, 7.5),
    *,
    notebook: str = "first",
    slug: str = M2,
    reason: Reason | None = None,
    hint: str = "",
) -> Graded:
    """A hand-in whose checks have 5, 5, 5, ... points to earn; None is BROKEN."""
    checks = tuple(
        CheckReport(
            f"check_{position}",
            f"Sentence {position}.",
            Outcome.BROKEN if earned is None else Outcome.PASSED if earned else Outcome.FAILED,
            earned,
            5.0,
            0.0612 if position == 1 else None,
            0.062 if position == 1 else None,
            hint,
            "a named mistake" if position == 2 else "",
        )
        for position, earned in enumerate(points)
    )
    report = MilestoneReport(
        slug, "A title", sha256(notebook.encode()).hexdigest(), checks, (CellError(3, "KeyError"),),
        stop=Stop("stopped after 60 CPU seconds", by_bound=True),
    )  # fmt: skip
    broken = Reason.BROKEN if None in points else Reason.GRADED
    return Graded(HandIn(student, slug), report, reason or broken)


def missing(student: str, slug: str = M2) -> Graded:
    """A hand-in that is none."""
    checks = tuple(
        CheckReport(f"check_{i}", f"Sentence {i}.", Outcome.FAILED, 0.0, 5.0) for i in range(3)
    )
    report = MilestoneReport(slug, "A title", "", checks, unreadable="Nothing was handed in.")
    return Graded(HandIn(student, slug), report, Reason.MISSING)


def a_class() -> list[Item]:
    """Some students with some attempts, names of several kinds, one BROKEN, one missing."""
    items: list[Item] = []
    for number, student in enumerate(
        ("ann", "Bjørn Ångström", "王小明", "=HYPERLINK(1)", "o'neil")
    ):
        for attempt in range(3):
            points = [float(attempt), 10 / 3, None if number == 3 and attempt == 1 else 2.5]
            when = MONDAY + timedelta(days=attempt, seconds=number)
            items.append((graded(student, points, notebook=f"{student} {attempt}"), when))
    # the same notebook, at two runs: once the machine broke
    items.append((graded("ann", [None, 10 / 3, 2.5], notebook="ann 0"), MONDAY))
    items.append((graded("Ann", [1.0, 2.0, 3.0]), None))
    items.append((missing("zoe"), None))
    return items


def write(book: Book, items: Iterable[Item], *, split_id: str = SPLIT) -> None:
    for one, when in items:
        record(book, one, split_id=split_id, walled=True, handed_in_at=when)


def settled(path: Path, items: Iterable[Item]) -> bytes:
    """Make a gradebook and return its bytes as `grader class` leaves them."""
    with open_book(path, create=True) as book:
        write(book, items)
    settle(path)
    return path.read_bytes()
