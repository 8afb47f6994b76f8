"""Rooms forked from a warm process, with an operating-system boundary around each (Linux).

The grader's side: it starts the warm process (`grader.zygote`), hands it the pipes of each room,
and hears from each room's keeper how the room ended.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, cast

import psutil

from grader.boundary import View
from grader.cold import total_cpu_s
from grader.host import Body, HostError, NoBoundaryError, Start
from grader.limits import Limits
from grader.linux import read_clock
from grader.notebook import Cell
from grader.places import Places, lay_out_course
from grader.room import open_room
from grader.surroundings import PACKAGES, environment
from grader.view import libraries

START_ZYGOTE = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from grader.zygote import main; "
    "del sys.path[0]; main()"
)
START_TIMEOUT_S = 120.0  # imports take 3 s on an idle machine
KERNEL_LISTS_CHILDREN = Path("/proc/thread-self/children").exists()
END_TIMEOUT_S = 30.0  # the kernel ends a room at once, unless a disk or driver holds it
# Users that own nothing: Debian policy 9.2.2 keeps 30,000 to 59,999 unused. Each room has one of
# its own, since some of the kernel's bounds (watches, pipes, locked memory) are kept by user.
NOBODIES = range(50_000, 59_000)


class WarmHost:
    """Starts walled rooms by forking a warm process."""

    walled = True

    def __init__(self, scratch: Path, nobodies: Sequence[int]) -> None:
        """Start the warm process; `scratch` is a folder of ours that it may write caches to.

        `nobodies` are the users that root gives its rights up for, one a room in turn; with none
        a room keeps the user.

        Raises:
            HostError: the process did not start.
        """
        self.shown = libraries()
        self._scratch = scratch
        self._nobodies = itertools.cycle(nobodies or (None,))
        self._lock = threading.Lock()
        self._courses: dict[Places, Path] = {}
        self._zygote = _Zygote(scratch)

    def start(self, start: Start) -> Body:
        """Fork a room's process.

        Raises:
            HostError: the warm process has ended, or the machine gives no boundary.
        """
        shown = tuple((path, str(Path(path).resolve())) for path in self.shown)
        view = View(shown, str(self._course(start.places).resolve()), next(self._nobodies))
        settings = {"limits": asdict(start.limits), "view": asdict(view), "run": start.run}
        request = json.dumps(settings).encode()
        with self._lock:
            body = self._zygote.fork(request)
            if body is None:  # something on this machine ended it; its rooms live on
                self._zygote.close()
                self._zygote = _Zygote(self._scratch)
                body = self._zygote.fork(request)
        if body is None:
            raise HostError("the warm process ends as soon as it is started")
        return body

    def close(self) -> None:
        """End the warm process; a room that is still open ends with its leash."""
        self._zygote.close()

    def _course(self, places: Places) -> Path:
        """Return a folder with what rooms on these places show as /course, made once."""
        with self._lock:
            if places not in self._courses:
                folder = Path(tempfile.mkdtemp(prefix="course-", dir=self._scratch))
                lay_out_course(places, folder)
                for path in (folder, *folder.rglob("*")):
                    path.chmod(0o755 if path.is_dir() else 0o644)  # another user reads it there
                self._courses[places] = folder
            return self._courses[places]


class _Zygote:
    """The warm process and the socket it is told of rooms by."""

    def __init__(self, scratch: Path) -> None:
        """Start it and wait until its imports are done.

        Raises:
            HostError: it did not start.
        """
        home = scratch / "home"
        home.mkdir(exist_ok=True)
        self._control, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START_ZYGOTE, str(PACKAGES), str(its.fileno())],
                cwd=home,
                env={**environment(), **_plain_environment(home)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(its.fileno(),),
                start_new_session=True,
            )
        self._control.settimeout(START_TIMEOUT_S)
        try:
            started = self._control.recv(16) == b"ready"
        except OSError:
            started = False
        if not started:
            self._process.kill()
            said = self._process.communicate()[1].decode("utf-8", "replace")
            self.close()
            raise HostError(f"the warm process did not start: {said.strip()[-500:]}")

    def fork(self, request: bytes) -> _WarmBody | None:
        """Return a new room's process; None where the warm process is no more."""
        ours, its = _pipes()
        try:
            socket.send_fds(self._control, [request], its)
        except OSError:
            for end in ours:
                os.close(end)
            return None
        finally:
            for end in its:
                os.close(end)
        body = _WarmBody(*ours)
        if body.kept:
            return body
        body.discard()
        return None

    def close(self) -> None:
        """End it."""
        self._control.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


@contextlib.contextmanager
def open_warm() -> Iterator[WarmHost]:
    """Start a warm process whose rooms are walled, and prove it with a first room.

    Raises:
        NoBoundaryError: this machine gives no boundary; the message says what is missing.
    """
    with tempfile.TemporaryDirectory(prefix="kv-capacity-") as temporary:
        scratch = Path(temporary)
        faults = []
        for nobodies in (NOBODIES, ()) if os.geteuid() == 0 else ((),):
            host = WarmHost(scratch, nobodies)
            try:
                fault = _fault_of(host, scratch)
                if fault is None:
                    yield host
                    return
                faults.append(fault)
            finally:
                host.close()
        raise NoBoundaryError("; ".join(dict.fromkeys(faults)))


# What a first room must be able to do, and must not see.
PROBE = """
import os, subprocess, sys, numpy
open(numpy.__file__).close()
subprocess.run([sys.executable, "-c", "import json"], check=True)
assert not os.path.exists({secret!r}), "the grader's own folder can be seen"
assert len([name for name in os.listdir("/proc") if name.isdigit()]) < 9, "other processes"
"""


def _fault_of(host: WarmHost, scratch: Path) -> str | None:
    """Open a room and look around in it; return what is wrong with it, or None."""
    empty = scratch / "empty"
    empty.mkdir(exist_ok=True)
    try:
        with open_room(Places(empty, empty), Limits(), host=host) as room:
            secret = str(PACKAGES / "grader")
            return room.run_cell(Cell(0, PROBE.format(secret=secret)))
    except HostError as error:
        return str(error)


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    """Return all below a process, by the kernel's lists where it keeps them.

    psutil reads every process of the machine for that. The lists may miss one that was started
    while they were read; the next look finds it.
    """
    if not KERNEL_LISTS_CHILDREN:
        return process.children(recursive=True)
    found = []
    with contextlib.suppress(OSError, psutil.Error):
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            for pid in (task / "children").read_text(encoding="utf-8").split():
                with contextlib.suppress(psutil.Error):
                    child = psutil.Process(int(pid))
                    found += [child, *_descendants(child)]
    return found


def _plain_environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "IPYTHONDIR": "/tmp/ipython",
        "LANG": "C.UTF-8",
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        # `%pip install` ends at once, since there is no network to look in
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _pipes() -> tuple[list[int], list[int]]:
    """Make the pipes of a room; return our ends and its ends, in the order of `zygote.Ends`."""
    ours, its = [], []
    for to_room in (True, False, False, None, True):
        if to_room is None:  # the status: a socket, since it hands over the room's clock
            one, other = socket.socketpair()
            ours.append(one.detach())
            its.append(other.detach())
            continue
        reading, writing = os.pipe()
        ours.append(writing if to_room else reading)
        its.append(reading if to_room else writing)
    return ours, its


class _WarmBody:
    def __init__(self, requests: int, replies: int, output: int, status: int, leash: int) -> None:
        self.requests = cast(BinaryIO, os.fdopen(requests, "wb"))
        self.replies = cast(BinaryIO, os.fdopen(replies, "rb"))
        self.output = cast(BinaryIO, os.fdopen(output, "rb"))
        self.shown_as: tuple[tuple[str, str], ...] = ()  # every room is /course
        self._status = socket.socket(fileno=status)
        self._clock: int | None = None
        self._leash: int | None = leash
        self._unread = b""
        self._said: dict[str, Any] = {}
        self._cpu_s = 0.0
        self._hear("first", START_TIMEOUT_S)
        self._first: psutil.Process | None = None
        with contextlib.suppress(psutil.NoSuchProcess, KeyError):
            self._first = psutil.Process(int(self._said["first"]))

    @property
    def kept(self) -> bool:
        """Whether a keeper has spoken for this room, if only of a fault."""
        return bool(self._said)

    def discard(self) -> None:
        """Let go of a room that no process was forked for."""
        for pipe in (self.requests, self.replies, self.output):
            pipe.close()
        self.clear()

    def family(self) -> list[psutil.Process]:
        return [] if self._first is None else _descendants(self._first)

    def cpu_s(self) -> float:
        if self._clock is not None:
            self._cpu_s = read_clock(self._clock)
        elif self._first is not None:
            now = total_cpu_s([self._first, *self.family()])
            self._cpu_s = max(self._cpu_s, now)  # what a room has used does not shrink as it ends
        return self._cpu_s

    def sockets(self) -> int:
        if self._first is None:
            return 0
        try:
            told = Path(f"/proc/{self._first.pid}/net/sockstat").read_text(encoding="utf-8")
        except OSError:  # it has ended
            return 0
        return int(told.split()[2])  # "sockets: used 7", of this network namespace

    def ending(self, timeout_s: float) -> int | None:
        self._hear("ended", timeout_s)
        if "fault" in self._said:
            raise HostError(f"no room could be made: {self._said['fault']}")
        code = self._said.get("ended")
        return None if code is None else int(code)

    def end(self) -> None:
        if self._leash is not None:
            os.close(self._leash)
            self._leash = None
            self._hear("nothing more", END_TIMEOUT_S)
            with contextlib.suppress(psutil.Error):  # its keeper has done so, if that still lived
                if self._first is not None:
                    self._first.kill()

    def clear(self) -> None:
        self.end()
        self._status.close()
        if self._clock is not None:
            os.close(self._clock)
            self._clock = None

    def _hear(self, about: str, timeout_s: float) -> None:
        """Hear the keeper until it has spoken of something, of a fault, or has ended."""
        deadline = time.monotonic() + timeout_s
        while about not in self._said and "fault" not in self._said:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._status], [], [], left)[0]:
                return
            try:
                piece, handed, _flags, _address = socket.recv_fds(self._status, 65_536, 1)
            except OSError:
                return
            if handed:
                self._clock = handed[0]
            if not piece:
                return
            *lines, self._unread = (self._unread + piece).split(b"\n")
            for line in lines:
                self._said.update(json.loads(line))
