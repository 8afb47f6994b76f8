"""A scratch database lies on disk, leaves nothing there, and says in a sentence what it lacks."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from pathlib import Path

import pytest

from grader import scratch
from grader.errors import BadInputError
from grader.scratch import Scratch

TABLES = "CREATE TABLE kept (number INTEGER PRIMARY KEY, content BLOB)"
NEW = "INSERT INTO kept VALUES (?, ?)"
MB = bytes(1_000_000)


def open_files() -> set[str]:
    """Return the names of the files that this process holds open."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the listing's own is closed by now
            found.add(str(link.readlink()))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of open files on Linux")
def test_what_is_kept_lies_on_disk_without_a_name() -> None:
    before = open_files()
    kept = Scratch(TABLES)
    with kept.using() as database:
        for number in range(20):
            database.execute(NEW, (number, MB))
        (on_disk,) = open_files() - before
        assert on_disk.endswith(" (deleted)"), "a run that is killed would leave it"
        size = "SELECT sum(length(content)) FROM kept"
        assert database.execute(size).fetchone() == (20 * len(MB),)
    kept.close()
    assert open_files() <= before


def test_a_full_disk_is_a_sentence_and_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "SETTINGS", "PRAGMA journal_mode = OFF; PRAGMA max_page_count=3;")
    kept = Scratch(TABLES)
    told = r"\(database or disk is full\).*make room.*TMPDIR.*start.*again"
    for number in range(5):  # what was written half way may read as "malformed" later
        with pytest.raises(BadInputError, match=told), kept.using() as database:
            database.execute(NEW, (number, MB))
    with pytest.raises(BadInputError, match=told), kept.using() as database:
        database.execute("SELECT * FROM kept")
    kept.close()


def test_a_fault_of_ours_is_no_full_disk() -> None:
    kept = Scratch(TABLES)
    with kept.using() as database:
        database.execute(NEW, (1, b""))
    with pytest.raises(sqlite3.IntegrityError), kept.using() as database:
        database.execute(NEW, (1, b""))
    with pytest.raises(sqlite3.OperationalError, match="no such table"), kept.using() as database:
        database.execute("SELECT * FROM none_such")
    kept.close()
    with pytest.raises(sqlite3.ProgrammingError), kept.using() as database:
        database.execute("SELECT * FROM kept")
