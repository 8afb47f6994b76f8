"""A bounded line in front of one planner: calls wait their turn, and few of them wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")

MOST_WAITING = 32  # at 20 ms a plan, the last one waits less than a second
PATIENCE_S = 20.0  # longer than a fresh start of the notebook takes


class BusyError(Exception):
    """The line is full, or a turn did not come; its message is a sentence for the caller."""


class Turns:
    """Runs one piece of work after the other in a thread of its own."""

    def __init__(self, most: int = MOST_WAITING, patience_s: float = PATIENCE_S) -> None:
        """`most` pieces of work may wait or run at once, each at most `patience_s` seconds."""
        self._most, self._patience_s = most, patience_s
        self._taken = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="planner")

    async def take(self, work: Callable[[], Result]) -> Result:
        """Wait for a turn, do the work in it, and return its result.

        Raises:
            BusyError: too many wait already, or the turn does not come in time.
        """
        if self._taken >= self._most:
            raise BusyError(f"{self._taken} calls wait for the planner already; try again soon")
        self._taken += 1
        turn = self._thread.submit(work)
        turn.add_done_callback(self._leave_from(asyncio.get_running_loop()))
        try:
            async with asyncio.timeout(self._patience_s):
                return await asyncio.wrap_future(turn)
        except TimeoutError:
            raise BusyError(
                f"the planner was busy for {self._patience_s:g} seconds; try again soon"
            ) from None

    def soon(self, work: Callable[[], None]) -> None:
        """Do what nobody waits for, as soon as the line allows."""
        with suppress(RuntimeError):  # the server is closing: there is no later
            self._thread.submit(work)

    def close(self) -> None:
        """Drop what still waits, and wait for what runs."""
        self._thread.shutdown(cancel_futures=True)

    def _leave_from(self, loop: asyncio.AbstractEventLoop) -> Callable[[object], None]:
        # Work that nobody waits for any more still holds its place until it is done.
        def leave(_turn: object) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody is left to wait
                loop.call_soon_threadsafe(self._left)

        return leave

    def _left(self) -> None:
        self._taken -= 1
