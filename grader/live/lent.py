"""Copies lent in place of what a student's functions hold, and the originals given back.

Held are the names of their namespace, the attributes of their classes and functions, and what
their closures keep. What refuses to be copied (an open file, a lock) is shared.
"""

from __future__ import annotations

import contextlib
import copy
import types
from collections.abc import Collection, Iterable, Iterator, MutableMapping
from typing import Any, Protocol

import numpy as np
import pandas as pd

from grader.live.reach import is_filled, reach

MAX_COPIED_BYTES = 2**28  # a table or an array beyond 256 MiB is shared: a copy could not be had
SHARED = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    staticmethod,
    classmethod,
    property,
)


class _Holder(Protocol):
    """Something that holds values by name: a namespace, a class, a function."""

    def values(self) -> dict[str, Any]:
        """Return all that it holds now."""

    def put(self, name: str, value: Any) -> None:
        """Hold a value."""

    def drop(self, name: str) -> None:
        """Hold it no more."""


@contextlib.contextmanager
def lent(namespace: MutableMapping[str, Any], names: Iterable[str]) -> Iterator[None]:
    """Hold copies of the data that `names` can touch, and then again what was held before."""
    found = reach(namespace, names)
    holders: list[tuple[_Holder, Collection[str] | None]] = [(_Names(namespace), found.names)]
    holders += [(_Attributes(one), None) for one in found.classes]
    holders += [(_Attributes(one), None) for one in found.functions]
    holders += [(_Closure(one), None) for one in found.functions if one.__closure__]
    before = [holder.values() for holder, _ in holders]
    memo: dict[int, Any] = {}
    try:
        for (holder, touched), values in zip(holders, before, strict=True):
            for name in values if touched is None else touched:
                if _is_data(name, values[name]):
                    with contextlib.suppress(Exception):  # a class of theirs may refuse anyhow
                        holder.put(name, copy.deepcopy(values[name], memo))
        yield
    finally:
        for (holder, _), values in zip(holders, before, strict=True):
            _give_back(holder, values)


def _give_back(holder: _Holder, before: dict[str, Any]) -> None:
    now = holder.values()
    for name in now.keys() - before.keys():
        holder.drop(name)
    for name, value in before.items():
        if name not in now or now[name] is not value:
            with contextlib.suppress(AttributeError, TypeError):  # Python's own, never changed
                holder.put(name, value)


def _is_data(name: str, value: Any) -> bool:
    return not (
        (name.startswith("__") and name.endswith("__"))
        or isinstance(value, SHARED)
        or _n_bytes(value) > MAX_COPIED_BYTES
    )


def _n_bytes(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, pd.DataFrame):
        return int(value.memory_usage(deep=False).sum())
    return 0


class _Names:
    def __init__(self, namespace: MutableMapping[str, Any]) -> None:
        self._namespace = namespace

    def values(self) -> dict[str, Any]:
        return dict(self._namespace)

    def put(self, name: str, value: Any) -> None:
        self._namespace[name] = value

    def drop(self, name: str) -> None:
        del self._namespace[name]


class _Attributes:
    def __init__(self, owner: type | types.FunctionType) -> None:
        self._owner = owner

    def values(self) -> dict[str, Any]:
        return dict(vars(self._owner))

    def put(self, name: str, value: Any) -> None:
        setattr(self._owner, name, value)

    def drop(self, name: str) -> None:
        delattr(self._owner, name)


class _Closure:
    def __init__(self, function: types.FunctionType) -> None:
        self._cells = dict(
            zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        )

    def values(self) -> dict[str, Any]:
        return {name: cell.cell_contents for name, cell in self._cells.items() if is_filled(cell)}

    def put(self, name: str, value: Any) -> None:
        self._cells[name].cell_contents = value

    def drop(self, name: str) -> None:
        del self._cells[name].cell_contents
