"""A student's cells as a page shows them: highlighted, bounded, and never anything but text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from markupsafe import Markup, escape

import milestones
from grader.errors import BadInputError
from grader.html.tokens import tokens
from grader.html.visible import shorten, visible
from grader.notebook import Notebook, read_notebook
from grader.report import CellError, MilestoneReport

MAX_LINE = 400  # characters of one line; longer ones are data
MAX_LINES = 400  # of one cell
MAX_CELLS = 200
MAX_HIGHLIGHTED = 20_000  # characters of a cell; beyond them colours cost more than they tell
MAX_ERROR = 2_000
MAX_FIRST_LINE = 60

CLASSES = {"comment": "c", "string": "s", "number": "m", "keyword": "k", "defined": "f"}


@dataclass(frozen=True)
class ShownCell:
    """A code cell beside the checks."""

    index: int
    first_line: str
    code: Markup
    given: bool  # it is as the course gave it
    open: bool
    error: CellError | None


def shown_cells(notebook: Notebook, report: MilestoneReport) -> tuple[list[ShownCell], int]:
    """Return the cells to show, and how many more there are.

    Open are those that raised, and those that define what was asked for and are the student's own.
    """
    given = _given(report.milestone)
    asked = milestones.load(report.milestone).functions
    errors = {error.cell: error for error in report.cells}
    cells: list[ShownCell] = []
    for cell in notebook.cells[:MAX_CELLS]:
        error = errors.get(cell.index)
        as_given = cell.source.strip() in given
        own = not as_given and any(f"def {name}" in cell.source for name in asked)
        cells.append(
            ShownCell(
                cell.index,
                _first_line(cell.source),
                highlighted(cell.source),
                as_given,
                own or error is not None,
                error,
            )
        )
    return cells, max(0, len(notebook.cells) - MAX_CELLS)


def _first_line(source: str) -> str:
    """Return a line that tells one cell from another: a definition, else the first one."""
    lines = [line.strip() for line in source[:MAX_HIGHLIGHTED].splitlines() if line.strip()]
    defined = (line for line in lines if line.startswith(("def ", "class ", "async def ")))
    line = next(defined, lines[0] if lines else "")
    return line if len(line) <= MAX_FIRST_LINE else f"{line[: MAX_FIRST_LINE - 1]}…"


@lru_cache
def _given(slug: str) -> frozenset[str]:
    """Return the cells of the blank notebook."""
    blank = Path(milestones.__file__).parent / slug / "blank.ipynb"
    try:
        return frozenset(cell.source.strip() for cell in read_notebook(blank).cells)
    except BadInputError:
        return frozenset()


def highlighted(source: str) -> Markup:
    """Return code as markup of ours, cut to what a person reads."""
    text = visible("\n".join(_bounded(source)))
    return escape(text) if len(text) > MAX_HIGHLIGHTED else _coloured(text)


@lru_cache(maxsize=1_024)  # most cells of a class are the course's own
def _coloured(text: str) -> Markup:
    return Markup("").join(_spans(text))


def _bounded(source: str) -> Iterator[str]:
    lines = source.rstrip().split("\n", MAX_LINES)
    beyond = lines.pop().count("\n") + 1 if len(lines) > MAX_LINES else 0
    for line in lines:
        yield shorten(line.removesuffix("\r"), MAX_LINE)
    if beyond:
        yield f"⟨{beyond:,} more lines⟩"


def _spans(text: str) -> Iterator[Markup]:
    plain: list[str] = []
    defines = False
    for kind, part in tokens(text):
        name = CLASSES.get("defined" if kind == "name" and defines else kind)
        if kind != "space":
            defines = part in ("def", "class")
        if name is None:
            plain.append(part)
            continue
        yield escape("".join(plain))
        plain.clear()
        yield Markup('<span class="') + name + Markup('">') + part + Markup("</span>")
    yield escape("".join(plain))
