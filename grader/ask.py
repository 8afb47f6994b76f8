"""One call put to a namespace of functions: in a room, in a live notebook or in a test alike."""

from __future__ import annotations

import copy
import io
import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pandas as pd

from grader.trouble import Trouble
from grader.wire import PackedAnswer, UnsendableError, pack
from milestones.spec import Call, Result, Table, Tree

MAX_ERROR = 300  # characters of an exception's message that a report keeps


class Shelf(Protocol):
    """Where the files lie that calls name."""

    def read(self, path: str) -> bytes:
        """Return the bytes of a call's `data/...` or `questions/...`."""


class Desk:
    """Where questions are read and results of earlier calls are kept, in the student's process."""

    def __init__(
        self,
        shelf: Shelf,
        escaping: tuple[type[BaseException], ...] = (),
        read: dict[str, Any] | None = None,
    ) -> None:
        """`shelf` holds the files that calls name.

        `escaping` are exceptions that end the asking instead of being what a call came to: in a
        live notebook Ctrl-C is the person's, not the function's. `read` keeps the files that were
        read for a later desk of the same shelf; no call sees more than a copy of one.
        """
        self._shelf = shelf
        self._escaping = escaping
        self._read: dict[str, Any] = {} if read is None else read
        self._kept: dict[str, Any] = {}

    def ask(self, namespace: Mapping[str, Any], call: Call) -> PackedAnswer | Trouble:
        """Put one call to the namespace; return its packed answer, or the trouble."""
        if call.function not in namespace:
            return Trouble("missing")
        target = namespace[call.function]
        if call.variable:
            return self._pack(call, target)
        if not callable(target):
            detail = f"`{call.function}` is of type {type(target).__name__}"
            return Trouble("no_function", detail=detail)
        try:
            arguments = {key: self._argument(value) for key, value in call.args.items()}
        except _NotKeptError as missing:
            detail = f"{call.id} builds on {missing}, which has no result"
            return Trouble("unbuilt", detail=detail)
        except Exception as error:  # the notebook may have replaced what reads its questions
            detail = f"reading the question {call.id} raised {describe(error)}"
            return Trouble("unread", detail=detail)
        try:
            value = target(**arguments)
        except NotImplementedError:
            return Trouble("unwritten")
        except self._escaping:
            raise
        except BaseException as error:
            # A student's function may end in anything, SystemExit and KeyboardInterrupt included.
            if call.returns == "raised":
                text = message_of(error)[:MAX_ERROR]
                return self._pack(call, {"raised": kinds(error), "message": text})
            return Trouble("raised", type(error).__name__, f"it raised {describe(error)}")
        if call.returns == "raised":
            return self._pack(call, {"returned": type(value).__name__})
        packed = self._pack(call, value)
        if not isinstance(packed, Trouble):
            self._kept[call.id] = value  # nothing is built on a value of another form
        return packed

    def _pack(self, call: Call, value: Any) -> PackedAnswer | Trouble:
        came_of = f"`{call}` is" if call.variable else "it returned"
        try:
            return pack(value, call.returns, call.columns)
        except UnsendableError as error:
            return Trouble("wrong_form", detail=f"{came_of} {error}")
        except Exception as error:  # an answer may be an object whose every method raises
            detail = f"reading what {came_of} raised {describe(error)}"
            return Trouble("unreadable", detail=detail)

    def _argument(self, value: Any) -> Any:
        if isinstance(value, Table):
            return self._table(value)
        if isinstance(value, Tree):
            return self._tree(value)
        if isinstance(value, Result):
            if value.call_id not in self._kept:
                raise _NotKeptError(value.call_id)
            kept = self._kept[value.call_id]
            return kept if value.item is None else kept[value.item]
        return copy.deepcopy(value)

    def _table(self, table: Table) -> pd.DataFrame:
        if table.path not in self._read:
            content = io.BytesIO(self._shelf.read(table.path))
            self._read[table.path] = pd.read_csv(content, dtype={"run_id": str})
        whole: pd.DataFrame = self._read[table.path]
        if table.rows is None:
            return whole.copy(deep=True)
        return whole.iloc[list(table.rows)].reset_index(drop=True)

    def _tree(self, tree: Tree) -> Any:
        if tree.path not in self._read:
            self._read[tree.path] = json.loads(self._shelf.read(tree.path))
        node = self._read[tree.path]
        for step in tree.pick:
            node = node[step]
        return with_arrays(node)


def question_files(call: Call) -> list[str]:
    """Return the paths, `data/...` or `questions/...`, of the files that a call names."""
    return [value.path for value in call.args.values() if isinstance(value, Table | Tree)]


class _NotKeptError(Exception):
    """An earlier call that this one builds on has no result."""


def with_arrays(node: Any) -> Any:
    """Return a copy of a JSON tree in which every list of numbers, however deep, is an array."""
    if isinstance(node, dict):
        return {key: with_arrays(value) for key, value in node.items()}
    if isinstance(node, list):
        first: Any = node
        while isinstance(first, list) and first:
            first = first[0]
        if isinstance(first, int | float):
            return np.array(node, dtype=np.float64)
        return [with_arrays(value) for value in node]
    return node


def describe(error: BaseException) -> str:
    """Return an exception's type and message in one short line, free of memory addresses."""
    start = message_of(error)[: 4 * MAX_ERROR]  # it may be a gigabyte long
    line = " ".join(re.sub(r"0x[0-9a-fA-F]{4,}", "0x...", start).split())
    if len(line) > MAX_ERROR:
        line = line[: MAX_ERROR - 3] + "..."
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def message_of(error: BaseException) -> str:
    """Return an exception's message; a student's exception may fail to print itself."""
    try:
        return str(error)
    except Exception:
        return ""


def kinds(error: BaseException) -> list[str]:
    """Return the names of an exception's class and of the classes it derives from."""
    return [kind.__name__ for kind in type(error).__mro__ if kind is not object]
