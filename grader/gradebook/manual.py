"""Points that a person gives against a rubric: read from CSV, checked whole, merged at once.

Every fault of a file is told, each with its row, before anything is written.
"""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from grader.errors import BadInputError
from grader.gradebook.book import Book
from grader.gradebook.points import shown
from grader.gradebook.tables import CriterionRow, EventRow, ManualRow, Student
from grader.outputs import FORMULA_STARTS
from grader.trouble import printable

POINTS = ("student", "criterion", "points", "comment", "author")
RUBRIC = ("criterion", "points_max", "sentence")
MOST = Decimal(1_000)


@dataclass(frozen=True)
class Criterion:
    """One line of a rubric."""

    name: str
    points_max: Decimal
    sentence: str
    bonus: bool = False


@dataclass(frozen=True)
class Mark:
    """What a person gave one student for one criterion, and the row it stands in."""

    row: int
    student: str
    criterion: str
    points: Decimal
    comment: str
    author: str


@dataclass(frozen=True)
class Merged:
    """What a merge came to, in marks."""

    new: int
    changed: int
    same: int


# ---------------------------------------------------------------- reading


class _CriterionTable(BaseModel):
    model_config = ConfigDict(extra="forbid")

    criterion: Annotated[str, Field(min_length=1)]
    points_max: Annotated[Decimal, Field(gt=0, le=MOST)]
    sentence: str
    bonus: bool = False


class _RubricFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    criterion: list[_CriterionTable]


def read_rubric(path: Path) -> tuple[Criterion, ...]:
    """Read a rubric: CSV with the columns criterion, points_max, sentence (and bonus), or TOML.

    Raises:
        BadInputError: something in it is wrong; the message has a line for each fault.
    """
    if path.suffix == ".toml":
        rows = [*enumerate(_toml_rows(path), start=1)]
    else:
        rows = [(line, {**row}) for line, row in csv_rows(path, RUBRIC, ("bonus",))]
    faults, found = [], {}
    for number, row in rows:
        given = {key: value for key, value in row.items() if (key, value) != ("bonus", "")}
        try:
            one = _CriterionTable.model_validate(given)
        except ValidationError as error:
            faults += [
                f"{path}: row {number}: {'.'.join(map(str, e['loc']))}: {e['msg']}"
                for e in error.errors()
            ]
            continue
        if one.criterion in found:
            faults.append(f"{path}: row {number}: criterion {one.criterion!r} stands there twice")
        found[one.criterion] = Criterion(one.criterion, one.points_max, one.sentence, one.bonus)
    if faults:
        raise BadInputError("\n".join(faults))
    if not found:
        raise BadInputError(f"{path}: holds no criterion")
    return tuple(found.values())


def _toml_rows(path: Path) -> list[dict[str, object]]:
    try:
        content = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise BadInputError(f"{path}: is not TOML: {error}") from None
    rows: object = content.pop("criterion", [])
    if content or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadInputError(f"{path}: a rubric in TOML holds [[criterion]] tables and nothing else")
    return rows


def read_marks(path: Path) -> list[Mark]:
    """Read marks: CSV with the columns student, criterion, points, comment, author.

    Raises:
        BadInputError: something in it cannot be read; the message has a line for each fault.
    """
    marks, faults = [], []
    for number, row in csv_rows(path, POINTS):
        points = _number(row["points"])
        if points is None:
            faults.append(f"{path}: row {number}: points {row['points']!r} is no number")
        for column in ("student", "criterion", "author"):
            if not row[column]:
                faults.append(f"{path}: row {number}: {column} is empty")
        marks.append(
            Mark(
                number,
                row["student"],
                row["criterion"],
                points or Decimal(0),
                row["comment"],
                row["author"],
            )
        )
    if faults:
        raise BadInputError("\n".join(faults))
    return marks


def _number(text: str) -> Decimal | None:
    """Read a number as people write it: 2.5 or 2,5."""
    try:
        number = Decimal(text.replace(",", ".") if text.count(",") == 1 else text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def csv_rows(
    path: Path, columns: Sequence[str], more: Sequence[str] = ()
) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of a CSV with exactly these columns, each with its line.

    A spreadsheet may have put semicolons between them, or an apostrophe before what looks like a
    formula: both are understood.
    """
    lines = _text(path).splitlines(keepends=True)
    head = lines[0] if lines else ""
    reader = csv.reader(lines, delimiter=";" if ";" in head and "," not in head else ",")
    header = [name.strip().lower() for name in next(reader, [])]
    lacking = [name for name in columns if name not in header]
    strange = [name for name in header if name not in (*columns, *more)]
    if lacking or strange or len(set(header)) < len(header):
        raise BadInputError(
            f"{path}: its first row must name the columns {', '.join(columns)}; "
            f"it names {printable(', '.join(header))[:200] or 'nothing'}"
        )
    rows, faults = [], []
    number = 1  # as a spreadsheet counts rows, whose cells may hold several lines
    try:
        for number, cells in enumerate(reader, start=2):
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                faults.append(f"{path}: row {number}: has {len(cells)} cells, not {len(header)}")
                continue
            plain = (_unquoted(cell.strip()) for cell in cells)
            rows.append((number, dict(zip(header, plain, strict=True))))
    except csv.Error as error:
        faults.append(f"{path}: row {number + 1}: {error}")
    if faults:
        raise BadInputError("\n".join(faults))
    return rows


def _unquoted(cell: str) -> str:
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(FORMULA_STARTS) else cell


def _text(path: Path) -> str:
    try:
        return io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="").getvalue()
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInputError(f"{path}: is not UTF-8; save it as 'CSV UTF-8'") from None


# ---------------------------------------------------------------- merging


def merge_marks(
    book: Book,
    milestone: str,
    rubric: Sequence[Criterion],
    marks: Sequence[Mark],
    *,
    name: str = "the marks",
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Merged:
    """Write marks into the book, all of them or none; the same marks again change nothing.

    Raises:
        BadInputError: a student or criterion is unknown, or points are too many; the message has
            a line for each fault.
    """
    by_name = {criterion.name: criterion for criterion in rubric}
    at = now()
    with book.writing() as session:
        students = set(session.scalars(select(Student.student)))
        kept = {
            (row.student, row.criterion): row
            for row in session.scalars(select(ManualRow).filter_by(milestone=milestone))
        }
        faults = [
            *_faults_of_rubric(by_name, kept),
            *(f"{name}: {fault}" for fault in _faults(marks, by_name, students)),
        ]
        if faults:
            raise BadInputError("\n".join(faults))
        _write_rubric(session, milestone, rubric)
        counts = {"new": 0, "changed": 0, "same": 0}
        for mark in marks:
            old = kept.get((mark.student, mark.criterion))
            row = ManualRow(
                student=mark.student, milestone=milestone, criterion=mark.criterion,
                points=float(mark.points), author=mark.author, comment=mark.comment,
            )  # fmt: skip
            if old is not None and _told(old) == _told(row) and old.comment == row.comment:
                counts["same"] += 1
                continue
            counts["new" if old is None else "changed"] += 1
            session.add(
                EventRow(
                    student=mark.student,
                    milestone=milestone,
                    part=mark.criterion,
                    at=at,
                    kind="marked by hand",
                    author=mark.author,
                    before="" if old is None else _told(old),
                    after=_told(row),
                    reason=mark.comment,
                )
            )
            session.merge(row)
    return Merged(**counts)


def _told(row: ManualRow) -> str:
    return f"{row.points:g} by {row.author}"


def _faults(
    marks: Sequence[Mark], rubric: Mapping[str, Criterion], students: set[str]
) -> list[str]:
    faults = []
    seen: dict[tuple[str, str], int] = {}
    for mark in marks:
        row = f"row {mark.row}"
        if mark.student not in students:
            faults.append(f"{row}: there is no student {mark.student!r} in the gradebook")
        criterion = rubric.get(mark.criterion)
        if criterion is None:
            known = ", ".join(rubric)
            faults.append(f"{row}: there is no criterion {mark.criterion!r}; there are {known}")
        elif not 0 <= mark.points <= criterion.points_max:
            faults.append(
                f"{row}: {shown(mark.points)} points for {mark.criterion!r}, which has 0 to "
                f"{shown(criterion.points_max)}"
            )
        first = seen.setdefault((mark.student, mark.criterion), mark.row)
        if first != mark.row:
            faults.append(
                f"{row}: {mark.student!r} has points for {mark.criterion!r} in row {first} already"
            )
    return faults


def _faults_of_rubric(
    rubric: Mapping[str, Criterion], kept: Mapping[tuple[str, str], ManualRow]
) -> list[str]:
    """Return what stands in the way of a rubric: points given by an earlier one."""
    lost = sorted({criterion for _, criterion in kept if criterion not in rubric})
    return [
        f"the rubric has no criterion {criterion!r}, for which the gradebook holds points already; "
        "keep it"
        for criterion in lost
    ] + [
        f"{student} has {row.points:g} points for {criterion!r} already, more than the rubric gives"
        for (student, criterion), row in sorted(kept.items())
        if criterion in rubric and Decimal(str(row.points)) > rubric[criterion].points_max
    ]


def _write_rubric(session: Session, milestone: str, rubric: Sequence[Criterion]) -> None:
    names = {criterion.name for criterion in rubric}
    for old in session.scalars(select(CriterionRow).filter_by(milestone=milestone)):
        if old.criterion not in names:
            session.delete(old)
    for criterion in rubric:
        session.merge(
            CriterionRow(
                milestone=milestone,
                criterion=criterion.name,
                points_max=float(criterion.points_max),
                bonus=criterion.bonus,
                sentence=criterion.sentence,
            )
        )
    session.flush()
