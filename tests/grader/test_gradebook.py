"""The gradebook: one content, the same bytes; whole hand-ins whatever is killed; full history."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.orm import Session

from grader.classroom import Reason
from grader.errors import BadInputError
from grader.gradebook.book import (
    Book,
    copy_sorted,
    history,
    open_book,
    override,
    read_class,
    record,
    record_class,
    settle,
)
from grader.gradebook.points import final_points
from grader.gradebook.rules import MilestoneRules
from grader.gradebook.tables import CheckRow, GradingRow, HandInRow
from tests.grader.gradebook import M2, MONDAY, SPLIT, a_class, graded, missing, settled, write


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with open_book(tmp_path / "book.sqlite", create=True) as opened:
        yield opened


def points(book: Book, student: str, rules: MilestoneRules = MilestoneRules()) -> Decimal | None:  # noqa: B008
    return final_points(read_class(book).entries[student, M2], rules).points


# ---------------------------------------------------------------- the same bytes


def test_books_filled_in_another_order_end_in_the_same_bytes(tmp_path: Path) -> None:
    items = a_class()
    forward = settled(tmp_path / "forward.sqlite", items)
    backward = settled(tmp_path / "backward.sqlite", reversed(items))
    twice = settled(tmp_path / "twice.sqlite", [*items[::2], *items[1::2], *items])
    assert forward == backward == twice
    assert settled(tmp_path / "other.sqlite", items[:-1]) != forward


def test_a_class_that_is_recorded_again_after_a_kill_ends_in_the_same_bytes(tmp_path: Path) -> None:
    class_ = [one for one, _ in a_class()]
    with open_book(tmp_path / "killed.sqlite", create=True) as book:
        for one in class_[5:9]:  # as far as it came
            record(book, one, split_id=SPLIT, walled=True)
    for name in ("killed.sqlite", "undisturbed.sqlite"):
        record_class(tmp_path / name, class_, split_id=SPLIT, walled=True)
    killed, undisturbed = (
        (tmp_path / name).read_bytes() for name in ("killed.sqlite", "undisturbed.sqlite")
    )
    assert killed == undisturbed


def test_a_book_that_is_settled_again_keeps_its_bytes(tmp_path: Path) -> None:
    first = settled(tmp_path / "book.sqlite", a_class())
    with open_book(tmp_path / "book.sqlite") as book:
        write(book, a_class())
    settle(tmp_path / "book.sqlite")
    assert (tmp_path / "book.sqlite").read_bytes() == first
    assert [path.name for path in tmp_path.iterdir()] == ["book.sqlite"]


KILLED = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import event
from sqlalchemy.engine import Engine
from grader.gradebook.book import open_book
from tests.grader.gradebook import a_class, write

left = int(sys.argv[2])

def count(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

event.listen(Engine, "after_cursor_execute", count)
with open_book(Path(sys.argv[1]), create=True) as book:
    write(book, a_class())
"""


@pytest.mark.parametrize("statement", [5, 14, 24, 26, 61])
def test_a_writer_killed_at_any_statement_leaves_whole_hand_ins_and_the_same_end(
    statement: int, tmp_path: Path, course: Path
) -> None:
    path = tmp_path / "book.sqlite"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(statement)], cwd=course, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    with open_book(path, create=True) as book, Session(book.engine) as session:
        gradings = session.scalars(select(GradingRow)).all()
        assert len(gradings) == len(session.scalars(select(HandInRow)).all()) < 17
        for row in gradings:
            key = (row.student, row.notebook_sha256)
            checks = select(CheckRow).filter_by(student=key[0], notebook_sha256=key[1])
            assert len(session.scalars(checks).all()) == 3, f"{key} is half a hand-in"
    assert settled(path, a_class()) == settled(tmp_path / "undisturbed.sqlite", a_class())


def test_a_copy_that_fails_leaves_the_book_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = settled(tmp_path / "book.sqlite", a_class())

    def full(_self: Path, _target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(BadInputError, match="No space left"):
        settle(tmp_path / "book.sqlite")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"book.sqlite": before}


# ---------------------------------------------------------------- what is stored


def test_everything_of_a_report_comes_back(book: Book) -> None:
    one = graded("ann", (4.0, 1 / 3, 0.0), hint="Look\0at\ud800 this: <b>ü</b>")
    record(book, one, split_id=SPLIT, walled=True, handed_in_at=MONDAY)
    (found,) = read_class(book).reports.values()
    shown = tuple(replace(check, hint=found.checks[0].hint) for check in one.report.checks)
    assert found == replace(one.report, checks=shown)
    assert found.checks[0].hint == "Look�at? this: <b>ü</b>"


def test_a_broken_hand_in_has_no_points_rather_than_none_earned(book: Book) -> None:
    record(book, graded("ann", (5.0, None, 5.0)), split_id=SPLIT, walled=True)
    with Session(book.engine) as session:
        assert session.scalars(select(GradingRow.points)).all() == [None]
        broken = select(CheckRow.points).filter_by(outcome="BROKEN")
        assert session.scalars(broken).all() == [None]
    assert points(book, "ann") is None


def test_what_broke_once_and_is_known_later_stays_known(book: Book) -> None:
    known, broken = graded("ann", (5.0, 1.0, 5.0)), graded("ann", (5.0, None, 5.0))
    record(book, broken, split_id=SPLIT, walled=True)
    assert record(book, known, split_id=SPLIT, walled=True) is True
    assert record(book, broken, split_id=SPLIT, walled=True) is False
    assert points(book, "ann") == 11
    assert history(book) == [], "the machine's luck is no change to a grade"


def test_the_same_notebook_graded_otherwise_is_told_in_the_history(book: Book) -> None:
    record(book, graded("ann", (5.0, 1.0, 5.0)), split_id=SPLIT, walled=True)
    record(book, graded("ann", (5.0, 2.0, 5.0)), split_id=SPLIT, walled=True)
    (change,) = history(book)
    assert (change.kind, change.before, change.after) == (
        "graded again", "graded, 11 of 15", "graded, 12 of 15",
    )  # fmt: skip
    assert points(book, "ann") == 12


def test_the_same_notebook_is_the_same_attempt_as_of_its_first_time(book: Book) -> None:
    for when in (MONDAY + timedelta(days=2), MONDAY, MONDAY + timedelta(days=5)):
        record(book, graded("ann"), split_id=SPLIT, walled=True, handed_in_at=when)
    record(
        book, graded("ann", notebook="second"), split_id=SPLIT, walled=True,
        handed_in_at=MONDAY + timedelta(days=3),
    )  # fmt: skip
    first, second = read_class(book).entries["ann", M2].attempts
    assert (first.number, first.handed_in_at) == (1, MONDAY)
    assert first.last_handed_in_at == MONDAY + timedelta(days=5)
    assert (second.number, second.handed_in_at) == (2, MONDAY + timedelta(days=3))


def test_attempts_are_numbered_by_their_times_whatever_was_recorded_first(book: Book) -> None:
    for day in (2, 0, 1):
        record(
            book, graded("ann", notebook=f"{day}"), split_id=SPLIT, walled=True,
            handed_in_at=MONDAY + timedelta(days=day),
        )  # fmt: skip
    in_points = read_class(book).entries["ann", M2].attempts
    with book.engine.connect() as connection:
        in_view = connection.execute(
            text("SELECT attempt, notebook_sha256 FROM attempts ORDER BY attempt")
        ).all()
    assert [tuple(row) for row in in_view] == [(a.number, a.notebook_sha256) for a in in_points]
    assert [a.handed_in_at for a in in_points] == [MONDAY + timedelta(days=d) for d in range(3)]


def test_times_are_kept_in_utc_to_the_second(book: Book) -> None:
    local = datetime(2026, 10, 5, 23, 59, 59, 999_999, timezone(timedelta(hours=2)))
    record(book, graded("ann"), split_id=SPLIT, walled=True, handed_in_at=local)
    (attempt,) = read_class(book).entries["ann", M2].attempts
    assert attempt.handed_in_at == datetime(2026, 10, 5, 21, 59, 59, tzinfo=UTC)


def test_nothing_handed_in_is_no_attempt(book: Book) -> None:
    record(book, missing("zoe"), split_id=SPLIT, walled=True)
    entry = read_class(book).entries["zoe", M2]
    assert entry.attempts == ()
    assert entry.missing
    record(book, graded("zoe", (1.0,)), split_id=SPLIT, walled=True, handed_in_at=MONDAY)
    assert len(read_class(book).entries["zoe", M2].attempts) == 1
    assert points(book, "zoe") == 1


def test_a_file_that_cannot_be_read_is_an_attempt_though_it_has_no_hash(book: Book) -> None:
    one = missing("zoe")
    record(book, replace(one, reason=Reason.UNREADABLE), split_id=SPLIT, walled=True)
    record(book, one, split_id=SPLIT, walled=True)
    (attempt,) = read_class(book).entries["zoe", M2].attempts
    assert (attempt.reason, attempt.points) == ("unreadable", Decimal(0))


def test_the_newest_version_of_the_grader_says_what_a_notebook_earned(book: Book) -> None:
    for version, earned in (("0.10.0", 5.0), ("0.9.0", 1.0), ("0.2.0", 2.0)):
        record(book, graded("ann", (earned,)), split_id=SPLIT, walled=True, grader_version=version)
    assert points(book, "ann") == 5


def test_a_book_of_two_splits_asks_which_one_counts(book: Book) -> None:
    write(book, [(graded("ann", (1.0,)), MONDAY)])
    write(book, [(graded("ann", (3.0,)), MONDAY)], split_id="hidden-2")
    with pytest.raises(BadInputError, match=r"hidden-1, hidden-2\); name the one"):
        read_class(book)
    record_2 = read_class(book, "hidden-2")
    assert final_points(record_2.entries["ann", M2], MilestoneRules()).points == 3
    with pytest.raises(BadInputError, match="no grading on split 'hidden-3'"):
        read_class(book, "hidden-3")


def test_an_empty_book_says_so(book: Book) -> None:
    with pytest.raises(BadInputError, match="no graded hand-in yet"):
        read_class(book)


# ---------------------------------------------------------------- overrides


def test_the_latest_override_rules_and_every_one_is_kept(book: Book) -> None:
    write(book, [(graded("ann", (4.0, 3.0, 2.0)), MONDAY)])
    for minute, value in enumerate((12, 0, None, 7)):
        override(
            book, "ann", M2, None if value is None else Decimal(value), author="T. Eacher",
            reason=f"talk {minute}", now=lambda m=minute: MONDAY + timedelta(minutes=m),  # type: ignore[misc]
        )  # fmt: skip
        assert points(book, "ann") == (9 if value is None else value)
    changes = [(c.before, c.after, c.author, c.reason) for c in history(book, "ann")]
    assert changes == [
        ("as graded", "12", "T. Eacher", "talk 0"),
        ("12", "0", "T. Eacher", "talk 1"),
        ("0", "as graded", "T. Eacher", "talk 2"),
        ("as graded", "7", "T. Eacher", "talk 3"),
    ]


def test_an_override_of_a_check_makes_what_broke_known(book: Book) -> None:
    write(book, [(graded("ann", (4.0, None, 2.0)), MONDAY)])
    assert points(book, "ann") is None
    override(book, "ann", M2, Decimal("2.5"), author="T", reason="looked at", part="check_1")
    assert points(book, "ann") == Decimal("8.5")


@pytest.mark.parametrize(
    ("student", "author", "reason", "part", "said"),
    [
        ("bob", "T", "r", "", "no student 'bob' in the gradebook; nothing"),
        ("Ann", "T", "r", "", r"no student 'Ann' in the gradebook \(there is 'ann'\)"),
        ("ann", " ", "r", "", "needs an author"),
        ("ann", "T", "\t", "", "needs a reason"),
        ("ann", "T", "r", "check_9", "no check 'check_9' in m2_kv_bytes; there are check_0"),
    ],
)
def test_an_override_without_author_reason_or_a_known_name_is_refused(
    student: str, author: str, reason: str, part: str, said: str, book: Book
) -> None:
    write(book, [(graded("ann"), MONDAY)])
    with pytest.raises(BadInputError, match=said):
        override(book, student, M2, Decimal(3), author=author, reason=reason, part=part)
    assert history(book) == []


def test_an_override_above_the_maximum_is_made_and_said(book: Book) -> None:
    write(book, [(graded("ann"), MONDAY)])
    for part, said in (
        ("", "150 (more than the maximum of 15)"),
        ("check_1", "(more than the maximum of 5)"),
    ):
        done = override(book, "ann", M2, Decimal(150), author="T", reason="r", part=part)
        assert done.endswith(said)


@pytest.mark.parametrize("value", ["-1", "NaN", "Infinity"])
def test_an_override_is_a_number_of_points(value: str, book: Book) -> None:
    write(book, [(graded("ann"), MONDAY)])
    with pytest.raises(BadInputError, match="0 or more"):
        override(book, "ann", M2, Decimal(value), author="T", reason="r")


# ---------------------------------------------------------------- files that are none


def test_a_file_that_is_no_gradebook_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    path.write_text("my notes, " * 100)
    with pytest.raises(BadInputError, match="cannot be opened as a gradebook"), open_book(path):
        pass
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(BadInputError, match="is no gradebook"), open_book(other):
        pass
    with pytest.raises(BadInputError, match="no such gradebook"), open_book(tmp_path / "none"):
        pass
    assert path.read_text().startswith("my notes")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.sqlite", "other.sqlite"]


def test_a_book_of_another_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "book.sqlite"
    settled(path, a_class())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE about SET value = '99'")
    connection.close()
    with pytest.raises(BadInputError, match="has schema 99, this grader reads 2"), open_book(path):
        pass


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://u:secret@host/db", "SQLite or PostgreSQL"),
        ("postgresql://u:secret@127.0.0.1:1/db", "cannot be opened"),
        ("://", "looks like"),
    ],
)
def test_a_database_that_cannot_be_had_is_one_sentence_without_its_password(
    url: str, said: str
) -> None:
    with pytest.raises(BadInputError, match=said) as refused, open_book(url, create=True):
        pass
    assert "secret" not in str(refused.value)


# ---------------------------------------------------------------- PostgreSQL


def _binaries() -> Path | None:
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").is_file()), None)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    """A PostgreSQL of its own that listens on a socket in the folder given."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("needs the binaries of PostgreSQL (initdb, pg_ctl)")
    user: str | None = None
    if os.geteuid() == 0:  # PostgreSQL does not run as root
        names = {entry.pw_name for entry in pwd.getpwall()}
        user = next((name for name in ("postgres", "nobody") if name in names), None)
        if user is None:
            pytest.skip("PostgreSQL does not run as root, and there is no other user")
    folder = Path(tempfile.mkdtemp(prefix="kv-pg-"))  # a socket's path must be short
    if user is not None:
        shutil.chown(folder, user)

    def run(program: str, *args: str) -> None:
        subprocess.run(
            [binaries / program, *args], user=user, cwd=folder, check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    data = folder / "data"
    try:
        # a collation that sorts otherwise than bytes do, where the machine has one
        common = ("-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync", "-D", str(data))
        try:
            run("initdb", *common, "--locale-provider=icu", "--icu-locale=en")
        except subprocess.CalledProcessError:  # built without it, or too old
            shutil.rmtree(data, ignore_errors=True)
            run("initdb", *common)
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        run("pg_ctl", "-D", str(data), "-l", str(folder / "log"), "-w", "-o", options, "start")
        try:
            yield folder
        finally:
            run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def postgres(cluster: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    server = create_engine(
        f"postgresql+psycopg://tester@/postgres?host={cluster}", isolation_level="AUTOCOMMIT"
    )
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield f"postgresql://tester@/{name}?host={cluster}"
    with server.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name}"))
    server.dispose()


def test_postgresql_and_sqlite_hold_the_same(postgres: str, tmp_path: Path) -> None:
    with open_book(postgres, create=True) as book:
        write(book, reversed(a_class()))
        write(book, a_class())
        copy_sorted(book, tmp_path / "copy.sqlite")
        ours = read_class(book)
    with open_book(postgres, create=True) as again:
        assert read_class(again) == ours
    assert (tmp_path / "copy.sqlite").read_bytes() == settled(tmp_path / "sqlite", a_class())


def test_postgresql_takes_overrides_and_text_it_cannot_store(postgres: str) -> None:
    with open_book(postgres, create=True) as book:
        write(book, [(graded("ann", (4.0, None, 2.0), hint="nul \0 here"), MONDAY)])
        override(book, "ann", M2, Decimal("2.5"), author="T", reason="seen", part="check_1")
        assert points(book, "ann") == Decimal("8.5")
        (change,) = history(book)
        assert change.at.tzinfo is not None


def test_a_postgresql_that_is_no_gradebook_is_refused(postgres: str) -> None:
    with pytest.raises(BadInputError, match="is no gradebook"), open_book(postgres):
        pass
