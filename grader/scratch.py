"""A database for what one command need not keep in memory: on disk, without a name, gone with it.

SQLite makes such a file for an empty name, in SQLITE_TMPDIR, TMPDIR or /var/tmp, and removes it as
it opens it (https://sqlite.org/inmemorydb.html, "Temporary Databases"): nothing is left, however
the process ends.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from grader.errors import BadInputError

SCHEMA = "PRAGMA journal_mode = OFF;"  # nothing is taken back, and nobody opens it after a crash


def open_scratch(tables: str) -> sqlite3.Connection:
    """Return a database with these tables; threads may share it, one at a time.

    Raises:
        BadInputError: it cannot be made.
    """
    with scratch_faults():
        database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        database.executescript(SCHEMA + tables)
    return database


@contextmanager
def scratch_faults() -> Iterator[None]:
    """Tell in a sentence what such a database did not take.

    Raises:
        BadInputError: a statement failed.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise BadInputError(
            f"temporary files cannot be written ({error}); nothing that was graded is lost: make "
            "room, or name a folder that has some as TMPDIR, and start the same command again"
        ) from None
