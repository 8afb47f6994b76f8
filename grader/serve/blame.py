"""Where in a notebook an exception of `plan` came from: the cell, the line, and its source.

The grader's own reports need no more than the exception. A person who looks at a page wants to know
where to look, so a served notebook gets one cell more, which watches its `plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from grader.notebook import Cell
from grader.trouble import printable

VARIABLE = "_served_trouble"
MAX_SHOWN = 160  # characters of an error or of a line of source

# IPython names each cell's code after the count of executions, the `In[3]` of a traceback.
WATCH = f"""
{VARIABLE} = None

def _watch_plan(plan):
    import functools, traceback

    name_of = get_ipython().compile.format_code_name

    @functools.wraps(plan)
    def watched(**arguments):
        global {VARIABLE}
        {VARIABLE} = None
        try:
            return plan(**arguments)
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)[1:]
            inside = [(name_of(frame.filename), frame) for frame in frames]
            inside = [(name, frame) for name, frame in inside if name and name[0] == "Cell"]
            kind, text = type(error).__name__, " ".join(str(error).split())
            {VARIABLE} = {{"error": f"{{kind}}: {{text}}"[:300] if text else kind}}
            if inside:
                (_, count), frame = inside[-1]
                {VARIABLE} |= {{"in": count, "line": frame.lineno, "source": frame.line}}
            raise

    return watched

if callable(globals().get("plan")):
    plan = _watch_plan(plan)
"""


@dataclass(frozen=True)
class Blame:
    """What `plan` raised, and where: a cell counted from 0 and a line counted from 1, if known."""

    error: str
    cell: int | None = None
    line: int | None = None
    source: str = ""

    @property
    def unwritten(self) -> bool:
        """Whether it is what a blank exercise raises."""
        return self.error.partition(":")[0] == "NotImplementedError"

    @property
    def where(self) -> str:
        """The place as a clause: `in cell 12, line 7: ...`; empty where it is not known."""
        if self.cell is None:
            return ""
        place = f"in cell {self.cell}, line {self.line}"
        return f"{place}: {self.source}" if self.source else place


def watching(cells: Sequence[Cell]) -> Cell:
    """Return the cell that is run after a notebook's own ones."""
    return Cell(cells[-1].index + 1 if cells else 0, WATCH)


def blame(told: Any, cells: Sequence[Cell]) -> Blame | None:
    """Read what the watching cell has noted; any code of the notebook may have written it."""
    match told:
        case {"error": str(error), "in": str(count), "line": int(line), **rest}:
            ran = _position(count, len(cells))
            cell = None if ran is None else cells[ran].index
            line += 0 if ran is None else _blank_lines_above(cells[ran].source)
            source = rest.get("source")
            shown = printable(source.strip()[:MAX_SHOWN]) if isinstance(source, str) else ""
            return Blame(printable(error[:MAX_SHOWN]), cell, line, shown)
        case {"error": str(error)}:
            return Blame(printable(error[:MAX_SHOWN]))
    return None


def _blank_lines_above(source: str) -> int:
    """Return how many lines IPython drops from the start of a cell before it counts them."""
    return sum(1 for _ in takewhile(lambda line: not line.strip(), source.splitlines()))


def _position(count: str, n_cells: int) -> int | None:
    """Return which cell ran as `In[n]`, from 0: every cell, even a broken one, counts once."""
    digits = count.removeprefix("In[").removesuffix("]")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 6:
        return None
    return int(digits) - 1 if 1 <= int(digits) <= n_cells else None
