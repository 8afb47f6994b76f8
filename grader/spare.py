"""Processes that have imported a notebook's libraries before there is a notebook to run.

They stand in for `grader.cold`'s on any operating system: the same process with the same rights,
started a few seconds ahead. Each runs one notebook and ends; another takes its place once nothing
is being graded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from grader.cold import COLD, ColdBody
from grader.host import Body, HostError, Start


class SpareHost:
    """Hands out processes started ahead, and cold ones when there are no more."""

    walled = False
    shown: tuple[str, ...] = ()

    def __init__(self, size: int) -> None:
        """Keep up to `size` processes; the first are started by `refill`."""
        self._size = size
        self._spares: list[ColdBody] = []
        self._changed = threading.Condition()
        self._refilling = self._closed = False
        # Linux ends a child with the thread that started it, so one thread starts them all.
        self._keeper = threading.Thread(target=self._keep, name="spares", daemon=True)
        self._keeper.start()

    def start(self, start: Start) -> Body:
        """Take a process that waits, the first one started first."""
        while (spare := self._take()) is not None:
            try:
                spare.begin(start)
            except HostError:  # something ended it while it waited
                continue
            return spare
        return COLD.start(start)

    def refill(self) -> None:
        """Start what is missing, in the background: while nothing is graded, it costs no time."""
        with self._changed:
            self._refilling = True
            self._changed.notify_all()

    def close(self) -> None:
        """End all that wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._keeper.join()

    def _take(self) -> ColdBody | None:
        with self._changed:
            return self._spares.pop(0) if self._spares else None

    def _keep(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._refilling or self._closed)
                if self._closed:
                    break
                self._refilling = len(self._spares) + 1 < self._size
                full = len(self._spares) >= self._size
            if not full:
                self._add()
        while (spare := self._take()) is not None:
            spare.discard()

    def _add(self) -> None:
        try:
            spare = ColdBody(ahead=True)
        except (HostError, OSError):  # the machine is out of something; a cold start will tell
            return
        with self._changed:
            self._spares.append(spare)


@contextmanager
def open_spares(size: int) -> Iterator[SpareHost]:
    """Open a host of processes started ahead, and leave none of them behind."""
    host = SpareHost(size)
    try:
        yield host
    finally:
        host.close()
