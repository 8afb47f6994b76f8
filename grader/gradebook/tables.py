"""What a gradebook stores: natural keys, no numbers that depend on when a row came in.

The number of an attempt is not stored: it follows from the times of the hand-ins, and the view
`attempts` shows it. So two gradebooks of one content hold the same rows, in whatever order they
were filled.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    DDL,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Text,
    TypeDecorator,
    event,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

SCHEMA = "2"
WHOLE = ""  # the `part` of an override that sets a milestone's points, not a check's


class Utc(TypeDecorator[datetime]):
    """A moment, in UTC whatever the database makes of time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Store UTC; a time without a zone is a mistake of ours."""
        if value is None:
            return None
        assert value.tzinfo is not None
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give an aware time in UTC back."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


class Storable(TypeDecorator[str]):
    """Text that every database takes: PostgreSQL takes no NUL, none takes half a character."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Put a replacement character where one cannot be stored."""
        return None if value is None else storable(value)


def storable(text: str) -> str:
    """Return text as a gradebook stores it."""
    return text.replace("\0", "�").encode("utf-8", "replace").decode("utf-8")


class Base(DeclarativeBase):
    """Every table of the gradebook."""

    type_annotation_map = {  # noqa: RUF012
        str: Storable,
        datetime: Utc,
        float: Float(53),
    }


# Sorted by key on disk, and without SQLite's hidden row numbers, which count insertions.
SORTED: dict[str, Any] = {"sqlite_with_rowid": False}


class About(Base):
    """What the file says of itself: its schema."""

    __tablename__ = "about"
    __table_args__ = (SORTED,)

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class Student(Base):
    """Everyone who has a folder among the hand-ins."""

    __tablename__ = "students"
    __table_args__ = (SORTED,)

    student: Mapped[str] = mapped_column(primary_key=True)


class HandInRow(Base):
    """One notebook of one student: the same bytes are the same attempt.

    `notebook_sha256` is empty where there was no file to read. `handed_in_at` is the first time
    these bytes were handed in, `last_handed_in_at` the last.
    """

    __tablename__ = "hand_ins"
    __table_args__ = (SORTED,)

    student: Mapped[str] = mapped_column(ForeignKey("students.student"), primary_key=True)
    milestone: Mapped[str] = mapped_column(primary_key=True)
    notebook_sha256: Mapped[str] = mapped_column(primary_key=True)
    handed_in_at: Mapped[datetime | None]
    last_handed_in_at: Mapped[datetime | None]


class GradingRow(Base):
    """What one notebook came to on one split with one version of the grader.

    `points` is null where a check is BROKEN, `bonus` where a bonus check is. `cells` is JSON: the
    cells that raised.
    """

    __tablename__ = "gradings"
    __table_args__ = (
        ForeignKeyConstraint(
            ["student", "milestone", "notebook_sha256"],
            ["hand_ins.student", "hand_ins.milestone", "hand_ins.notebook_sha256"],
        ),
        SORTED,
    )

    student: Mapped[str] = mapped_column(primary_key=True)
    milestone: Mapped[str] = mapped_column(primary_key=True)
    notebook_sha256: Mapped[str] = mapped_column(primary_key=True)
    split_id: Mapped[str] = mapped_column(primary_key=True)
    grader_version: Mapped[str] = mapped_column(primary_key=True)
    walled: Mapped[bool]
    reason: Mapped[str]
    points: Mapped[float | None]
    points_max: Mapped[float]
    bonus: Mapped[float | None]
    bonus_max: Mapped[float]
    title: Mapped[str]
    stopped: Mapped[str | None]
    by_bound: Mapped[bool]
    unreadable: Mapped[str | None]
    note: Mapped[str]
    cells: Mapped[str]


class CheckRow(Base):
    """One check's outcome in one grading; `position` is its place in the milestone."""

    __tablename__ = "checks"
    __table_args__ = (
        ForeignKeyConstraint(
            ["student", "milestone", "notebook_sha256", "split_id", "grader_version"],
            [
                "gradings.student",
                "gradings.milestone",
                "gradings.notebook_sha256",
                "gradings.split_id",
                "gradings.grader_version",
            ],
        ),
        SORTED,
    )

    student: Mapped[str] = mapped_column(primary_key=True)
    milestone: Mapped[str] = mapped_column(primary_key=True)
    notebook_sha256: Mapped[str] = mapped_column(primary_key=True)
    split_id: Mapped[str] = mapped_column(primary_key=True)
    grader_version: Mapped[str] = mapped_column(primary_key=True)
    check_name: Mapped[str] = mapped_column("check", primary_key=True)
    position: Mapped[int]
    outcome: Mapped[str]
    points: Mapped[float | None]
    points_max: Mapped[float]
    bonus: Mapped[bool]
    figure: Mapped[float | None]
    bar: Mapped[float | None]
    sentence: Mapped[str]
    hint: Mapped[str]
    mistake: Mapped[str]


class OverrideRow(Base):
    """Points that a person set; rows are only added, and the latest rules.

    `part` is a check's name, or empty for the whole milestone; `points` is null where the person
    took an earlier override back.
    """

    __tablename__ = "overrides"
    __table_args__ = (SORTED,)

    student: Mapped[str] = mapped_column(ForeignKey("students.student"), primary_key=True)
    milestone: Mapped[str] = mapped_column(primary_key=True)
    part: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    points: Mapped[float | None]
    author: Mapped[str]
    reason: Mapped[str]


class CriterionRow(Base):
    """One line of a rubric, for what a person marks; a bonus adds nothing to the maximum."""

    __tablename__ = "criteria"
    __table_args__ = (SORTED,)

    milestone: Mapped[str] = mapped_column(primary_key=True)
    criterion: Mapped[str] = mapped_column(primary_key=True)
    points_max: Mapped[float]
    bonus: Mapped[bool]
    sentence: Mapped[str]


class ManualRow(Base):
    """The points that a person gave a student for one criterion."""

    __tablename__ = "manual_points"
    __table_args__ = (
        ForeignKeyConstraint(
            ["milestone", "criterion"], ["criteria.milestone", "criteria.criterion"]
        ),
        SORTED,
    )

    student: Mapped[str] = mapped_column(ForeignKey("students.student"), primary_key=True)
    milestone: Mapped[str] = mapped_column(primary_key=True)
    criterion: Mapped[str] = mapped_column(primary_key=True)
    points: Mapped[float]
    author: Mapped[str]
    comment: Mapped[str]


class EventRow(Base):
    """What was changed after it stood in the book: when, by whom, from what to what.

    Grading for the first time is no event, so no clock of the grading machine is stored.
    """

    __tablename__ = "events"
    __table_args__ = (SORTED,)

    student: Mapped[str] = mapped_column(primary_key=True)
    milestone: Mapped[str] = mapped_column(primary_key=True)
    part: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    author: Mapped[str]
    before: Mapped[str]
    after: Mapped[str]
    reason: Mapped[str]


TABLES = (
    About,
    Student,
    HandInRow,
    GradingRow,
    CheckRow,
    OverrideRow,
    CriterionRow,
    ManualRow,
    EventRow,
)

FROM_1 = (  # a gradebook of schema 1 knows no bonus: what it holds has none
    "ALTER TABLE gradings ADD COLUMN bonus FLOAT DEFAULT 0",
    "ALTER TABLE gradings ADD COLUMN bonus_max FLOAT NOT NULL DEFAULT 0",
    "ALTER TABLE checks ADD COLUMN bonus BOOLEAN NOT NULL DEFAULT false",
    "UPDATE about SET value = '2' WHERE name = 'schema'",
)

# For whoever looks into the file with SQL: attempts as they count, the first is number 1.
event.listen(
    Base.metadata,
    "after_create",
    DDL(  # type: ignore[no-untyped-call]
        "CREATE VIEW attempts AS SELECT student, milestone, notebook_sha256, handed_in_at,"
        " row_number() OVER (PARTITION BY student, milestone"
        " ORDER BY handed_in_at, notebook_sha256) AS attempt"
        " FROM hand_ins WHERE notebook_sha256 <> ''"
    ),
)
