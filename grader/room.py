"""A room: the separate process a notebook runs in, with bounds on time, memory and output.

The grader's side of the wall. It sends cells and questions in and takes answers out as data; it
measures time and memory from outside, and it is the one that ends the process. The boundary
against hostile code (namespaces, no network) will be put around the same process here.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import psutil

from grader.ask import question_files
from grader.calls import call_to_json
from grader.frames import BrokenPipeTalkError, read_frame, write_frame
from grader.notebook import Cell
from grader.places import Places
from grader.trouble import Trouble, printable, problem
from grader.wire import MAX_BYTES, MalformedError, form_of, unpack
from milestones.spec import Answer, Call, Problem

POLL_S = 0.05
TOKEN = "KV_CAPACITY_ROOM"  # marks every process of one room in its environment
PACKAGES = Path(__file__).resolve().parent.parent
# The child runs this very copy of the grader, whatever else is installed, and then forgets the
# path, so that a notebook's imports are those of any notebook.
START_CHILD = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from grader.child import main; "
    "del sys.path[0]; main()"
)
CPU_TICK_S = 0.02  # process CPU times come in ticks of 10 ms: two of them are measurement error


Reply = tuple[dict[str, Any], bytes]
"""A message from the child: its header and its payload."""


@dataclass(frozen=True)
class Limits:
    """Bounds on one notebook. CPU seconds decide; wall time is a generous second bound."""

    cell_cpu_s: float = 120.0  # the slowest solved cell, a LightGBM fit, takes a few
    call_cpu_s: float = 60.0
    total_cpu_s: float = 600.0  # cells, and calls without a bound of their own; solved ones: 20
    wall_per_cpu: float = 10.0  # a busy machine may give a process a tenth of a core
    total_wall_s: float = 3_600.0  # an hour: whoever sleeps that long learns nothing from it
    memory_bytes: int = 4 * 2**30  # the solved notebooks stay below 0.6 GiB
    output_bytes: int = 200 * 2**20  # an honest print of 100 MB passes


class RoomError(Exception):
    """The grader could not set up a room: our fault or the machine's, never the student's."""


class Room:
    """One process for one run of one notebook. After it has stopped, `stopped` says why."""

    def __init__(
        self, folder: Path, places: Places, limits: Limits, cancelled: threading.Event
    ) -> None:
        """Start the process with its work folder below `folder`; it ends when `cancelled` is."""
        self._cancelled = cancelled
        self._limits = limits
        self._folder = folder
        self._places = places
        self.stopped: str | None = None
        self._output_bytes = 0
        self._opened = time.monotonic()
        self._granted_cpu_s = 0.0  # for calls with a bound of their own, which is judged elsewhere
        work = _furnish(folder, places)
        settings = {
            "data": str(work.parent / "data"),
            "questions": str(work.parent / "questions"),
            "address_space_bytes": 3 * limits.memory_bytes,
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START_CHILD, str(PACKAGES), json.dumps(settings)],
                cwd=work,
                env={**_environment(folder), TOKEN: folder.name},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=os.name == "posix",
            )
        except OSError as error:
            raise RoomError(f"the notebook's process could not be started: {error}") from error
        self._watched = psutil.Process(self._process.pid)
        self._replies: queue.Queue[Reply | None] = queue.Queue()
        self._tail = b""
        self._threads = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._drain, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        if self._wait("while starting", 60.0) is None:
            tail = self._tail.decode("utf-8", "replace").strip()[-500:]
            self.close()
            raise RoomError(f"the notebook's process did not start ({self.stopped}): {tail}")

    # ------------------------------------------------------------ the two requests

    def run_cell(self, cell: Cell) -> str | None:
        """Run one cell; return what it raised, or None. A stop is told by `stopped`."""
        reply = self._request(
            {"do": "cell"},
            cell.source.encode("utf-8", "replace"),
            f"in cell {cell.index}",
            self._limits.cell_cpu_s,
        )
        if reply is None:
            return self.stopped
        error = reply[0].get("error")
        return None if error is None else printable(str(error))

    def ask(self, call: Call) -> Answer:
        """Put one call; whatever the notebook does, an answer comes back: a value or the problem.

        Raises:
            RoomError: a file that the question needs is not there, which is no notebook's fault.
        """
        for path in question_files(call):
            if not self._places.file(path).is_file():
                raise RoomError(f"the question {call.id} needs {path}, which is not there")
        self._bring_questions()
        if self.stopped:
            return Answer(call, problem=Problem(f"the notebook {self.stopped}"))
        before = self._cpu_s()
        bound = max(self._limits.call_cpu_s, 2 * (call.cpu_s or 0.0))
        self._granted_cpu_s += 2 * (call.cpu_s or 0.0)
        request = {"do": "ask", "call": call_to_json(call)}
        where = f"while `{call.function}` was answering"
        reply = self._request(request, b"", where, bound)
        if reply is None:
            return Answer(call, problem=Problem(f"the notebook {self.stopped}"))
        in_time = call.cpu_s is None or self._cpu_s() - before <= call.cpu_s + CPU_TICK_S
        header, payload = reply
        try:
            if "trouble" in header:
                kind, error_name, detail = map(str, header["trouble"])
                found = problem(call, Trouble(kind, error_name, printable(detail)))
                return Answer(call, problem=found, in_time=in_time)
            if header.get("form") != form_of(call.returns):
                raise MalformedError("in another form than was asked for")
            value = unpack(form_of(call.returns), payload)
            if call.returns == "raised" and not _is_ending(value):
                raise MalformedError("not what the grader's side of the notebook sends")
            return Answer(call, value, in_time=in_time)
        except (TypeError, ValueError):
            malformed = Problem(f"an answer of `{call.function}` is no message of the grader's")
            return Answer(call, problem=malformed, in_time=in_time)
        except MalformedError as error:
            # What the bytes are instead is our own sentence, never the student's.
            malformed = Problem(f"an answer of `{call.function}` is {error}")
            return Answer(call, problem=malformed, in_time=in_time)

    def _bring_questions(self) -> None:
        """Lay the questions into the room, once its cells have run: no cell can know them.

        They are a copy, so that the process need not learn where the split lies.
        """
        there = self._folder / "questions"
        if not there.exists():
            shutil.copytree(self._places.questions, there)

    def close(self) -> None:
        """End the process and everything it started."""
        self._end()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        for thread in self._threads:
            thread.join(timeout=5)

    # ------------------------------------------------------------ talk and watch

    def _request(
        self, header: dict[str, Any], payload: bytes, where: str, cpu_s: float
    ) -> Reply | None:
        if self.stopped:
            return None
        if not self._replies.empty():
            return self._stop(f"wrote into the grader's channel {where}")
        try:
            write_frame(cast(BinaryIO, self._process.stdin), header, payload)
        except OSError:
            return self._stop(self._how_it_ended(where))
        return self._wait(where, cpu_s)

    def _wait(self, where: str, cpu_s: float) -> Reply | None:
        started, cpu_before = time.monotonic(), self._cpu_s()
        while True:
            try:
                reply = self._replies.get(timeout=POLL_S)
            except queue.Empty:
                why = self._limit_hit(cpu_s, cpu_before, started)
                if why is not None:
                    return self._stop(f"was stopped {why} {where}")
                continue
            return reply if reply is not None else self._stop(self._how_it_ended(where))

    def _limit_hit(self, cpu_s: float, cpu_before: float, started: float) -> str | None:
        """Return how a bound was passed, or None while all are kept."""
        if self._cancelled.is_set():
            return "when the grader was interrupted,"
        wall_s = cpu_s * self._limits.wall_per_cpu
        cpu_now, total_cpu_s = self._cpu_s(), self._limits.total_cpu_s + self._granted_cpu_s
        if cpu_now - cpu_before > cpu_s:
            return f"after {cpu_s:g} CPU seconds"
        if cpu_now > total_cpu_s:
            return f"after {total_cpu_s:g} CPU seconds in all"
        if time.monotonic() - self._opened > self._limits.total_wall_s:
            return f"after {self._limits.total_wall_s:g} seconds in all"
        if time.monotonic() - started > wall_s:
            return f"after {wall_s:g} seconds of waiting"
        if self._memory_bytes() > self._limits.memory_bytes:
            return f"at {self._limits.memory_bytes / 2**30:g} GiB of memory"
        if self._output_bytes > self._limits.output_bytes:
            return f"after printing {self._limits.output_bytes / 1e6:,.0f} MB"
        return None

    def _stop(self, why: str) -> Reply | None:
        """Note the first reason, end the process, and stand in for the reply that never comes."""
        if self.stopped is None:
            self.stopped = why
        self._end()
        return None

    def _how_it_ended(self, where: str) -> str:
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return f"closed or garbled the grader's channel {where}"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was ended by {signal.Signals(-code).name} {where}"
        return f"ended its process with exit code {code} {where}"

    def _listen(self) -> None:
        pipe = cast(BinaryIO, self._process.stdout)
        try:
            while True:
                self._replies.put(read_frame(pipe, MAX_BYTES))
        except (BrokenPipeTalkError, OSError, ValueError):
            self._replies.put(None)

    def _drain(self) -> None:
        pipe = cast(IO[bytes], self._process.stderr)
        with contextlib.suppress(OSError, ValueError):
            while piece := os.read(pipe.fileno(), 65_536):
                self._output_bytes += len(piece)
                self._tail = (self._tail + piece)[-4_000:]

    def _family(self) -> list[psutil.Process]:
        try:
            return [self._watched, *self._watched.children(recursive=True)]
        except psutil.Error:
            return [self._watched]

    def _cpu_s(self) -> float:
        total = 0.0
        for process in self._family():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
                if process is self._watched:  # children already reaped count for their parent
                    total += times.children_user + times.children_system
        return total

    def _memory_bytes(self) -> int:
        total = 0
        for process in self._family():
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        return total

    def _strays(self) -> list[psutil.Process]:
        """Return processes that left the family but not its environment (Linux shows it)."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(TOKEN) == self._folder.name:
                    found.append(process)
        return found

    def _end(self) -> None:
        family = self._family()
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        for process in [*family, *self._strays()]:
            with contextlib.suppress(psutil.Error):
                process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)


@contextlib.contextmanager
def open_room(
    places: Places, limits: Limits, cancelled: threading.Event | None = None
) -> Iterator[Room]:
    """Open a room in a fresh temporary folder, and leave nothing behind.

    Setting `cancelled` from another thread ends what the room is at.
    """
    folder = Path(tempfile.mkdtemp(prefix="kv-capacity-"))
    try:
        room = Room(folder, places.absolute(), limits, cancelled or threading.Event())
        try:
            yield room
        finally:
            room.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_ending(value: Any) -> bool:
    """Tell whether a value is how a call ended, in the two forms that `ask` sends."""
    match value:
        case {"returned": str()}:
            return True
        case {"raised": [str(), *_] as kinds, "message": str()}:
            return all(isinstance(kind, str) for kind in kinds)
    return False


def _furnish(folder: Path, places: Places) -> Path:
    """Lay out the work folder as a clone is: `notebooks/` to run in, `data/` beside it."""
    work = folder / "notebooks"
    work.mkdir()
    # The public split holds truth, and truth is never an input of a process with student code.
    shutil.copytree(places.data, folder / "data", ignore=shutil.ignore_patterns("public_split"))
    if places.overlay is not None:
        shutil.copytree(places.overlay, folder / "data", dirs_exist_ok=True)
    return work


def _environment(folder: Path) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {
        **kept,
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "IPYTHONDIR": str(folder / "ipython"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "NO_COLOR": "1",
        # One thread each: sums come out the same on any machine, and two fits side by side do
        # not spin against each other (OMP_NUM_THREADS alone does not cure that).
        "OMP_THREAD_LIMIT": "1",
        "OMP_WAIT_POLICY": "passive",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "VECLIB_MAXIMUM_THREADS": "1",
    }
