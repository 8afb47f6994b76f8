"""The cells of a live notebook, as they were run and as they are saved."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from grader.live.definitions import definitions_of
from grader.live.drift import RunCell, SavedCell
from grader.notebook import Cell, Notebook

OWN = ("%check", "%load_ext grader", "from grader import check", "check(")


class History:
    """What IPython keeps of the cells that were run, and from now on when they were."""

    def __init__(self, shell: Any) -> None:
        """`shell` is IPython's."""
        self._shell = shell
        self._times: dict[int, float] = {}
        self._kernel_started = psutil.Process().create_time()
        self._noting_since = self._started = time.time()
        shell.events.register("pre_run_cell", self._note_start)
        shell.events.register("post_run_cell", self._note_number)

    def _note_start(self, _info: Any) -> None:
        self._started = time.time()

    def _note_number(self, result: Any) -> None:
        if result.execution_count is not None:
            self._times[result.execution_count] = self._started

    def run_cells(self) -> list[RunCell]:
        """Return every cell that was run, in that order, the one that runs now included."""
        sources = self._shell.history_manager.input_hist_parsed
        found = []
        for number, source in enumerate(sources):
            at = self._times.get(number)
            after, before = (self._kernel_started, self._noting_since) if at is None else (at, at)
            if number:
                found.append(RunCell(number, definitions_of(source), after, before))
        return found

    def as_notebook(self) -> Notebook:
        """Return the cells that were run as a notebook, in the order they were run."""
        sources = self._shell.history_manager.input_hist_raw[1:]
        kept = [source for source in sources if not source.lstrip().startswith(OWN)]
        digest = hashlib.sha256("\0".join(kept).encode("utf-8", "replace")).hexdigest()
        return Notebook(digest, tuple(Cell(i, source) for i, source in enumerate(kept)))

    def saved_cells(self, notebook: Notebook) -> list[SavedCell]:
        """Return a notebook's cells with what they define."""
        kept = self._shell.history_manager
        run = zip(kept.input_hist_raw, kept.input_hist_parsed, strict=False)
        plain = {raw.strip(): parsed for raw, parsed in run}  # quicker than to transform it again
        return [
            SavedCell(cell.index, cell.source, definitions_of(self._plain(cell.source, plain)))
            for cell in notebook.cells
        ]

    def _plain(self, source: str, known: dict[str, str]) -> str:
        """Return a cell's Python, its magics turned into calls."""
        if source.strip() in known:
            return known[source.strip()]
        transform: Callable[[str], str] = self._shell.transform_cell
        try:
            return transform(source)
        except Exception:  # broken code, which the cell itself would raise
            return ""


def saved_at(path: Path) -> float | None:
    """Return when a file was last written, in Unix seconds."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None
