"""A student's namespace lent for a while: what their functions change is changed in copies.

Data that the functions can reach by name, as an attribute of a class or function, or in a closure
is replaced by deep copies, and what was held before is held again. So are the states of chance, of
warnings and of the working folder.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import random
import sys
import warnings
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, NoReturn

import numpy as np

from grader.live.lent import lent

MAX_PRINTED = 4_000  # characters of the functions' own output that are kept


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
    printed = Printed()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_same_chance())
        stack.enter_context(_same_folder())
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(np.errstate())
        stack.enter_context(_no_reader())
        stack.enter_context(_no_figures_left())
        stack.enter_context(_no_displays())
        stack.enter_context(contextlib.redirect_stdout(printed))
        stack.enter_context(contextlib.redirect_stderr(printed))
        stack.enter_context(lent(namespace, names))
        yield printed


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
