"""The student's process: runs a notebook's cells with IPython and answers the grader's calls.

Started by `grader.cold` or forked by `grader.zygote`. Requests come in on standard input and
replies leave on standard output; before any cell runs, both are moved to private descriptors, so
that whatever the notebook prints goes to standard error and cannot be mistaken for a reply.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import random
import signal
import sys
import warnings
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from grader.ask import Desk, describe
from grader.calls import call_from_json
from grader.frames import BrokenPipeTalkError, read_frame, write_frame
from grader.libraries import import_those_there
from grader.trouble import Trouble

MAX_REQUEST = 64 * 2**20  # the largest request is one cell's source; a notebook is at most this


def main() -> None:
    """Serve requests in a process of its own, started afresh; the first brings its settings.

    Started "ahead", it imports what notebooks import while it waits for them.
    """
    requests, replies = private_pipes()
    _die_with_the_grader()
    if sys.argv.pop(1) == "ahead":
        import_those_there()
    try:
        settings, _ = read_frame(requests, MAX_REQUEST)
    except BrokenPipeTalkError:  # no notebook came
        return
    bound_memory(settings["address_space_bytes"])
    serve(requests, replies, Path(settings["data"]), settings["run"])


def serve(requests: BinaryIO, replies: BinaryIO, data: Path, run: int) -> None:
    """Serve requests until the grader closes the pipe."""
    asyncio.set_event_loop(asyncio.new_event_loop())
    context = contextvars.copy_context()  # one for all: what a cell sets there, the next one finds
    shell = _start_shell()
    random.seed(run)
    np.random.seed(run)  # noqa: NPY002 - the global state is the one that notebooks forget
    shelf = _Shelf(data)
    desk = Desk(shelf)
    write_frame(replies, {"ready": True})
    while True:
        try:
            request, payload = read_frame(requests, MAX_REQUEST)
        except BrokenPipeTalkError:
            return
        if request["do"] == "cell":
            write_frame(replies, {"error": _run_cell(shell, payload.decode("utf-8"), context)})
        elif request["do"] == "file":
            shelf.brought[request["path"]] = payload
        else:
            call = call_from_json(request["call"])
            answer = context.run(desk.ask, shell.user_ns, call)
            if isinstance(answer, Trouble):
                write_frame(replies, {"trouble": [answer.kind, answer.error, answer.detail]})
            else:
                write_frame(replies, {"form": answer[0]}, answer[1])
        _flush()


class _Shelf:
    """The public data as they lie in the room, and the questions that the grader has brought."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.brought: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        if path in self.brought:
            return self.brought[path]
        return (self._data.parent / path).read_bytes()


def private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Move the grader's pipes away from where a notebook reads and prints."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)  # input() meets the end of the file instead of the grader's requests
    os.dup2(2, 1)  # C code that prints to descriptor 1 is student output too
    os.close(nothing)
    return requests, replies


def _die_with_the_grader() -> None:
    """Ask Linux to end this process when the grader's ends, however that happens."""
    if sys.platform == "linux":
        from grader.linux import die_with_parent

        die_with_parent(signal.SIGKILL)


def bound_memory(address_space_bytes: int) -> None:
    """Bound what this process may ask for; a crash leaves no gigabytes behind."""
    try:
        import resource
    except ImportError:  # Windows: the grader's own watch on resident memory remains
        return
    for limit, value in ((resource.RLIMIT_AS, address_space_bytes), (resource.RLIMIT_CORE, 0)):
        try:
            _, hard = resource.getrlimit(limit)
            kept = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(limit, (kept, hard))
        except (ValueError, OSError):  # macOS refuses an address-space bound
            continue


def _start_shell() -> Any:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Shell(InteractiveShell):
        """IPython's shell with no window system to enter."""

        def enable_gui(self, gui: str | None = None) -> None:
            """Let `%matplotlib` choose any backend, as a Jupyter kernel does."""

        def ask_exit(self) -> None:
            """Let `exit()` end nothing: a kernel that runs a whole notebook goes on as well."""

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    config.InteractiveShell.xmode = "Minimal"
    shell: Any = Shell.instance(config=config)
    # A plot is drawn when the student looks at it; the grader reads no pictures.
    shell.display_formatter.active_types = ["text/plain"]
    shell.extension_manager.load_extension("storemagic")  # as every kernel does
    inline: Any = sys.modules.get("matplotlib_inline.backend_inline")
    if inline is not None:  # imported before there was a shell, whose cells show their figures
        inline._enable_matplotlib_integration()
    if "" not in sys.path:
        sys.path.insert(0, "")  # as in a Jupyter kernel: modules the notebook wrote can be imported
    warnings.resetwarnings()
    warnings.simplefilter("default")
    return shell


def _run_cell(shell: Any, source: str, context: contextvars.Context) -> str | None:
    try:
        loop = asyncio.get_event_loop()
        task = loop.create_task(_execute(shell, source), context=context)
        result = loop.run_until_complete(task)
    except BaseException as escaped:  # run_cell catches what cells raise, unless one replaced it
        return describe(escaped)
    error = result.error_before_exec or result.error_in_exec
    return None if error is None else describe(error)


async def _execute(shell: Any, source: str) -> Any:
    """Run a cell as a kernel does: inside an event loop, whether it awaits anything or not."""
    transformed, fault = source, None
    try:
        transformed = shell.transform_cell(source)
    except Exception:
        fault = sys.exc_info()
    parts = {"transformed_cell": transformed, "preprocessing_exc_tuple": fault}
    if not shell.should_run_async(source, **parts):
        return shell.run_cell(source, store_history=True)
    result = None
    try:
        result = await shell.run_cell_async(source, store_history=True, **parts)
    finally:
        shell.events.trigger("post_execute")
        shell.events.trigger("post_run_cell", result)
    return result


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the notebook may have replaced or closed its streams
            continue
