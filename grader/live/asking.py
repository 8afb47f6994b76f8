"""A milestone's questions put to a live namespace, one call after the other, in this process."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from grader.ask import Desk, Shelf
from grader.live.untouched import untouched
from grader.trouble import Trouble, problem
from grader.wire import MalformedError, unpack
from milestones.spec import Answer, Call, Problem

UNWRITTEN = ("missing", "unwritten")  # kinds of trouble
CPU_TICK_S = 0.02  # as in a room: what a clock of CPU time may be off by


class StoppedError(Exception):
    """The person at the keyboard stopped the check; the message says where it was."""


@dataclass(frozen=True)
class Asked:
    """The answers by call id, what the functions printed, and how long they were at it.

    `unwritten` are the calls of functions that are not there yet, or are as the course gave them.
    """

    answers: dict[str, Answer]
    unwritten: frozenset[str]
    printed: str
    n_printed: int
    own_s: float


def ask_all(
    calls: Sequence[Call],
    namespace: MutableMapping[str, Any],
    shelf: Shelf,
    read: dict[str, Any] | None = None,
) -> Asked:
    """Put every call to the namespace, which is afterwards as it was before.

    `read` keeps the shelf's files, once read, from one check to the next.

    Raises:
        StoppedError: Ctrl-C, or the stop button of a notebook.
    """
    desk = Desk(shelf, escaping=(KeyboardInterrupt,), read=read)
    answers: dict[str, Answer] = {}
    unwritten: set[str] = set()
    names = dict.fromkeys(call.function for call in calls)
    started = time.perf_counter()
    with _Interrupts() as interrupts, untouched(namespace, names) as printed:
        for number, call in enumerate(calls, start=1):
            try:
                with interrupts.welcome():
                    answers[call.id], kind = _ask(desk, namespace, call)
                if kind in UNWRITTEN:
                    unwritten.add(call.id)
            except KeyboardInterrupt:
                interrupts.seen = True
            if interrupts.seen:
                seconds = time.perf_counter() - started
                raise StoppedError(
                    f"`{call.function}` was being asked (question {number} of {len(calls)}, after "
                    f"{seconds:,.1f} s)"
                )
        own_s = time.perf_counter() - started
        return Asked(answers, frozenset(unwritten), printed.text, printed.n_characters, own_s)


def _ask(desk: Desk, namespace: MutableMapping[str, Any], call: Call) -> tuple[Answer, str]:
    """Return the answer, and the kind of trouble met in its place."""
    before = time.process_time()
    packed = desk.ask(namespace, call)
    used = time.process_time() - before
    in_time = call.cpu_s is None or used <= call.cpu_s + CPU_TICK_S
    if isinstance(packed, Trouble):
        return Answer(call, problem=problem(call, packed), in_time=in_time), packed.kind
    try:
        return Answer(call, unpack(*packed), in_time=in_time), ""
    except MalformedError as error:
        malformed = Problem(f"an answer of `{call.function}` is {error}")
        return Answer(call, problem=malformed, in_time=in_time), ""


class _Interrupts:
    """Lets Ctrl-C end a call where it is `welcome`, and be noted at any other moment.

    A function that swallows the exception does not hide that it was `seen`.
    """

    def __init__(self) -> None:
        self.seen = False
        self._welcome = False
        self._before: Any = None

    def __enter__(self) -> _Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    @contextlib.contextmanager
    def welcome(self) -> Iterator[None]:
        self._welcome = True
        try:
            yield
        finally:
            self._welcome = False

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.seen = True
        if self._welcome:
            raise KeyboardInterrupt
