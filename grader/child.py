"""The student's process: runs a notebook's cells with IPython and answers the grader's calls.

Started by `grader.room`. Requests come in on standard input and
replies leave on standard output; before any cell runs, both are moved to private descriptors, so
that whatever the notebook prints goes to standard error and cannot be mistaken for a reply.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any, BinaryIO

from grader.ask import Desk, describe
from grader.calls import call_from_json
from grader.frames import BrokenPipeTalkError, read_frame, write_frame
from grader.places import Places
from grader.trouble import Trouble

MAX_REQUEST = 64 * 2**20  # the largest request is one cell's source; a notebook is at most this


def main() -> None:
    """Serve requests until the grader closes the pipe."""
    requests, replies = _private_pipes()
    settings = json.loads(sys.argv.pop(1))
    _die_with_the_grader()
    _bound_memory(settings["address_space_bytes"])
    shell = _start_shell()
    desk = Desk(Places(Path(settings["data"]), Path(settings["questions"])))
    write_frame(replies, {"ready": True})
    while True:
        try:
            request, payload = read_frame(requests, MAX_REQUEST)
        except BrokenPipeTalkError:
            return
        if request["do"] == "cell":
            write_frame(replies, {"error": _run_cell(shell, payload.decode("utf-8"))})
        else:
            answer = desk.ask(shell.user_ns, call_from_json(request["call"]))
            if isinstance(answer, Trouble):
                write_frame(replies, {"trouble": [answer.kind, answer.error, answer.detail]})
            else:
                write_frame(replies, {"form": answer[0]}, answer[1])
        _flush()


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # input() meets the end of the file instead of the grader's requests
    os.dup2(2, 1)  # C code that prints to descriptor 1 is student output too
    return requests, replies


def _die_with_the_grader() -> None:
    """Ask Linux to end this process when the grader's ends, however that happens."""
    if sys.platform == "linux":
        import ctypes

        set_parent_death_signal = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def _bound_memory(address_space_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: the grader's own watch on resident memory remains
        return
    for limit, value in (
        (resource.RLIMIT_AS, address_space_bytes),
        (resource.RLIMIT_CORE, 0),  # a crash leaves no gigabytes behind
    ):
        try:
            _, hard = resource.getrlimit(limit)
            if hard != resource.RLIM_INFINITY:
                value = min(value, hard)
            resource.setrlimit(limit, (value, hard))
        except (ValueError, OSError):  # macOS refuses an address-space bound
            continue


def _start_shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Shell(InteractiveShell):
        """IPython's shell with no window system to enter."""

        def enable_gui(self, gui: str | None = None) -> None:
            """Let `%matplotlib` choose any backend, as a Jupyter kernel does."""

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.xmode = "Minimal"
    shell = Shell.instance(config=config)
    # A plot is drawn when the student looks at it; the grader reads no pictures.
    formatter: Any = shell.display_formatter
    formatter.active_types = ["text/plain"]
    if "" not in sys.path:
        sys.path.insert(0, "")  # as in a Jupyter kernel: modules the notebook wrote can be imported
    warnings.resetwarnings()
    warnings.simplefilter("default")
    return shell


def _run_cell(shell: Any, source: str) -> str | None:
    try:
        result = shell.run_cell(source, store_history=True)
    except BaseException as escaped:  # run_cell catches what cells raise, unless one replaced it
        return describe(escaped)
    error = result.error_before_exec or result.error_in_exec
    return None if error is None else describe(error)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the notebook may have replaced or closed its streams
            continue
