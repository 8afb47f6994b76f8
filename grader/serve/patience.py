"""HTTP as uvicorn speaks it, with an end to a client that never finishes its request's head."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 10.0  # for the head of a request to arrive; its body has a bound of its own


class PatientProtocol(H11Protocol):
    """Closes a connection that is open, asks nothing and is not between two requests."""

    _impatience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give a new connection its time."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Give the next head its time, from its first byte on."""
        super().data_received(data)
        if self._answering():
            self._stop_waiting()
        elif self._impatience is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _answering(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait(self) -> None:
        self._impatience = self.loop.call_later(HEAD_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None

    def _give_up(self) -> None:
        self._impatience = None
        if not self._answering() and not self.transport.is_closing():
            self.transport.close()
