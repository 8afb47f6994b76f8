"""A database for what one command need not keep in memory: without a name, and gone with it.

SQLite makes a file for an empty name, in SQLITE_TMPDIR or TMPDIR where one names a folder that can
be written to, else in /var/tmp, and removes its name as it opens it
(https://sqlite.org/tempfiles.html, "Temporary File Storage Locations"): nothing is left, however
the process ends. Up to 2 MB of it stay in memory.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from grader.errors import BadInputError

SETTINGS = "PRAGMA journal_mode = OFF;"  # nothing is taken back, and nobody opens it after a crash
OF_THE_DISK = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_READONLY,
)


class Scratch:
    """Some tables in such a database, which threads may share."""

    def __init__(self, tables: str) -> None:
        """Make the tables.

        Raises:
            BadInputError: the disk does not take them.
        """
        self._lock = threading.Lock()
        self._fault = ""
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        with self.using() as database:
            database.executescript(SETTINGS + tables)

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection]:
        """Give the database to one thread at a time.

        Raises:
            BadInputError: the disk did not take what was written, now or at any time before: what
                came half way is nothing to read.
        """
        with self._lock:
            if self._fault:
                raise BadInputError(self._fault)
            try:
                yield self._database
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in OF_THE_DISK:
                    raise  # a fault of ours
                self._fault = (
                    f"temporary files cannot be written ({error}); nothing that was graded is "
                    "lost: make room where SQLite puts them (the folder that SQLITE_TMPDIR or "
                    "TMPDIR names where it can be written to, else /var/tmp) and start the same "
                    "command again"
                )
                raise BadInputError(self._fault) from None

    def close(self) -> None:
        """Give the disk back; nothing can be read any more."""
        self._database.close()
