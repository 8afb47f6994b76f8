"""A scratch database lies on disk, leaves nothing there, and says in a sentence what it lacks."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from grader import scratch
from grader.errors import BadInputError
from grader.scratch import open_scratch, scratch_faults

TABLES = "CREATE TABLE kept (content BLOB)"
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
    kept = open_scratch(TABLES)
    for _ in range(20):
        kept.execute("INSERT INTO kept VALUES (?)", (MB,))
    (on_disk,) = open_files() - before
    assert on_disk.endswith(" (deleted)"), "a run that is killed would leave it"
    assert kept.execute("SELECT sum(length(content)) FROM kept").fetchone() == (20 * len(MB),)
    kept.close()
    assert open_files() <= before


def test_a_full_disk_is_a_sentence_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "SCHEMA", "PRAGMA max_page_count = 3;")
    kept = open_scratch(TABLES)
    told = r"full.*make room.*TMPDIR.*start.*again"
    with pytest.raises(BadInputError, match=told), scratch_faults():
        kept.execute("INSERT INTO kept VALUES (?)", (MB,))
    kept.close()
