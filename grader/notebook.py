"""A notebook file as what the grader needs of it: the source of its code cells, and a hash."""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import nbformat

from grader.errors import BadInputError

MAX_BYTES = 64 * 2**20  # a notebook with plots is a few MB; beyond this it is something else


@dataclass(frozen=True)
class Cell:
    """A code cell: its position among all cells of the notebook, counted from 0, and its source."""

    index: int
    source: str


@dataclass(frozen=True)
class Notebook:
    """The code of one notebook file."""

    path: Path
    sha256: str
    cells: tuple[Cell, ...]


def read_notebook(path: Path) -> Notebook:
    """Read a notebook's code cells.

    Raises:
        BadInputError: there is no such file, or it is not a notebook; the message says which.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise BadInputError(
                f"{path}: {size / 1e6:.0f} MB is too large for a notebook (limit "
                f"{MAX_BYTES / 1e6:.0f} MB); clear its outputs, save it and try again"
            )
        raw = path.read_bytes()
    except FileNotFoundError:
        raise BadInputError(f"{path}: there is no such notebook") from None
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        text = raw.decode("utf-8-sig")
        json.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise BadInputError(
            f"{path}: is not a notebook ({_looks_like(raw)}); open it in JupyterLab, save it as "
            ".ipynb and try again"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # missing or duplicate cell ids do not matter here
            notebook = nbformat.reads(text, as_version=4)
        cells = tuple(
            Cell(index, str(cell.source))
            for index, cell in enumerate(notebook.cells)
            if cell.cell_type == "code" and str(cell.source).strip()
        )
    except Exception:  # nbformat raises many kinds on a JSON file that is not a notebook
        raise BadInputError(
            f"{path}: is JSON but not a notebook (no list of cells that nbformat can read); "
            "get it again with `grader reset`, which keeps what is there"
        ) from None
    return Notebook(path, hashlib.sha256(raw).hexdigest(), cells)


def _looks_like(raw: bytes) -> str:
    start = raw[:400].lstrip()
    if not raw:
        return "it is empty"
    if start[:1] == b"<":
        return "it looks like a web page saved under this name"
    if b"<<<<<<< " in raw and b">>>>>>> " in raw:
        return "it holds merge-conflict markers"
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "it is UTF-16 text, a notebook is UTF-8"
    if start[:1] == b"{":
        return "its JSON is broken or cut short"
    return "it is no JSON text"
