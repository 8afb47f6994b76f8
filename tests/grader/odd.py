"""The odd but honest notebooks: text files of `tests/odd`, and what each of them deserves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat

from solutions.lesson import KERNEL, ROOT

FOLDER = ROOT / "tests" / "odd"
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
