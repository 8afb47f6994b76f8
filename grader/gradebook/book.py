"""A gradebook in SQLite or PostgreSQL: one transaction a hand-in, so a kill leaves whole ones.

Recording is the same in any order: of two gradings of one notebook by one version on one split,
the one whose points are known stays, and the times of handing in are the first and the last seen.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from packaging.version import Version
from sqlalchemy import (
    Connection,
    Engine,
    Table,
    collate,
    create_engine,
    event,
    insert,
    inspect,
    select,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError
from sqlalchemy.orm import Session

import milestones
from grader import __version__
from grader.errors import BadInputError
from grader.gradebook.points import Attempt, CheckPoints, Entry, Manual, Override, numbered, shown
from grader.gradebook.tables import (
    FROM_1,
    SCHEMA,
    TABLES,
    WHOLE,
    About,
    Base,
    CheckRow,
    CriterionRow,
    EventRow,
    GradingRow,
    HandInRow,
    ManualRow,
    OverrideRow,
    Storable,
    Student,
    storable,
)
from grader.report import CellError, CheckReport, MilestoneReport, Outcome, Stop, with_bonus

if TYPE_CHECKING:  # a slow import
    from grader.classroom import Graded

WRITES = {"grader_writes": True}
BATCH = 70  # hand-ins of ten students
MISSING = "missing"  # the reason of a hand-in that is none


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Book:
    """An open gradebook; `name` is what it is called in messages."""

    engine: Engine
    name: str

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Give a session whose changes are made all together, or not at all.

        Raises:
            BadInputError: the database did not take them.
        """
        try:
            with Session(self.engine) as session, session.begin():
                session.connection(execution_options=WRITES)
                yield session
        except DBAPIError as error:
            raise BadInputError(f"{self.name}: was not written: {_first_line(error)}") from None

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Give a session to read with.

        Raises:
            BadInputError: the database cannot be read.
        """
        try:
            with Session(self.engine) as session:
                yield session
        except DBAPIError as error:
            raise BadInputError(f"{self.name}: cannot be read: {_first_line(error)}") from None


# ---------------------------------------------------------------- opening


@contextmanager
def open_book(where: Path | str, *, create: bool = False) -> Iterator[Book]:
    """Open a gradebook: a file of SQLite, or the URL of a PostgreSQL database.

    Raises:
        BadInputError: there is none and `create` is not set, or it cannot be opened.
    """
    url, name = _url(where)
    if url.database and url.get_backend_name() == "sqlite":
        path = Path(url.database)
        if not create and not path.is_file():
            raise BadInputError(f"{name}: there is no such gradebook; `grader class` makes one")
        if not path.absolute().parent.is_dir():
            raise BadInputError(f"{name}: its folder does not exist; make it first")
    try:
        engine = create_engine(url)
    except (NoSuchModuleError, ModuleNotFoundError):
        raise BadInputError(
            f"{name}: needs a driver that is not installed; SQLite needs none, for PostgreSQL "
            "install in the course's folder with: pip install -e '.[class,postgres]'"
        ) from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _as_sqlite_should)
        event.listen(engine, "begin", _begin)
    try:
        _prepare(engine, name, create)
        yield Book(engine, name)
    finally:
        engine.dispose()


def _url(where: Path | str) -> tuple[URL, str]:
    if isinstance(where, Path) or "://" not in where:
        return URL.create("sqlite", database=str(where)), str(where)
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise BadInputError(
            "the gradebook's URL cannot be read; it looks like "
            "postgresql://USER:PASSWORD@HOST/DATABASE"
        ) from None
    name = url.render_as_string(hide_password=True)
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise BadInputError(f"{name}: a gradebook is kept in SQLite or PostgreSQL")
    return url, name


def _as_sqlite_should(connection: Any, _record: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.isolation_level = None  # `_begin` begins, before tables are made as well
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")  # a written hand-in outlives a power cut


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("grader_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _prepare(engine: Engine, name: str, create: bool) -> None:
    """Make the tables where there are none, and refuse what is no gradebook of this schema.

    One of the schema before is brought up to this one: a term's grades outlive an update.
    """
    try:
        if inspect(engine).has_table(About.__tablename__):
            with Session(engine) as session:
                found = session.get(About, "schema")
            schema = found.value if found else "none"
            if schema == "1":
                _keep_copy(engine, name, schema)
                with engine.execution_options(**WRITES).begin() as connection:
                    for statement in FROM_1:
                        connection.exec_driver_sql(statement)
            elif schema != SCHEMA:
                raise BadInputError(
                    f"{name}: has schema {schema}, this grader reads {SCHEMA}; use the version of "
                    "the course that wrote it, or a later one"
                )
        elif not create:
            raise BadInputError(f"{name}: is no gradebook")
        else:
            with engine.execution_options(**WRITES).begin() as connection:
                Base.metadata.create_all(connection)
                connection.execute(insert(About), {"name": "schema", "value": SCHEMA})
    except DBAPIError as error:
        raise BadInputError(
            f"{name}: cannot be opened as a gradebook: {_first_line(error)}"
        ) from None


def _keep_copy(engine: Engine, name: str, schema: str) -> None:
    """Keep an SQLite file as it is beside itself: an older grader reads no newer schema."""
    if engine.dialect.name != "sqlite" or not engine.url.database:
        return
    path = Path(engine.url.database)
    try:
        shutil.copyfile(path, path.with_name(f"{path.name}.schema-{schema}"))
    except OSError as error:
        raise BadInputError(
            f"{name}: is of schema {schema}, and no copy of it could be kept before it is brought "
            f"up to {SCHEMA}: {error.strerror}; nothing was changed"
        ) from None


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().partition("\n")[0]


# ---------------------------------------------------------------- recording


def record(
    book: Book,
    graded: Graded,
    *,
    split_id: str,
    walled: bool,
    handed_in_at: datetime | None = None,
    grader_version: str = __version__,
    now: Callable[[], datetime] = _now,
) -> bool:
    """Write one graded hand-in, in one transaction; say whether anything changed.

    Raises:
        BadInputError: the database did not take it.
    """
    with book.writing() as session:
        return _record(
            session,
            graded,
            split_id=split_id,
            walled=walled,
            handed_in_at=handed_in_at,
            grader_version=grader_version,
            now=now,
        )


def _record(
    session: Session,
    graded: Graded,
    *,
    split_id: str,
    walled: bool,
    handed_in_at: datetime | None,
    grader_version: str = __version__,
    now: Callable[[], datetime] = _now,
) -> bool:
    hand_in, report = graded.hand_in, graded.report
    key = {
        "student": storable(hand_in.student),
        "milestone": hand_in.slug,
        "notebook_sha256": report.notebook_sha256,
    }
    grading_key = {**key, "split_id": split_id, "grader_version": grader_version}
    new = GradingRow(
        **grading_key,
        walled=walled,
        reason=str(graded.reason),
        points=report.points,
        points_max=report.points_max,
        bonus=report.bonus,
        bonus_max=report.bonus_max,
        title=report.title,
        stopped=report.stop.why if report.stop else None,
        by_bound=report.stop.by_bound if report.stop else False,
        unreadable=report.unreadable,
        note=report.note,
        cells=json.dumps([[c.cell, c.error, c.stopped] for c in report.cells], ensure_ascii=True),
    )
    checks = [
        CheckRow(
            **grading_key,
            check_name=check.name,
            position=position,
            outcome=str(check.outcome),
            points=check.points,
            points_max=check.points_max,
            bonus=check.bonus,
            figure=check.figure,
            bar=check.bar,
            sentence=check.sentence,
            hint=check.hint,
            mistake=check.mistake,
        )
        for position, check in enumerate(report.checks)
    ]
    session.merge(Student(student=key["student"]))
    session.flush()
    changed = _merge_times(session, key, handed_in_at)
    session.flush()
    old = session.get(GradingRow, tuple(grading_key.values()))
    if old is None:
        session.add(new)
        session.flush()
        session.add_all(checks)
        return True
    old_checks = list(
        session.scalars(select(CheckRow).filter_by(**grading_key).order_by(CheckRow.position))
    )
    same = _values(old) == _values(new) and [*map(_values, old_checks)] == [*map(_values, checks)]
    if same or _rank(new) < _rank(old):
        return changed
    if _rank(new) == _rank(old):  # of one rank and yet another outcome: somebody will ask
        session.add(
            EventRow(
                student=old.student,
                milestone=old.milestone,
                part=old.notebook_sha256,
                at=now(),
                kind="graded again",
                author=f"grader {grader_version}",
                before=_told(old),
                after=_told(new),
                reason=f"on split {split_id}",
            )
        )
    for row in old_checks:
        session.delete(row)
    session.flush()
    session.merge(new)
    session.flush()
    session.add_all(checks)
    return True


def record_class(
    where: Path | str, graded: Iterable[Graded], *, split_id: str, walled: bool
) -> None:
    """Write a graded class into a gradebook, made where there is none.

    A transaction takes `BATCH` hand-ins: each waits for the disk, and what one that was killed has
    lost the next run writes again. Whatever was killed on the way, and in whatever order: the same
    class ends in the same bytes.

    Raises:
        BadInputError: the gradebook cannot be opened or written.
    """
    with open_book(where, create=True) as book:
        rest = iter(graded)
        while batch := list(islice(rest, BATCH)):
            with book.writing() as session:
                for one in batch:
                    when = one.hand_in.handed_in_at
                    _record(session, one, split_id=split_id, walled=walled, handed_in_at=when)
        path = book.engine.url.database if book.engine.dialect.name == "sqlite" else None
    if path:
        settle(Path(path))


def _merge_times(session: Session, key: dict[str, str], handed_in_at: datetime | None) -> bool:
    """Keep the first and the last time these bytes were handed in, to the second."""
    at = handed_in_at.astimezone(UTC).replace(microsecond=0) if handed_in_at else None
    row = session.get(HandInRow, tuple(key.values()))
    if row is None:
        session.add(HandInRow(**key, handed_in_at=at, last_handed_in_at=at))
        return True
    times = [t for t in (row.handed_in_at, row.last_handed_in_at, at) if t is not None]
    if not times:
        return False
    changed = (row.handed_in_at, row.last_handed_in_at) != (min(times), max(times))
    row.handed_in_at, row.last_handed_in_at = min(times), max(times)
    return changed


def _rank(row: GradingRow) -> tuple[bool, bool, bool]:
    """What is known goes before what is not; then a walled room; then a file before none."""
    known = row.points is not None and row.bonus is not None
    return known, row.walled, row.reason != MISSING


def _told(row: GradingRow) -> str:
    points = None if row.points is None else Decimal(str(row.points))
    told = f"{shown(points)} of {shown(Decimal(str(row.points_max)))}"
    return f"{row.reason}, {with_bonus(told, row.points_max, row.bonus, row.bonus_max)}"


def _values(row: Base) -> dict[str, Any]:
    values = {key: getattr(row, key) for key, _ in inspect(type(row)).column_attrs.items()}
    return {k: storable(v) if isinstance(v, str) else v for k, v in values.items()}


def _report(row: GradingRow, checks: Sequence[CheckRow]) -> MilestoneReport:
    return MilestoneReport(
        row.milestone,
        row.title,
        row.notebook_sha256,
        tuple(
            CheckReport(
                check.check_name,
                check.sentence,
                Outcome(check.outcome),
                check.points,
                check.points_max,
                check.figure,
                check.bar,
                check.hint,
                check.mistake,
                check.bonus,
            )
            for check in checks
        ),
        tuple(CellError(cell, error, stopped) for cell, error, stopped in json.loads(row.cells)),
        row.unreadable,
        None if row.stopped is None else Stop(row.stopped, row.by_bound),
        row.note,
    )


# ---------------------------------------------------------------- overrides and history


def override(
    book: Book,
    student: str,
    milestone: str,
    points: Decimal | None,
    *,
    author: str,
    reason: str,
    part: str = WHOLE,
    now: Callable[[], datetime] = _now,
) -> str:
    """Set a milestone's points, or a check's; None takes that back. Return what was done.

    Nothing is overwritten: the latest rules, and every earlier one stays to be read.

    Raises:
        BadInputError: a name is unknown, or author or reason is empty.
    """
    for value, what in ((author, "an author"), (reason, "a reason")):
        if not value.strip():
            raise BadInputError(f"an override needs {what}; nothing was changed")
    if points is not None and not (points.is_finite() and 0 <= points <= 1_000_000):
        raise BadInputError("an override's points are a number, 0 or more; nothing was changed")
    with book.writing() as session:
        _known_student(session, student)
        if part:
            checks = set(
                session.scalars(
                    select(CheckRow.check_name).filter_by(student=student, milestone=milestone)
                )
            )
            if part not in checks:
                raise BadInputError(
                    f"{student} has no check {part!r} in {milestone}; "
                    f"there are {', '.join(sorted(checks)) or 'none'}; nothing was changed"
                )
        earlier = session.scalars(
            select(OverrideRow)
            .filter_by(student=student, milestone=milestone, part=part)
            .order_by(OverrideRow.at.desc())
        ).first()
        before = "as graded" if earlier is None or earlier.points is None else f"{earlier.points:g}"
        after = "as graded" if points is None else f"{points:f}"
        at = now()
        row = OverrideRow(
            student=student, milestone=milestone, part=part, at=at,
            points=None if points is None else float(points), author=author, reason=reason,
        )  # fmt: skip
        session.add(row)
        session.add(
            EventRow(
                student=student,
                milestone=milestone,
                part=part,
                at=at,
                kind="override",
                author=author,
                before=before,
                after=after,
                reason=reason,
            )
        )
        try:
            session.flush()
        except IntegrityError:
            raise BadInputError(
                f"{student} {milestone}: was overridden at this very moment; try again"
            ) from None
        maximum = _maximum(session, student, milestone, part)
    above = points is not None and maximum is not None and float(points) > maximum
    remark = f" (more than the maximum of {maximum:g})" if above else ""
    return f"{student} {milestone}{' ' + part if part else ''}: {before} -> {after}{remark}"


def _maximum(session: Session, student: str, milestone: str, part: str) -> float | None:
    """Return what there is to earn: of a check, or of a milestone; None where none was graded."""
    of = {"student": student, "milestone": milestone}
    if part:
        named = select(CheckRow.points_max).filter_by(**of, check_name=part)
        return session.scalars(named).first()
    row = session.scalars(select(GradingRow).filter_by(**of)).first()
    return None if row is None else row.points_max or row.bonus_max


def _known_student(session: Session, student: str) -> None:
    if session.get(Student, student) is None:
        near = get_close_matches(student, session.scalars(select(Student.student)).all(), n=1)
        hint = f" (there is {near[0]!r})" if near else ""
        raise BadInputError(
            f"there is no student {student!r} in the gradebook{hint}; nothing was changed"
        )


@dataclass(frozen=True)
class Change:
    """One line of the history."""

    at: datetime
    student: str
    milestone: str
    part: str
    kind: str
    author: str
    before: str
    after: str
    reason: str


def history(book: Book, student: str | None = None, milestone: str | None = None) -> list[Change]:
    """Return what was changed, the oldest first.

    Raises:
        BadInputError: the database cannot be read.
    """
    query = select(EventRow)
    if student is not None:
        query = query.filter_by(student=student)
    if milestone is not None:
        query = query.filter_by(milestone=milestone)
    with book.reading() as session:
        rows = session.scalars(query).all()
    changes = [
        Change(r.at, r.student, r.milestone, r.part, r.kind, r.author, r.before, r.after, r.reason)
        for r in rows
    ]
    return sorted(changes, key=lambda c: (c.at, c.student, c.milestone, c.part, c.kind))


# ---------------------------------------------------------------- reading a class


@dataclass(frozen=True)
class ClassRecord:
    """What the book holds of a class on one split: an entry a student and milestone, sorted."""

    split_id: str
    students: tuple[str, ...]
    slugs: tuple[str, ...]
    entries: dict[tuple[str, str], Entry]
    reports: dict[tuple[str, str, str], MilestoneReport]  # by student, milestone and notebook


def read_class(book: Book, split_id: str | None = None) -> ClassRecord:
    """Read everything that final points are made of.

    A notebook that several versions of the grader graded counts as the newest of them says.

    Raises:
        BadInputError: the book holds several splits and none is named, or not the one named.
    """
    with book.reading() as session:
        splits = sorted(set(session.scalars(select(GradingRow.split_id).distinct())))
        split_id = _the_split(book, splits, split_id)
        students = tuple(sorted(session.scalars(select(Student.student))))
        newest: dict[tuple[str, str, str], GradingRow] = {}
        for row in session.scalars(select(GradingRow).filter_by(split_id=split_id)):
            key = (row.student, row.milestone, row.notebook_sha256)
            if key not in newest or _version(newest[key]) < _version(row):
                newest[key] = row
        check_rows: dict[tuple[str, ...], list[CheckRow]] = defaultdict(list)
        for check in session.scalars(
            select(CheckRow).filter_by(split_id=split_id).order_by(CheckRow.position)
        ):
            check_rows[
                check.student, check.milestone, check.notebook_sha256, check.grader_version
            ].append(check)
        hand_ins = {
            (row.student, row.milestone, row.notebook_sha256): row
            for row in session.scalars(select(HandInRow))
        }
        overrides: dict[tuple[str, str], list[Override]] = defaultdict(list)
        for o in session.scalars(select(OverrideRow).order_by(OverrideRow.at)):
            points = None if o.points is None else Decimal(str(o.points))
            overrides[o.student, o.milestone].append(
                Override(o.part, points, o.author, o.reason, o.at)
            )
        criteria: dict[str, list[CriterionRow]] = defaultdict(list)
        for criterion in session.scalars(select(CriterionRow)):
            criteria[criterion.milestone].append(criterion)
        marked = {
            (m.student, m.milestone, m.criterion): Decimal(str(m.points))
            for m in session.scalars(select(ManualRow))
        }
        reports = {
            key: _report(row, check_rows[(*key, row.grader_version)]) for key, row in newest.items()
        }
        attempts: dict[tuple[str, str], list[Attempt]] = defaultdict(list)
        missing: set[tuple[str, str]] = set()
        maxima: dict[str, Decimal] = {}
        bonuses: dict[str, Decimal] = {}
        for key, row in newest.items():
            maxima[row.milestone] = max(
                Decimal(str(row.points_max)), maxima.get(row.milestone, Decimal(0))
            )
            bonuses[row.milestone] = max(
                Decimal(str(row.bonus_max)), bonuses.get(row.milestone, Decimal(0))
            )
            if row.reason == MISSING:
                missing.add(key[:2])
                continue
            attempts[key[:2]].append(_attempt(hand_ins[key], row, check_rows))
        slugs = tuple(
            [slug for slug in milestones.SLUGS if slug in maxima]
            + sorted(maxima.keys() - set(milestones.SLUGS))
        )
        entries = {
            (student, slug): Entry(
                student,
                slug,
                maxima[slug],
                numbered(attempts[student, slug]),
                (student, slug) in missing,
                tuple(overrides[student, slug]),
                tuple(
                    Manual(
                        c.criterion,
                        marked.get((student, slug, c.criterion)),
                        Decimal(str(c.points_max)),
                        c.bonus,
                    )
                    for c in sorted(criteria[slug], key=lambda c: c.criterion)
                ),
                bonuses[slug],
            )
            for student in students
            for slug in slugs
        }
    return ClassRecord(split_id, students, slugs, entries, reports)


def _the_split(book: Book, splits: Sequence[str], wanted: str | None) -> str:
    if not splits:
        raise BadInputError(f"{book.name}: holds no graded hand-in yet")
    if wanted is None and len(splits) > 1:
        raise BadInputError(
            f"{book.name}: holds gradings on several splits ({', '.join(splits)}); "
            "name the one that counts with --split"
        )
    if wanted is not None and wanted not in splits:
        raise BadInputError(
            f"{book.name}: holds no grading on split {wanted!r}; it holds {', '.join(splits)}"
        )
    return wanted or splits[0]


def _version(row: GradingRow) -> Version:
    return Version(row.grader_version)


def _attempt(
    hand_in: HandInRow, row: GradingRow, check_rows: dict[tuple[str, ...], list[CheckRow]]
) -> Attempt:
    key = (row.student, row.milestone, row.notebook_sha256, row.grader_version)
    checks = tuple(
        CheckPoints(
            check.check_name,
            None if check.points is None else Decimal(str(check.points)),
            Decimal(str(check.points_max)),
            check.bonus,
        )
        for check in check_rows[key]
    )
    return Attempt(
        0, row.notebook_sha256, hand_in.handed_in_at, hand_in.last_handed_in_at, row.reason, checks
    )


# ---------------------------------------------------------------- one content, the same bytes


def copy_sorted(book: Book, target: Path) -> None:
    """Write the book anew as an SQLite file: the same content gives the same bytes.

    Every table is filled in the order of its keys, in one transaction, so neither the order of
    recording nor an earlier kill leaves a trace, not even in the header's counters.

    Raises:
        BadInputError: the file is there already, or cannot be written.
    """
    if target.exists():
        raise BadInputError(f"{target}: is there already")
    with (
        open_book(target, create=True) as copy,
        book.reading() as session,
        copy.writing() as written,
    ):
        postgres = book.engine.dialect.name == "postgresql"
        for model in TABLES[1:]:
            table = cast(Table, model.__table__)
            keys = [
                collate(column, "C") if postgres and isinstance(column.type, Storable) else column
                for column in table.primary_key
            ]
            rows = session.execute(select(table).order_by(*keys)).mappings()
            for part in rows.partitions(1_000):
                written.execute(insert(table), [dict(row) for row in part])


def settle(path: Path) -> None:
    """Put a sorted copy in the place of an SQLite gradebook, all at once.

    Raises:
        BadInputError: there is no gradebook, or no room for a second one beside it.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    try:
        with open_book(path) as book:
            copy_sorted(book, unfinished)
        unfinished.replace(path)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        for left in (unfinished, unfinished.with_name(f"{unfinished.name}-journal")):
            left.unlink(missing_ok=True)
