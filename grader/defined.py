"""Which names a notebook's code defines, told by reading it; nothing of it is run."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from grader.live.definitions import definitions_of
from grader.notebook import Notebook


@dataclass(frozen=True)
class Defined:
    """The names that cells bind at their top level, and the modules they import.

    `anything` is true where a cell may bind any name: by `exec`, `import *` or a cell magic.
    """

    names: frozenset[str]
    imports: frozenset[str]
    anything: bool

    def may_have(self, name: str) -> bool:
        """Tell whether the notebook defines a name, as far as reading it can tell."""
        return self.anything or name in self.names


def defined_in(notebook: Notebook) -> Defined:
    """Read all cells; one that is no Python defines nothing, as when it is run."""
    names: set[str] = set()
    imports: set[str] = set()
    anything = False
    for cell in notebook.cells:
        if cell.source.lstrip().startswith("%%"):
            anything = True
            continue
        source = _as_python(cell.source)
        code = definitions_of(source)
        names |= code.definitions.keys()
        anything = anything or code.opaque
        imports |= _imported(source)
    return Defined(frozenset(names), frozenset(imports), anything)


def _as_python(source: str) -> str:
    """Return a cell with its magics turned into calls."""
    make: Any = TransformerManager  # IPython ships partial types
    try:
        return str(make().transform_cell(source))
    except (SyntaxError, ValueError, RecursionError):
        return source


def _imported(source: str) -> set[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found
