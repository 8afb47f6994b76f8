"""Notebooks out of zip archives: read where they lie, never unpacked, each within its bound.

Nothing is written to disk, so no name can lead anywhere; a member is read only up to the size a
notebook may have, whatever its header says.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath

from grader.errors import BadInputError
from grader.notebook import MAX_BYTES

MAX_MEMBERS = 20_000  # a whole clone of the course with its history has a tenth of that
ENCRYPTED = 0x1  # a bit of a member's flags (APPNOTE.TXT 4.4.4)
OTHER_ARCHIVES = (".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst")


@dataclass(frozen=True)
class Member:
    """A file of an archive or a folder: where it lies, how to read it, and why it is not read."""

    path: PurePosixPath
    read: Callable[[], bytes] | None
    modified: datetime | None = None
    fault: str | None = None


def is_archive(name: str) -> bool:
    """Tell whether a file's name is that of an archive of any kind."""
    return name.lower().endswith((".zip", *OTHER_ARCHIVES))


def members(archive: Path) -> list[Member]:
    """Return the notebooks and the archives that lie in a zip archive.

    Raises:
        BadInputError: it is no zip archive that can be read; the message says why.
    """
    if not archive.name.lower().endswith(".zip"):
        raise BadInputError(
            f"{archive.name} is an archive of another kind; hand in .ipynb files or a .zip"
        )
    try:
        with zipfile.ZipFile(archive) as opened:
            listed = opened.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise BadInputError(
            f"{archive.name} is not a zip archive that can be read ({error})"
        ) from None
    if len(listed) > MAX_MEMBERS:
        raise BadInputError(
            f"{archive.name} holds {len(listed):,} files (limit {MAX_MEMBERS:,}); "
            "hand in the notebooks alone"
        )
    return [
        _member(archive, info)
        for info in listed
        if not info.is_dir()
        and (info.filename.lower().endswith(".ipynb") or is_archive(info.filename))
    ]


def _member(archive: Path, info: zipfile.ZipInfo) -> Member:
    path = PurePosixPath(info.filename.replace("\\", "/"))
    where = f"{path.name} in {archive.name}"
    try:
        modified = datetime(*info.date_time, tzinfo=UTC)  # a zip knows no time zone
    except ValueError:
        modified = None
    fault = None
    if is_archive(info.filename):
        fault = f"{where} is an archive inside an archive; hand in the notebooks alone"
    elif path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
        fault = f"{where} has a path that leads out of the archive; make the archive again"
    elif stat.S_ISLNK(info.external_attr >> 16):  # the upper half holds Unix's mode
        fault = f"{where} is a link, not a file; hand in the file itself"
    elif info.flag_bits & ENCRYPTED:
        fault = f"{where} is encrypted; hand it in without a password"
    elif info.file_size > MAX_BYTES:
        fault = _too_large(where, info.file_size)
    read = None if fault else partial(_read, archive, info.filename, where)
    return Member(path, read, modified, fault)


def _read(archive: Path, name: str, where: str) -> bytes:
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(name) as stream:
            content = stream.read(MAX_BYTES + 1)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, NotImplementedError,
            RuntimeError) as error:  # fmt: skip
        raise BadInputError(
            f"{where} cannot be unpacked ({error}); make the archive again"
        ) from None
    if len(content) > MAX_BYTES:
        raise BadInputError(_too_large(where, len(content)))
    return content


def _too_large(where: str, size: int) -> str:
    return (
        f"{where} unpacks to {size / 1e6:,.0f} MB or more, too large for a notebook (limit "
        f"{MAX_BYTES / 1e6:.0f} MB); clear its outputs and hand it in again"
    )
