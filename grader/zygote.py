"""The warm process: imports a notebook's libraries once, and forks a room's process when asked.

Started by `grader.warm`, which sends one message a room: settings and the five ends of pipes that
the room needs. This process runs no notebook's code and starts no thread, so every room begins
from the same clean state; it never learns where a split lies.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

from grader import boundary, child, linux
from grader.libraries import import_libraries
from grader.limits import Limits

MAX_SETTINGS = 65_536
FAULT = 70  # EX_SOFTWARE of <sysexits.h>: this side's own failure


def main() -> None:
    """Serve until the grader closes its end."""
    control = socket.socket(fileno=int(sys.argv.pop(1)))
    import_libraries()
    gc.collect()
    gc.freeze()  # a collection in a room leaves these objects, and their pages, alone
    control.send(b"ready")
    while True:
        select.select([control], [], [], 1.0)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        try:
            message, ends, _flags, _address = socket.recv_fds(
                control, MAX_SETTINGS, len(Ends.__annotations__), socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            continue
        if not message:
            break
        if os.fork() == 0:
            control.close()
            _keep(json.loads(message), Ends(*ends))
        for end in ends:
            os.close(end)
    with contextlib.suppress(ChildProcessError):
        while True:  # the grader has let go of every room, so their keepers are ending
            os.wait()


@dataclass(frozen=True)
class Ends:
    """This side's ends of a room's pipes, as file descriptors."""

    requests: int
    replies: int
    output: int
    status: int  # a socket: the keeper tells the room's process, its clock, and how it ended
    leash: int  # closed by the grader, or by its end: the room must end


def _keep(settings: dict[str, Any], ends: Ends) -> NoReturn:
    """Be the keeper of one room: start it, end it when the grader lets go, tell how it ended."""
    try:
        os.setsid()
        limits = Limits(**settings["limits"])
        view = boundary.View(**settings["view"])
        clock = linux.task_clock()
        boundary.leave(view)
        first = os.fork()
        if first == 0:
            os.close(ends.leash)
            if clock is not None:
                os.close(clock)
            _be_first(settings, limits, view, ends)
        for end in (ends.requests, ends.replies, ends.output):
            os.close(end)
        _introduce(ends.status, first, clock)
        _hold(first, ends.leash)
    except BaseException as error:
        _tell(ends.status, {"fault": f"{type(error).__name__}: {error}"})
        os._exit(FAULT)
    os._exit(0)


def _introduce(status: int, first: int, clock: int | None) -> None:
    """Tell the grader the first process of the room, and give it the room's clock."""
    message = json.dumps({"first": first}).encode() + b"\n"
    with socket.socket(fileno=os.dup(status)) as talk:
        socket.send_fds(talk, [message], [] if clock is None else [clock])


def _hold(first: int, leash: int) -> None:
    gone = os.pidfd_open(first)
    ready, _, _ = select.select([leash, gone], [], [])
    if gone not in ready:
        os.kill(first, signal.SIGKILL)  # and with the first process of a room, all of them
    os.waitpid(first, 0)


def _be_first(
    settings: dict[str, Any], limits: Limits, view: boundary.View, ends: Ends
) -> NoReturn:
    """Be the first process of the room: lay it out, start the notebook's, gather what ends."""
    try:
        linux.die_with_parent(signal.SIGKILL)
        # The kernel drops a signal to the first process that it has no handler for.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        boundary.lay_out(view, limits)
        linux.die_with_parent(signal.SIGKILL)  # again: a change of user took the wish back
        linux.set_dumpable(False)  # the notebook's process is the same user's; it may not look in
        student = os.fork()
        if student == 0:
            _be_student(settings["run"], limits, ends)
        for end in (ends.requests, ends.replies, ends.output):
            os.close(end)
        while True:
            pid, status = os.wait()
            if pid == student:
                _tell(ends.status, {"ended": os.waitstatus_to_exitcode(status)})
                os._exit(0)
    except BaseException as error:
        _tell(ends.status, {"fault": f"{type(error).__name__}: {error}"})
        os._exit(FAULT)


def _be_student(run: int, limits: Limits, ends: Ends) -> NoReturn:
    code = FAULT
    try:
        linux.die_with_parent(signal.SIGKILL)
        linux.set_dumpable(True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        for place, end in enumerate((ends.requests, ends.replies, ends.output)):
            os.dup2(end, place)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        child.bound_memory(3 * limits.memory_bytes)
        boundary.bound(limits)
        os.environ.update(HOME=str(boundary.HOME), USER="student", LOGNAME="student")
        requests, replies = child.private_pipes()
        child.serve(requests, replies, boundary.COURSE / "data", run)
        code = 0
    except SystemExit as wanted:
        code = wanted.code if isinstance(wanted.code, int) else 1
    except BaseException as error:
        with contextlib.suppress(Exception):
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
    os._exit(code)


def _tell(status: int, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        os.write(status, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
