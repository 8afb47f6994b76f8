"""The odd but honest notebooks: text files of `tests/odd`, and what each of them deserves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import pytest

from solutions.lesson import KERNEL, ROOT

FOLDER = ROOT / "tests" / "odd"
# What a room does not do yet as a kernel does: each is expected to fail until it does.
AWAITED = {
    "breakpoint_left_in": "breakpoint() ends in BdbQuit; a kernel without a debugger runs over it",
    "figures_end_with_their_cell": "a warm room leaves figures open from one cell to the next",
    "folder_beside_notebooks": "nothing can be made beside `notebooks`",
    "local_server": "a room has no loopback address and does not know localhost",
    "says_exit": "exit() raises an AttributeError of the room's shell",
    "stored_variables": "%store is not loaded, as it is in every kernel",
    "tasks_across_cells": "no event loop runs in a cell that awaits nothing",
}
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.txt")))


@dataclass(frozen=True)
class Odd:
    """One odd notebook of milestone 2, read from its py:percent text.

    The metadata of its first cell, which says what is odd, names the checks that it passes and
    the cells that raise: `passes=["known_shapes"] raises={"2": "NameError"}`.
    """

    notebook: nbformat.NotebookNode
    passes: frozenset[str]
    raises: dict[int, str]

    def write(self, folder: Path) -> Path:
        """Write the notebook file and return its path."""
        path = folder / "m2_kv_bytes.ipynb"
        path.write_text(nbformat.writes(self.notebook), encoding="utf-8")
        return path


def each(names: Iterable[str]) -> list[Any]:
    """Return names as test parameters; one that waits for the grader is expected to fail."""
    return [
        pytest.param(
            name, marks=[pytest.mark.xfail(reason=AWAITED[name])] if name in AWAITED else ()
        )
        for name in names
    ]


def read_odd(name: str) -> Odd:
    """Return one odd notebook."""
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    parsed = jupytext.reads(text, fmt="py:percent")
    cells = []
    for number, cell in enumerate(parsed.cells):
        if cell.cell_type == "code":
            cells.append(nbformat.v4.new_code_cell(cell.source, id=f"odd-{number}"))
        else:
            cells.append(nbformat.v4.new_markdown_cell(cell.source, id=f"odd-{number}"))
    deserves = parsed.cells[0].metadata
    raises = {int(cell): error for cell, error in deserves.get("raises", {}).items()}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": KERNEL})
    return Odd(notebook, frozenset(deserves["passes"]), raises)
