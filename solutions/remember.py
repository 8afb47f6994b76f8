"""What one process need not do twice: fits on the same table, and reading a split's truth.

Neither weakens a proof: a fit is the same one only where the functions it can reach, the constants
they use and the bytes of its tables are the same; and truth is what was read from the disk.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import pandas as pd

from grader.places import Places
from grader.split import sha256_of
from milestones.spec import Call, Files, Table

PLAIN = (bool, int, float, str, bytes, type(None), tuple, list, dict, set, frozenset)

# Beside each fit its namespace: while that lives, the identity of what it holds stays unique.
_fits: dict[Hashable, tuple[Any, Mapping[str, Any]]] = {}


def with_fits(namespace: dict[str, Any], call: Call, places: Places) -> dict[str, Any]:
    """Return a namespace that answers a call as this one does, from memory where it can.

    Only results that stay in the process (`kept`) and depend on whole tables of the public data
    are remembered: models, fitted on the training runs. Another split asks for the same fit.
    """
    function = namespace.get(call.function)
    if call.returns != "kept" or not isinstance(function, FunctionType):
        return namespace
    tables = []
    for name, value in sorted(call.args.items()):
        if not (isinstance(value, Table) and value.path.startswith("data/") and value.rows is None):
            return namespace
        tables.append((name, sha256_of(places.file(value.path))))
    key = (call.function, tuple(tables), reached(namespace, call.function))

    def once(**arguments: Any) -> Any:
        if key not in _fits:
            _fits[key] = function(**arguments), namespace.copy()
        return _fits[key][0]

    return {**namespace, call.function: once}


def reached(namespace: Mapping[str, Any], name: str) -> frozenset[Hashable]:
    """Return all that a function can reach by name in its namespace, in a form to compare.

    Functions of the namespace itself count by their code, plain constants by their value, and
    everything else (modules, classes, tables) by being the same object.
    """
    found: dict[str, Hashable] = {}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in found or current not in namespace:
            continue
        value = namespace[current]
        if isinstance(value, FunctionType) and value.__globals__ is namespace:
            defaults = repr((value.__defaults__, value.__kwdefaults__))
            found[current] = ("function", value.__code__, defaults)
            waiting += _names(value.__code__)
        elif isinstance(value, PLAIN):
            found[current] = ("constant", repr(value))
        else:
            found[current] = ("object", id(value))
    return frozenset(found.items())


def _names(code: CodeType) -> set[str]:
    """Return the names that a function's code looks up outside itself, also in nested functions."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*map(_names, inner))


@dataclass(frozen=True)
class FilesInMemory(Files):
    """Files that are read once: one split's truth is asked for again by each of many judgings.

    Tables and JSON are given as copies, arrays as they are but not writable.
    """

    kept: dict[str, Any] = field(default_factory=dict, compare=False)

    def __init__(self, root: Path) -> None:
        """`root` is the folder; nothing is read yet."""
        super().__init__(root)
        object.__setattr__(self, "kept", {})

    def json(self, path: str) -> Any:
        """Return a JSON file's content."""
        if path not in self.kept:
            self.kept[path] = super().json(path)
        return deepcopy(self.kept[path])

    def table(self, path: str) -> pd.DataFrame:
        """Return a CSV as a DataFrame; `run_id` stays text."""
        if path not in self.kept:
            self.kept[path] = super().table(path)
        table: pd.DataFrame = self.kept[path]
        return table.copy()

    def arrays(self, path: str) -> dict[str, np.ndarray]:
        """Return the arrays of an .npz file."""
        if path not in self.kept:
            arrays = super().arrays(path)
            for array in arrays.values():
                array.flags.writeable = False
            self.kept[path] = arrays
        return dict(self.kept[path])
