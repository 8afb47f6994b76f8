"""What a room needs of the machine: a process to run a notebook in, started one way or another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Protocol

import psutil

from grader.limits import Limits
from grader.places import Places


class HostError(Exception):
    """No process could be started: our fault or the machine's, never the student's."""


class NoBoundaryError(Exception):
    """The machine gives no boundary; the message says what is missing."""


@dataclass(frozen=True)
class Start:
    """What a process is started with.

    `run` counts the runs of one notebook from 0; it seeds the libraries' global random states, so
    that the same notebook gives the same answers, and a second run others if they hang on chance.
    """

    places: Places
    limits: Limits
    run: int = 0


class Body(Protocol):
    """The process of one room, as its room sees it."""

    requests: BinaryIO  # written by the room
    replies: BinaryIO  # read by the room
    output: BinaryIO  # all that the notebook prints
    shown_as: tuple[tuple[str, str], ...]  # paths of this very room, and how a report tells them

    def family(self) -> list[psutil.Process]:
        """Return the processes that run the notebook's code now."""

    def cpu_s(self) -> float:
        """Return the CPU seconds of all processes the room has had."""

    def sockets(self) -> int:
        """Return how many sockets the room has open; 0 where that cannot be told apart."""

    def ending(self, timeout_s: float) -> int | None:
        """Wait for the process's end: its exit code, minus a signal's number, None if it lives."""

    def end(self) -> None:
        """End every process of the room and wait until none is left."""

    def clear(self) -> None:
        """Remove what the room kept on disk."""


class Host(Protocol):
    """A way to start a room's process."""

    walled: bool  # whether the operating system keeps the notebook from the rest of the machine
    shown: tuple[str, ...]  # folders of this machine that a notebook can read, where it is walled

    def start(self, start: Start) -> Body:
        """Start a process.

        Raises:
            HostError: the machine or the grader is at fault.
        """
