"""Notebooks out of zip archives: read where they lie, never unpacked, each within its bound.

Nothing is written to disk, so no name can lead anywhere; a member is read only up to the size a
notebook may have, whatever its header says.
"""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path, PurePosixPath

from grader.errors import BadInputError
from grader.notebook import MAX_BYTES

MAX_MEMBERS = 20_000  # a whole clone of the course with its history has a tenth of that
_TAIL = 66_000  # the end of an archive's list, and the longest comment behind it
_LIST_ENTRY = 400  # bytes of a file in the list, with a long path
ENCRYPTED = 0x1  # a bit of a member's flags (APPNOTE.TXT 4.4.4)
OTHER_ARCHIVES = (".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst")
_EXTRA = struct.Struct("<HH")  # an extra field's kind and size (APPNOTE.TXT 4.5.1)
_EXTENDED_TIMESTAMP, _SECONDS = 0x5455, struct.Struct("<Bi")


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive or a folder: where it lies, how to read it, and why it is not read."""

    path: PurePosixPath
    read: Callable[[], bytes] | None
    modified: datetime | None = None
    fault: str | None = None
    arrived: datetime | None = None  # when the archive of a student's own was handed in

    @property
    def handed_in_at(self) -> datetime | None:
        """When it was handed in: what a student's own archive says of its files is no evidence."""
        return self.arrived or self.modified


def is_archive(name: str) -> bool:
    """Tell whether a file's name is that of an archive of any kind."""
    return name.lower().endswith((".zip", *OTHER_ARCHIVES))


def stem_of_archive(name: str) -> str:
    """Return an archive's name without its endings: ann.lee of ann.lee.tar.gz."""
    while is_archive(name):
        name = name[: name.rindex(".")]
    return name


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
        _refuse_a_long_list(archive)
        with zipfile.ZipFile(archive) as opened:
            found = [_member(archive, info) for info in opened.infolist() if _is_wanted(info)]
    except BadInputError:
        raise
    except Exception as error:  # hostile bytes raise whatever the reader runs into
        raise BadInputError(
            f"{archive.name} is not a zip archive that can be read ({error})"
        ) from None
    return found


def _refuse_a_long_list(archive: Path) -> None:
    """Look at how long an archive's list of files is before it is read.

    Raises:
        BadInputError: it is too long for hand-ins.
    """
    size = archive.stat().st_size
    with archive.open("rb") as stream:
        stream.seek(max(0, size - _TAIL))
        tail = stream.read()
    at = tail.rfind(b"PK\x05\x06")  # the end of the list (APPNOTE.TXT 4.3.16)
    if at < 0 or len(tail) < at + 16:
        return  # no archive, as the reader will say
    count, length = struct.unpack_from("<HI", tail, at + 10)
    if count > MAX_MEMBERS or length > MAX_MEMBERS * _LIST_ENTRY:
        raise BadInputError(
            f"{archive.name} holds more than {MAX_MEMBERS:,} files; hand in the notebooks alone"
        )


def _is_wanted(info: zipfile.ZipInfo) -> bool:
    name = info.filename.lower()
    return name.endswith(".ipynb") or is_archive(name)


def _member(archive: Path, info: zipfile.ZipInfo) -> Member:
    path = PurePosixPath(info.filename.replace("\\", "/"))
    where = f"{path.name} in {archive.name}"
    modified = _modified(info)
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


def _modified(info: zipfile.ZipInfo) -> datetime | None:
    """Return when a member was last changed, where the archive says it in universal time.

    A zip's own field is in a time zone that it does not name; Info-ZIP's extra field 0x5455, which
    most programs write, counts seconds from 1970.
    """
    extra = info.extra
    while len(extra) >= _EXTRA.size:
        kind, size = _EXTRA.unpack_from(extra)
        body, extra = extra[_EXTRA.size :][:size], extra[_EXTRA.size + size :]
        if kind == _EXTENDED_TIMESTAMP and len(body) >= _SECONDS.size and body[0] & 1:
            return moment(_SECONDS.unpack_from(body)[1])
    return None


def moment(seconds: float) -> datetime | None:
    """Return a time since 1970; None where no calendar has it."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _read(archive: Path, name: str, where: str) -> bytes:
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(name) as stream:
            content = stream.read(MAX_BYTES + 1)
    except Exception as error:  # hostile bytes raise whatever the reader runs into
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
