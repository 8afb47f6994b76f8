"""What the asked functions can touch of a live notebook: names, and functions and classes in it."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Reach:
    """Names of a namespace, and the notebook's own functions and classes behind them."""

    names: list[str] = field(default_factory=list)
    functions: list[types.FunctionType] = field(default_factory=list)
    classes: list[type] = field(default_factory=list)


def reach(namespace: Mapping[str, Any], names: Iterable[str]) -> Reach:
    """Follow the code of `names` through all that it names, calls, wraps or closes over."""
    found = Reach()
    seen_names: set[str] = set()
    seen: set[int] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in seen_names or name not in namespace:
            continue
        seen_names.add(name)
        found.names.append(name)
        for code in _codes(namespace[name], namespace, found, seen):
            waiting += _globals_of(code)
    return found


def _codes(
    value: Any, namespace: Mapping[str, Any], found: Reach, seen: set[int]
) -> Iterator[types.CodeType]:
    """Yield the code behind a value, and note the functions and classes on the way."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, functools.partial):
            waiting.append(one.func)
        elif isinstance(one, staticmethod | classmethod | types.MethodType):
            waiting.append(one.__func__)
        elif isinstance(one, property):
            waiting += [part for part in (one.fget, one.fset) if part is not None]
        elif isinstance(one, type):
            if one.__module__ == namespace.get("__name__"):
                found.classes.append(one)
                waiting += [*vars(one).values(), *one.__bases__]
        elif isinstance(one, types.FunctionType):
            if one.__module__ == namespace.get("__name__"):
                found.functions.append(one)
            waiting += [cell.cell_contents for cell in one.__closure__ or () if is_filled(cell)]
            waiting += vars(one).values()  # a wrapper keeps what it wraps as `__wrapped__`
            yield one.__code__
        else:
            attributes = getattr(one, "__dict__", None)
            if isinstance(attributes, dict) and not isinstance(one, types.ModuleType):
                waiting += [attributes.get("__wrapped__"), type(one)]


def is_filled(cell: types.CellType) -> bool:
    """Tell whether a closure's cell holds anything yet."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


@functools.lru_cache(maxsize=2_048)
def _globals_of(code: types.CodeType) -> tuple[str, ...]:
    """Return the global names that a code object, or one inside it, reads or sets."""
    own = {
        str(step.argval)
        for step in dis.get_instructions(code)
        if step.opname.endswith(("_GLOBAL", "_NAME"))
    }
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            own.update(_globals_of(part))
    return tuple(sorted(own))
