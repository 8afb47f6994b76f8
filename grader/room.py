"""A room: the separate process a notebook runs in, with bounds on time, memory and output.

The grader's side of the wall. It sends cells and questions in and takes answers out as data; it
measures time and memory from outside, and it is the one that ends the process. Whether the
operating system keeps the process from the rest of the machine is the host's affair.
"""

from __future__ import annotations

import contextlib
import math
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import psutil

from grader.ask import question_files
from grader.calls import call_to_json
from grader.cold import COLD
from grader.frames import BrokenPipeTalkError, read_frame, write_frame
from grader.host import Body, Host, HostError, Start
from grader.limits import Limits
from grader.memory import memory_bytes
from grader.notebook import Cell
from grader.places import Places
from grader.report import Stop
from grader.trouble import Trouble, printable, problem
from grader.wire import MAX_BYTES, MalformedError, form_of, unpack
from milestones.spec import Answer, Call, Problem

POLL_S = 0.05
LOOK_S = 1.0  # between two looks at the bounds while replies come fast
MAX_UNREAD = 4  # a reply comes after its request; more than a few at once are a flood
MAX_TOLD = 500  # characters of a text from the room that a report keeps
CPU_TICK_S = 0.02  # process CPU times come in ticks of 10 ms: two of them are measurement error


Reply = tuple[dict[str, Any], bytes]
"""A message from the child: its header and its payload."""


class Room:
    """One process for one run of one notebook. After it has stopped, `stop` says why."""

    def __init__(self, body: Body, start: Start, cancelled: threading.Event) -> None:
        """Take over a process that was just started; it ends when `cancelled` is set."""
        self._body = body
        self._cancelled = cancelled
        # Starting is ours: what little may be left in all is for the notebook's own code.
        self._limits = replace(start.limits, total_cpu_s=math.inf, total_wall_s=math.inf)
        self._places = start.places
        self.stop: Stop | None = None
        self._output_bytes = 0
        self._opened = self._looked = time.monotonic()
        self._active = _Activity(self._opened, 0.0)
        self._cpu_s = 0.0  # used, at the last look
        self._granted_cpu_s = 0.0  # for calls with a bound of their own, which is judged elsewhere
        self._brought: set[str] = set()
        self._replies: queue.Queue[Reply | None] = queue.Queue()
        self._to_send: queue.Queue[tuple[dict[str, Any], bytes] | None] = queue.Queue()
        self._tail = b""
        self._threads = [
            threading.Thread(target=run, daemon=True)
            for run in (self._listen, self._drain, self._send)
        ]
        for thread in self._threads:
            thread.start()
        if self._wait("while starting", 60.0) is None:
            tail = self._tail.decode("utf-8", "replace").strip()[-500:]
            self.close()
            raise HostError(
                f"the notebook's process did not start ({self._no_answer().summary}): {tail}"
            )
        self._limits = start.limits

    # ------------------------------------------------------------ the two requests

    def run_cell(self, cell: Cell) -> str | None:
        """Run one cell; return what it raised, or None. A stop is told by `stop`."""
        source, where = cell.source.encode("utf-8", "replace"), f"in cell {cell.index}"
        reply = self._request({"do": "cell"}, source, where, self._limits.cell_cpu_s)
        # Alone of what is bounded, sockets are many before a look comes: the next cell is not told.
        if reply is not None and self._body.sockets() > self._limits.sockets:
            self._stop(f"was stopped at {self._limits.sockets} sockets {where}", by_bound=True)
        if self.stop is not None:
            return f"{self.stop.why} {self.stop.detail}".strip()
        if reply is None:
            return ""
        match reply[0].get("error"):
            case None:
                return None
            case str(error):
                return self._told(error)
        self._stop(f"garbled the grader's channel in cell {cell.index}")
        return self.stop.why if self.stop else ""

    def ask(self, call: Call) -> Answer:
        """Put one call; whatever the notebook does, an answer comes back: a value or the problem.

        Raises:
            HostError: a file that the question needs is not there, which is no notebook's fault.
        """
        self._bring(question_files(call))
        if self.stop:
            return Answer(call, problem=self._no_answer())
        before = 0.0 if call.cpu_s is None else self._body.cpu_s()
        bound = max(self._limits.call_cpu_s, 2 * (call.cpu_s or 0.0))
        self._granted_cpu_s += 2 * (call.cpu_s or 0.0)
        request = {"do": "ask", "call": call_to_json(call)}
        where = f"while `{call.function}` was answering"
        reply = self._request(request, b"", where, bound)
        if reply is None:
            return Answer(call, problem=self._no_answer())
        in_time = call.cpu_s is None or self._body.cpu_s() - before <= call.cpu_s + CPU_TICK_S
        try:
            return self._read(call, reply, in_time)
        except MalformedError as error:
            # What the bytes are instead is our own sentence, never the student's.
            malformed = Problem(f"an answer of `{call.function}` is {error}")
            return Answer(call, problem=malformed, in_time=in_time)

    def _read(self, call: Call, reply: Reply, in_time: bool) -> Answer:
        """Read a reply, which any code in the room may have written.

        Raises:
            MalformedError: the grader's side of the notebook sends no such reply.
        """
        header, payload = reply
        if "trouble" in header:
            match header["trouble"]:
                case [str(kind), str(name), str(detail)]:
                    found = problem(call, Trouble(kind, name, self._told(detail)))
                    return Answer(call, problem=found, in_time=in_time)
            raise MalformedError("no message of the grader's")
        if header.get("form") != form_of(call.returns):
            raise MalformedError("in another form than was asked for")
        value = unpack(form_of(call.returns), payload)
        if call.returns == "raised" and not _is_ending(value):
            raise MalformedError("not what the grader's side of the notebook sends")
        return Answer(call, value, in_time=in_time)

    def _bring(self, paths: list[str]) -> None:
        """Send the questions that a call names, once the cells have run: no cell can know them.

        Public data lie in the room already.
        """
        for path in paths:
            if path in self._brought:
                continue
            try:
                content = self._places.read(path)
            except OSError as error:
                raise HostError(f"a question needs {path}, which cannot be read: {error}") from None
            self._brought.add(path)
            if path.startswith("questions/"):
                self._to_send.put(({"do": "file", "path": path}, content))

    def look(self, where: str) -> None:
        """Look at the bounds while nothing is asked: what a cell has started may still run."""
        why = self._limit_hit(math.inf, self._cpu_s, time.monotonic())
        if self.stop is None and why is not None:
            self._stop(f"was stopped {why} {where}", by_bound=True)

    def hold_to(self, limits: Limits) -> None:
        """Hold what follows to other bounds: a service's calls are shorter than its cells."""
        self._limits = limits

    @property
    def left(self) -> Limits | None:
        """The bounds of a room that goes on for this stopped one; None where nothing is left."""
        limits = self._limits
        cpu_s = limits.spent_cpu_s + max(0.0, self._cpu_s - self._granted_cpu_s)
        wall_s = limits.spent_wall_s + time.monotonic() - self._opened
        over = cpu_s >= limits.total_cpu_s or wall_s >= limits.total_wall_s
        if over or self._cancelled.is_set():
            return None
        return replace(limits, spent_cpu_s=cpu_s, spent_wall_s=wall_s)

    @property
    def waits(self) -> bool:
        """Whether the process is there and has said nothing unasked: it may end between calls."""
        return self.stop is None and self._replies.empty()

    def close(self) -> None:
        """End the process and everything it started."""
        self._body.end()
        self._to_send.put(None)
        for thread in self._threads:
            thread.join(timeout=5)
        for pipe in (self._body.requests, self._body.replies, self._body.output):
            with contextlib.suppress(OSError):
                pipe.close()

    # ------------------------------------------------------------ talk and watch

    def _request(
        self, header: dict[str, Any], payload: bytes, where: str, cpu_s: float
    ) -> Reply | None:
        if self.stop:
            return None
        if not self._replies.empty():
            return self._stop(f"wrote into the grader's channel {where}")
        self._to_send.put((header, payload))
        return self._wait(where, cpu_s)

    def _wait(self, where: str, cpu_s: float) -> Reply | None:
        started, cpu_before = time.monotonic(), None
        if started - self._looked > LOOK_S:  # many short replies add up without a wait for one
            why = self._limit_hit(cpu_s, self._body.cpu_s(), started)
            if why is not None:
                return self._stop(f"was stopped {why} {where}", by_bound=True)
        while True:
            try:
                reply = self._replies.get(timeout=POLL_S)
            except queue.Empty:
                if cpu_before is None:  # most replies come before the first look at the clock
                    cpu_before = self._body.cpu_s()
                why = self._limit_hit(cpu_s, cpu_before, started)
                if why is not None:
                    return self._stop(f"was stopped {why} {where}", by_bound=True)
                continue
            return reply if reply is not None else self._stop_as_ended(where)

    def _limit_hit(self, cpu_s: float, cpu_before: float, started: float) -> str | None:
        """Return how a bound was passed, or None while all are kept."""
        self._looked = time.monotonic()
        if self._cancelled.is_set():
            return "when the grader was interrupted,"
        limits = self._limits
        wall_s = cpu_s * limits.wall_per_cpu
        cpu_now, total_cpu_s = self._body.cpu_s(), limits.total_cpu_s + self._granted_cpu_s
        self._cpu_s = cpu_now
        if cpu_now - cpu_before > cpu_s:
            return f"after {cpu_s:g} CPU seconds"
        if limits.spent_cpu_s + cpu_now > total_cpu_s:
            return f"after {total_cpu_s:g} CPU seconds in all"
        if limits.spent_wall_s + time.monotonic() - self._opened > limits.total_wall_s:
            return f"after {limits.total_wall_s:g} seconds in all"
        if time.monotonic() - started > wall_s:
            return f"after {wall_s:g} seconds of waiting"
        family = self._body.family()
        self._active = self._active.seen(time.monotonic(), cpu_now, family)
        if time.monotonic() - max(self._active.at, started) > limits.idle_s:
            return f"after {limits.idle_s:g} seconds of doing nothing"
        if len(family) > limits.processes:
            return f"at {limits.processes} processes"
        if self._body.sockets() > limits.sockets:
            return f"at {limits.sockets} sockets"
        if memory_bytes(family, limits.memory_bytes) > limits.memory_bytes:
            return f"at {limits.memory_bytes / 2**30:g} GiB of memory"
        if self._output_bytes > limits.output_bytes:
            return f"after printing {limits.output_bytes / 1e6:,.0f} MB"
        return None

    def _no_answer(self) -> Problem:
        """Return the problem of a call to a notebook that has stopped.

        How a process ended (a code, a signal) can be chosen by what it was asked: a detail.
        """
        stop = self.stop or Stop("", by_bound=False)
        why = f"the notebook {stop.why}"
        return Problem(why, f"It ended {stop.detail}" if stop.detail else "")

    def _stop(self, why: str, detail: str = "", *, by_bound: bool = False) -> Reply | None:
        """Note the first reason, end the process, and stand in for the reply that never comes."""
        if self.stop is None:
            self.stop = Stop(why, by_bound, detail)
        self._body.end()
        return None

    def _stop_as_ended(self, where: str) -> Reply | None:
        """Note that the process has ended by itself, or that it no longer speaks."""
        code = self._body.ending(timeout_s=5)
        if code is None:
            return self._stop(f"closed or garbled the grader's channel {where}")
        detail = f"with exit code {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                detail = f"by {signal.Signals(-code).name}"
        return self._stop(f"ended its process {where}", detail)

    def _told(self, text: str) -> str:
        """Return a text from the room as a report tells it, the same from any room."""
        whole = printable(text[:MAX_TOLD])
        for path, name in self._body.shown_as:
            whole = whole.replace(path, name)
        return whole

    def _listen(self) -> None:
        try:
            while self._replies.qsize() < MAX_UNREAD:
                self._replies.put(read_frame(self._body.replies, MAX_BYTES))
            self._replies.put(None)
        except (BrokenPipeTalkError, OSError, ValueError):
            self._replies.put(None)

    def _send(self) -> None:
        # A thread of its own: a notebook that stops reading must not stop the grader's watch.
        with contextlib.suppress(OSError, ValueError):
            while (message := self._to_send.get()) is not None:
                write_frame(self._body.requests, *message)

    def _drain(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while piece := os.read(self._body.output.fileno(), 65_536):
                self._output_bytes += len(piece)
                self._tail = (self._tail + piece)[-4_000:]


@dataclass(frozen=True)
class _Activity:
    """When a room last asked for a processor, and the CPU seconds it had used by then."""

    at: float
    cpu_s: float

    def seen(self, now: float, cpu_s: float, family: list[psutil.Process]) -> _Activity:
        """Return the later activity: time used, or a process that waits for a core.

        A process that a busy machine gives no time to is not asleep.
        """
        if cpu_s - self.cpu_s > CPU_TICK_S or any(map(_wants_to_run, family)):
            return _Activity(now, cpu_s)
        return self


def _wants_to_run(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_RUNNING)
    except psutil.Error:
        return False


@contextlib.contextmanager
def open_room(
    places: Places,
    limits: Limits,
    cancelled: threading.Event | None = None,
    host: Host = COLD,
    run: int = 0,
) -> Iterator[Room]:
    """Open a room, and leave nothing behind.

    Setting `cancelled` from another thread ends what the room is at.

    Raises:
        HostError: the room could not be set up.
    """
    start = Start(places.absolute(), limits, run)
    body = host.start(start)
    try:
        room = Room(body, start, cancelled or threading.Event())
        try:
            yield room
        finally:
            room.close()
    finally:
        body.clear()


def _is_ending(value: Any) -> bool:
    """Tell whether a value is how a call ended, in the two forms that `ask` sends."""
    match value:
        case {"returned": str()}:
            return True
        case {"raised": [str(), *_] as kinds, "message": str()}:
            return all(isinstance(kind, str) for kind in kinds)
    return False
