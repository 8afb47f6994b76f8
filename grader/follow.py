"""What has become of a notebook's file since it was last looked at.

A look reads the file only when the file system says it is another. What cannot be read may be half
written, or about to be renamed into its place, so it is told only once it has stayed so for a
while; a save that leaves the code as it was is told as such.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from grader.errors import BadInputError
from grader.notebook import read_notebook

SETTLE_S = 1.0  # editors and synchronised folders write a notebook of a few MB in less


class Change(Enum):
    """What a look found."""

    CODE = "other code"
    SAME_CODE = "saved with the code it had"
    UNREADABLE = "gone, or no notebook"


@dataclass(frozen=True)
class _File:
    """What tells two states of a file apart without reading it."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class Follower:
    """Follows one notebook's file."""

    def __init__(self, path: Path) -> None:
        """Follow a file from the state it is in now, which is not told."""
        self._path = path
        self._file = _stat(path)
        self._code = _code_of(path)  # None where there is none that can be read
        self._bad_since_s: float | None = None  # since when what is not told yet cannot be read

    def look(self, now_s: float) -> Change | None:
        """Look at the file; `now_s` is a clock's time in seconds."""
        file = _stat(self._path)
        # What is half written is read again even if it looks the same: clocks can be coarse.
        if file == self._file and self._bad_since_s is None:
            return None
        self._file = file
        code = _code_of(self._path)
        if code is None:
            return self._bad(now_s)
        self._bad_since_s = None
        same, self._code = code == self._code, code
        return Change.SAME_CODE if same else Change.CODE

    def _bad(self, now_s: float) -> Change | None:
        if self._bad_since_s is None:
            self._bad_since_s = now_s
        if now_s - self._bad_since_s < SETTLE_S:
            return None
        self._bad_since_s = self._code = None
        return Change.UNREADABLE


def _code_of(path: Path) -> str | None:
    try:
        return read_notebook(path).code_sha256
    except BadInputError:
        return None


def _stat(path: Path) -> _File | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return _File(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
