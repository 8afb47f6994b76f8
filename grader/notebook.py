"""A notebook file as what the grader needs of it: the source of its code cells, and a hash."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.errors import BadInputError

MAX_BYTES = 64 * 2**20  # a notebook with plots is a few MB; beyond this it is something else
MAX_VALUES = 5_000_000  # read into memory they take a GB; a notebook of 64 MB of text has few
MAX_CELLS = 2_000  # the course's longest notebook has 30
IN_UTF8 = "open it in a text editor, save it in UTF-8 and try again"


@dataclass(frozen=True)
class Cell:
    """A code cell: its position among all cells of the notebook, counted from 0, and its source."""

    index: int
    source: str


@dataclass(frozen=True)
class Notebook:
    """The code of one notebook file."""

    sha256: str
    cells: tuple[Cell, ...]

    @property
    def code_sha256(self) -> str:
        """A hash of the code alone: a save that keeps it has changed nothing that is graded."""
        sources = json.dumps([cell.source for cell in self.cells])
        return hashlib.sha256(sources.encode()).hexdigest()


def read_notebook(path: Path) -> Notebook:
    """Read a notebook's code cells, of nbformat 2 to 4.

    The cells are all that is looked at: what else a file holds, or lacks, costs nobody a point.

    Raises:
        BadInputError: there is no such file, or it is not a notebook; the message says what is
            wrong and what to do.
    """
    return parse_notebook(read_file(path), str(path))


def parse_notebook(raw: bytes, path: str) -> Notebook:
    """Read the code cells of a notebook's bytes; `path` names them in a message.

    Raises:
        BadInputError: they are no notebook; the message says what is wrong and what to do.
    """
    if sum(map(raw.count, (b"[", b"{", b","))) > MAX_VALUES:
        raise BadInputError(
            f"{path}: holds more than {MAX_VALUES:,} values, too many for a notebook; clear its "
            "outputs, save it and try again"
        )
    try:
        content = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        what, remedy = _looks_like(raw)
        raise BadInputError(f"{path}: is not a notebook ({what}); {remedy}") from None
    try:
        cells = tuple(
            Cell(index, source)
            for index, cell in enumerate(_all_cells(content))
            if cell["cell_type"] == "code" and (source := _source(cell)).strip()
        )
    except (AttributeError, KeyError, TypeError):
        raise BadInputError(
            f"{path}: is JSON but not a notebook (it has no list of cells that can be read); "
            "get it again with `grader reset`, which keeps what is there"
        ) from None
    if len(cells) > MAX_CELLS:
        raise BadInputError(
            f"{path}: has {len(cells):,} code cells (limit {MAX_CELLS:,}); start again from the "
            "course's notebook"
        )
    return Notebook(hashlib.sha256(raw).hexdigest(), cells)


def read_file(path: Path, shown: str = "") -> bytes:
    """Return a notebook file's bytes; `shown` is what a message calls it, else its path.

    Raises:
        BadInputError: it is none, cannot be read, or is far too large; the message says which.
    """
    name = shown or str(path)
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise BadInputError(f"{name}: is a folder; put the notebook file in its place")
        if not stat.S_ISREG(found.st_mode):  # reading a pipe or a device may never end
            raise BadInputError(f"{name}: is not a file; put the notebook file in its place")
        if found.st_size > MAX_BYTES:
            raise BadInputError(
                f"{name}: {found.st_size / 1e6:.0f} MB is too large for a notebook (limit "
                f"{MAX_BYTES / 1e6:.0f} MB); clear its outputs, save it and try again"
            )
        return path.read_bytes()
    except FileNotFoundError:
        raise BadInputError(f"{name}: there is no such notebook{_beside(path)}") from None
    except OSError as error:
        raise BadInputError(f"{name}: cannot be read: {error.strerror}") from None


def _beside(path: Path) -> str:
    """Return a clause that names a copy of a missing notebook: a download's, a checkpoint."""
    for folder in (path.parent, path.parent / ".ipynb_checkpoints"):
        copies = sorted(folder.glob("*.ipynb")) if folder.is_dir() else []
        for copy in copies:
            if copy.stem.startswith(path.stem):
                where = copy.relative_to(path.parent)
                return f", but {where} is there; give it the name {path.name} and try again"
    return ""


def _all_cells(content: Any) -> Iterator[Any]:
    """Yield every cell of a notebook file in order; until nbformat 3 they lie in worksheets."""
    if "cells" in content:
        yield from content["cells"]
        return
    for sheet in content["worksheets"]:
        yield from sheet["cells"]


def _source(cell: Any) -> str:
    """Return the text of a code cell: one text or a list of lines, `input` until nbformat 3."""
    text = cell.get("source", cell.get("input"))
    lines = [text] if isinstance(text, str) else text or []
    if not isinstance(lines, list):
        raise TypeError("neither text nor a list of lines")
    return "".join(lines)


def _looks_like(raw: bytes) -> tuple[str, str]:
    """Return what a file that is not UTF-8 JSON seems to be, and what its owner can do."""
    start = raw[:400].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not raw.strip():
        return "it is empty", "get it again with `grader reset`"
    if b"<<<<<<< " in raw and b">>>>>>> " in raw:
        return (
            "it holds merge-conflict markers",
            "choose one side (`git checkout --ours` or `--theirs` and its name) and try again",
        )
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff") or raw[:4].count(b"\0") == 2:
        return "it is UTF-16 text, a notebook is UTF-8", IN_UTF8
    if start[:1] == b"<":
        return (
            "it looks like a web page saved under this name",
            "download the notebook file itself and try again",
        )
    if start[:2] == b"PK":
        return "it is a zip archive", "unpack it, put the notebook in its place and try again"
    if start[:1] == b"{":
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            if error.end < len(raw):  # at the very end a character was cut through, with the rest
                return "it is text in another encoding, a notebook is UTF-8", IN_UTF8
        return (
            "its JSON is broken or cut short",
            "put a good copy in its place (JupyterLab keeps the last one you saved in "
            ".ipynb_checkpoints) and try again",
        )
    return "it is no JSON text", "open it in JupyterLab, save it as .ipynb and try again"
