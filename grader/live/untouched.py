"""A student's namespace lent for a while: what their functions change is changed in copies.

Rebound and deleted names come back, data that the functions name is replaced by deep copies and
given back as it was, and so are the states of chance, of warnings and of the working folder. What
refuses to be copied (an open file, a lock) is shared.
"""

from __future__ import annotations

import builtins
import contextlib
import copy
import dis
import functools
import io
import os
import random
import sys
import types
import warnings
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, NoReturn

import numpy as np
import pandas as pd

MAX_COPIED_BYTES = 2**28  # a table or an array beyond 256 MiB is shared: a copy could not be had
MAX_PRINTED = 4_000  # characters of the functions' own output that are kept
SHARED = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


class Printed(io.TextIOBase):
    """Keeps the start of what is printed, however much it is."""

    def __init__(self) -> None:
        """Start with nothing printed."""
        self.text = ""
        self.n_characters = 0

    def writable(self) -> bool:
        """Tell that it can be written to."""
        return True

    def write(self, text: str) -> int:
        """Take printed text."""
        self.n_characters += len(text)
        self.text += text[: max(0, MAX_PRINTED - len(self.text))]
        return len(text)


@contextlib.contextmanager
def untouched(namespace: MutableMapping[str, Any], names: Iterable[str]) -> Iterator[Printed]:
    """Lend a namespace to calls of the functions `names`; yields what they print meanwhile."""
    before = dict(namespace)
    printed = Printed()
    with contextlib.ExitStack() as stack:
        stack.callback(_give_back, namespace, before)
        stack.enter_context(_same_chance())
        stack.enter_context(_same_folder())
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(np.errstate())
        stack.enter_context(_no_reader())
        stack.enter_context(_no_figures_left())
        stack.enter_context(_no_displays())
        stack.enter_context(contextlib.redirect_stdout(printed))
        stack.enter_context(contextlib.redirect_stderr(printed))
        namespace.update(_copies(before, names))
        yield printed


def _give_back(namespace: MutableMapping[str, Any], before: dict[str, Any]) -> None:
    for name in [name for name in namespace if name not in before]:
        del namespace[name]
    for name, value in before.items():
        if name not in namespace or namespace[name] is not value:
            namespace[name] = value


def _copies(namespace: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return copies of the data that the functions name; what is shared among them stays so."""
    memo: dict[int, Any] = {}
    copied = {}
    for name in reached(namespace, names):
        value = namespace[name]
        if isinstance(value, SHARED) or _n_bytes(value) > MAX_COPIED_BYTES:
            continue
        with contextlib.suppress(Exception):  # a student's class may refuse in any way
            copied[name] = copy.deepcopy(value, memo)
    return copied


def _n_bytes(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, pd.DataFrame):
        return int(value.memory_usage(deep=False).sum())
    return 0


# ---------------------------------------------------------------- which names functions use


def reached(namespace: dict[str, Any], names: Iterable[str]) -> list[str]:
    """Return `names` and the names of the namespace that their code uses, through all it calls."""
    found: dict[str, None] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found or name not in namespace:
            continue
        found[name] = None
        for code in _codes(namespace[name], namespace):
            waiting += _globals_of(code)
    return list(found)


def _codes(value: Any, namespace: dict[str, Any]) -> Iterator[types.CodeType]:
    """Yield the code of a function of this notebook, of a class's, or of what wraps one."""
    seen: set[int] = set()
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
                waiting += [*vars(one).values(), *one.__bases__]
        elif isinstance(one, types.FunctionType):
            waiting += [cell.cell_contents for cell in one.__closure__ or () if _is_filled(cell)]
            waiting += vars(one).values()  # a wrapper keeps what it wraps as `__wrapped__`
            yield one.__code__
        elif hasattr(one, "__dict__"):
            waiting += [w for w in (vars(one).get("__wrapped__"), type(one)) if w is not None]


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


@functools.lru_cache(maxsize=2_048)
def _globals_of(code: types.CodeType) -> tuple[str, ...]:
    """Return the global names that a code object, or one inside it, reads or sets."""
    own = {
        str(step.argval)
        for step in dis.get_instructions(code)
        if step.opname.endswith(("_GLOBAL", "_NAME"))
    }
    inner = [name for part in code.co_consts if isinstance(part, types.CodeType)
             for name in _globals_of(part)]  # fmt: skip
    return tuple(sorted({*own, *inner}))


# ---------------------------------------------------------------- the rest of the process


@contextlib.contextmanager
def _same_chance() -> Iterator[None]:
    """Give back the states of chance that notebooks draw from."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - the global one
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


@contextlib.contextmanager
def _same_folder() -> Iterator[None]:
    try:
        before = os.getcwd()  # noqa: PTH109 - a path object would resolve nothing more
    except OSError:  # it was removed
        before = ""
    try:
        yield
    finally:
        if before:
            with contextlib.suppress(OSError):
                os.chdir(before)


@contextlib.contextmanager
def _no_reader() -> Iterator[None]:
    """Let `input()` meet the end of the file, as in a graded run."""

    def nobody(_prompt: object = "") -> NoReturn:
        raise EOFError("nobody answers while functions are graded")

    before = builtins.input
    builtins.input = nobody
    try:
        yield
    finally:
        builtins.input = before


@contextlib.contextmanager
def _no_figures_left() -> Iterator[None]:
    """Close the figures that functions open: a notebook would show them below the cell."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    before = set() if pyplot is None else set(pyplot.get_fignums())
    try:
        yield
    finally:
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            for number in set(pyplot.get_fignums()) - before:
                pyplot.close(number)


@contextlib.contextmanager
def _no_displays() -> Iterator[None]:
    """Drop what functions display; outside IPython nothing is displayed."""
    if "IPython" not in sys.modules:
        yield
        return
    from IPython.utils.capture import capture_output

    with capture_output(stdout=False, stderr=False, display=True):
        yield
