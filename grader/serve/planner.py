"""The `plan` of one notebook, in a process of its own that is started again after each mishap."""

from __future__ import annotations

import math
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grader.errors import BadInputError
from grader.host import HostError
from grader.limits import Limits
from grader.notebook import Cell, read_notebook
from grader.places import Places
from grader.report import CellError, Stop
from grader.room import Room, open_room
from grader.serve.blame import VARIABLE, Blame, blame, watching
from grader.wire import as_sent
from milestones.m7_planner.calls import CPU_S
from milestones.m7_planner.plans import Unreadable, read_plan
from milestones.spec import Answer, Call, Problem

BAR_S = CPU_S  # what a plan may take, here as when it is graded
# A service runs for days and prints as it likes; only what it reads at start is bounded as ever.
CELLS = Limits(total_cpu_s=math.inf, total_wall_s=math.inf, output_bytes=2**62)
# CPU seconds decide, so that a busy machine does no harm; asleep, a call has used its time as well.
CALLS = replace(CELLS, call_cpu_s=BAR_S, idle_s=BAR_S, wall_per_cpu=5.0)
RETRY_S = 10.0  # between two tries to start a notebook that did not start

LATE = 504
WRONG = 502
DOWN = 503


@dataclass(frozen=True)
class Planned:
    """A plan that can be read, as the student's code gave it, or a None with its reason."""

    value: dict[str, Any]

    @property
    def refused(self) -> bool:
        """Whether the planner says that nothing holds."""
        return self.value["gpu"] is None


@dataclass(frozen=True)
class Failed:
    """No plan: an HTTP status, a sentence for its reader, and the student's exception if any."""

    status: int
    detail: str
    blame: Blame | None = None


Outcome = Planned | Failed


class Planner:
    """The planner of one notebook. One thread at a time may ask it."""

    def __init__(self, notebook: Path, data: Path, calls: Limits = CALLS) -> None:
        """Read the notebook and run its cells; `errors` tells which of them raised.

        Raises:
            BadInputError: the notebook cannot be read, or ends its own process.
            HostError: no process could be started.
        """
        self._notebook = notebook
        self._saved_at = _saved_at(notebook)
        self._cells: tuple[Cell, ...] = read_notebook(notebook).cells
        # Nothing is graded here: the only questions there are come in by HTTP.
        self._places, self._calls = Places(data, data), calls
        self._cancelled = threading.Event()
        self._stack = ExitStack()
        self._room: Room | None = None
        self._tried_at = -math.inf
        self.errors: list[CellError] = []
        self.why_down = ""  # why the notebook does not run and will not at once; else empty
        self._open()
        if self.why_down:
            raise BadInputError(f"{notebook}: cannot be served: the notebook {self.why_down}")

    @property
    def ready(self) -> bool:
        """Whether the next call finds a process that waits for it."""
        return self._room is not None and self._room.waits

    def plan(self, workload: dict[str, Any]) -> Outcome:
        """Put one workload to the notebook's `plan`, whatever comes of it."""
        room = self._live()
        call = Call("serve", "plan", {"workload": workload})
        answer = None if room is None else room.ask(call)
        if self._cancelled.is_set():
            return Failed(DOWN, "Not now: the server is stopping.")
        if room is None or answer is None:
            return Failed(DOWN, f"Not now: the notebook {self.why_down}.")
        return self._outcome(room, answer)

    def restart(self) -> None:
        """Start the notebook again where it had to be stopped, before the next call comes."""
        self._live()

    def interrupt(self) -> None:
        """End what runs, a call or a start, and let nothing begin any more; from any thread."""
        self._cancelled.set()

    def close(self) -> None:
        """End the notebook's process."""
        self.interrupt()
        self._stack.close()

    def _live(self) -> Room | None:
        """Return the notebook's process: a new one where it was stopped, or saved anew."""
        if self._cancelled.is_set():
            return None
        if not self._saved_again():
            if self.ready:
                return self._room
            if self.why_down and time.monotonic() - self._tried_at < RETRY_S:
                return None
        self._stack.close()
        try:
            self._open()
        except HostError as error:
            self.why_down = f"could not be started ({error})"
        return self._room

    def _saved_again(self) -> bool:
        """Read the notebook where it has changed; one that cannot be read changes nothing."""
        saved_at = _saved_at(self._notebook)
        if saved_at in (0, self._saved_at):
            return False
        self._saved_at = saved_at
        try:
            self._cells = read_notebook(self._notebook).cells
        except BadInputError:
            return False
        return True

    def _open(self) -> None:
        """Run the notebook in a new process; where it ends that one, `why_down` says so."""
        self._room, self._tried_at, self.why_down = None, time.monotonic(), ""
        room = self._stack.enter_context(open_room(self._places, CELLS, self._cancelled))
        errors = []
        for cell in self._cells:
            error = room.run_cell(cell)
            if error is not None:
                errors.append(CellError(cell.index, error))
            if room.stop:
                self.why_down = _told(room.stop)
                return
        room.run_cell(watching(self._cells))
        room.hold_to(self._calls)
        self._room, self.errors = room, errors

    def _outcome(self, room: Room, answer: Answer) -> Outcome:
        if room.stop:
            # Bounds on time end in "seconds"; the others (memory, processes) are a fault of plan().
            late = room.stop.by_bound and " seconds " in room.stop.why
            told = f"The notebook {_told(room.stop)}"
            if late:
                told += f"; {BAR_S:g} seconds is the bar for a plan"
            return Failed(LATE if late else WRONG, f"{told}. It is being started again.")
        if answer.problem is not None:
            return self._trouble(room, answer.problem)
        found = read_plan(answer)
        if isinstance(found, Unreadable):
            return Failed(WRONG, f"The answer of `plan` {found.why}.")
        for key, item in answer.value.items():
            if as_sent(item) != item:
                return Failed(WRONG, f"The answer of `plan` has at {key!r} what JSON cannot hold.")
        return Planned(answer.value)

    def _trouble(self, room: Room, problem: Problem) -> Failed:
        noted = room.ask(Call("trouble", VARIABLE, {}, variable=True)).value
        found = blame(noted, self._cells)
        if found is None:
            told = ". ".join(filter(None, (problem.summary, problem.detail)))
            return Failed(WRONG, f"{told}.")
        what = "is not written yet" if found.unwritten else f"raised {found.error}"
        return Failed(WRONG, ", ".join(filter(None, (f"`plan` {what}", found.where))) + ".", found)


def _told(stop: Stop) -> str:
    return f"{stop.why} ({stop.detail})" if stop.detail else stop.why


def _saved_at(notebook: Path) -> int:
    """Return when a file was last written, in ns; 0 where it is not there just now."""
    try:
        return notebook.stat().st_mtime_ns
    except OSError:
        return 0
