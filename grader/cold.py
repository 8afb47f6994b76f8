"""A room's process started afresh with the user's own rights, on any operating system."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

import psutil

from grader.frames import write_frame
from grader.host import Body, HostError, Start
from grader.places import lay_out_course
from grader.surroundings import PACKAGES, environment

TOKEN = "KV_CAPACITY_ROOM"  # marks every process of one room in its environment
# The child runs this very copy of the grader, whatever else is installed, and then forgets the
# path, so that a notebook's imports are those of any notebook.
START_CHILD = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from grader.child import main; "
    "del sys.path[0]; main()"
)
WHEN = {False: "now", True: "ahead"}  # whether the child's notebook is there already


class ColdHost:
    """Starts a fresh interpreter for each room."""

    walled = False
    shown: tuple[str, ...] = ()

    def start(self, start: Start) -> Body:
        """Start a process with a temporary folder of its own."""
        body = ColdBody()
        body.begin(start)
        return body


COLD = ColdHost()


class ColdBody:
    """A process in a temporary folder, which waits to be told what it is started with."""

    def __init__(self, *, ahead: bool = False) -> None:
        """Start it; one that is `ahead` of its notebook imports libraries while it waits.

        Raises:
            HostError: it cannot be started.
        """
        self._folder = folder = Path(tempfile.mkdtemp(prefix="kv-capacity-"))
        self.shown_as = as_course(str(folder))
        self._spent_s = 0.0
        work = folder / "notebooks"
        work.mkdir()
        kept = {name: v for name, v in os.environ.items() if not name.startswith("PYTHON")}
        marked = {"IPYTHONDIR": str(folder / "ipython"), TOKEN: folder.name}
        try:
            self._process = subprocess.Popen(
                [*(sys.executable, "-P", "-c", START_CHILD, str(PACKAGES)), WHEN[ahead]],
                cwd=work,
                env={**kept, **environment(), **marked},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=hasattr(os, "setsid"),
            )
        except OSError as error:
            self.clear()
            raise HostError(f"the notebook's process could not be started: {error}") from error
        self.requests = cast(BinaryIO, self._process.stdin)
        self.replies = cast(BinaryIO, self._process.stdout)
        self.output = cast(BinaryIO, self._process.stderr)
        self._watched = psutil.Process(self._process.pid)

    def begin(self, start: Start) -> None:
        """Lay out what the notebook finds, and tell the process what it is started with.

        Raises:
            HostError: the process has ended.
        """
        settings = {
            "data": str(self._folder / "data"),
            "address_space_bytes": 3 * start.limits.memory_bytes,
            "run": start.run,
        }
        try:
            lay_out_course(start.places, self._folder)
            write_frame(self.requests, settings)
        except BaseException as error:
            self.discard()
            if isinstance(error, BrokenPipeError):
                raise HostError("the notebook's process ended before it began") from None
            raise
        self._spent_s = total_cpu_s(self.family())  # what it did ahead is not the notebook's

    def discard(self) -> None:
        """End a process that no room was opened around."""
        self.end()
        for pipe in (self.requests, self.replies, self.output):
            with contextlib.suppress(OSError):
                pipe.close()
        self.clear()

    def family(self) -> list[psutil.Process]:
        """Return the process and all below it."""
        try:
            return [self._watched, *self._watched.children(recursive=True)]
        except psutil.Error:
            return [self._watched]

    def cpu_s(self) -> float:
        """Return the CPU seconds it has used since it was told to begin."""
        return max(0.0, total_cpu_s(self.family()) - self._spent_s)

    def sockets(self) -> int:
        """Return 0: it shares the machine's network, and the user's own rights."""
        return 0

    def ending(self, timeout_s: float) -> int | None:
        """Wait for its end: the exit code, minus a signal's number, None if it lives."""
        try:
            return self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        """End it and all that it started."""
        family = self.family()
        if hasattr(os, "killpg"):  # Windows has neither sessions nor groups
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        for process in [*family, *self._strays()]:
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)

    def clear(self) -> None:
        """Remove its folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _strays(self) -> list[psutil.Process]:
        """Return processes that left the family but not its environment (Linux shows it)."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(TOKEN) == self._folder.name:
                    found.append(process)
        return found


def as_course(folder: str) -> tuple[tuple[str, str], ...]:
    """Return how a report tells a room's own folder: on every system as `/course`.

    An error's message quotes a path, and so doubles the backslashes of Windows.
    """
    quoted = repr(folder)[1:-1]
    return tuple((path, "/course") for path in dict.fromkeys((quoted, folder)))


def total_cpu_s(family: list[psutil.Process]) -> float:
    """Return the CPU seconds of living processes and of the children they have waited for."""
    total = 0.0
    for process in family:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
