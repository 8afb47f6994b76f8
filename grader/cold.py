"""A room's process started afresh with the user's own rights, on any operating system."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, cast

import psutil

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


class ColdHost:
    """Starts a fresh interpreter for each room."""

    walled = False
    shown: tuple[str, ...] = ()

    def start(self, start: Start) -> Body:
        """Start a process with a temporary folder of its own."""
        folder = Path(tempfile.mkdtemp(prefix="kv-capacity-"))
        try:
            return _ColdBody(folder, start)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


COLD = ColdHost()


class _ColdBody:
    def __init__(self, folder: Path, start: Start) -> None:
        self._folder = folder
        self.shown_as: tuple[tuple[str, str], ...] = ((str(folder), "/course"),)
        lay_out_course(start.places, folder)
        work = folder / "notebooks"
        work.mkdir()
        settings = {
            "data": str(folder / "data"),
            "address_space_bytes": 3 * start.limits.memory_bytes,
            "run": start.run,
        }
        kept = {name: v for name, v in os.environ.items() if not name.startswith("PYTHON")}
        marked = {"IPYTHONDIR": str(folder / "ipython"), TOKEN: folder.name}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START_CHILD, str(PACKAGES), json.dumps(settings)],
                cwd=work,
                env={**kept, **environment(), **marked},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=os.name == "posix",
            )
        except OSError as error:
            raise HostError(f"the notebook's process could not be started: {error}") from error
        self.requests = cast(BinaryIO, self._process.stdin)
        self.replies = cast(BinaryIO, self._process.stdout)
        self.output = cast(BinaryIO, self._process.stderr)
        self._watched = psutil.Process(self._process.pid)

    def family(self) -> list[psutil.Process]:
        try:
            return [self._watched, *self._watched.children(recursive=True)]
        except psutil.Error:
            return [self._watched]

    def cpu_s(self) -> float:
        return total_cpu_s(self.family())

    def sockets(self) -> int:
        return 0  # it shares the machine's network, and the user's own rights

    def ending(self, timeout_s: float) -> int | None:
        try:
            return self._process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> None:
        family = self.family()
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        for process in [*family, *self._strays()]:
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _strays(self) -> list[psutil.Process]:
        """Return processes that left the family but not its environment (Linux shows it)."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(TOKEN) == self._folder.name:
                    found.append(process)
        return found


def total_cpu_s(family: list[psutil.Process]) -> float:
    """Return the CPU seconds of living processes and of the children they have waited for."""
    total = 0.0
    for process in family:
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
