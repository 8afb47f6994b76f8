"""A live notebook without a kernel: IPython's shell in this process, and a file beside it."""

from __future__ import annotations

import os
import types
from pathlib import Path
from typing import Any

import nbformat
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from grader.live.check import Reading, check_live, subject_of, with_fresh_run
from grader.live.history import History
from grader.live.report import LiveReport

SAVED_LONG_AGO, SAVED_JUST_NOW = 1.0, 4e9  # Unix seconds, before and after any run of a test


class LiveNotebook:
    """Cells are run with `run` and saved with `save`; `check` is what `%check` does."""

    def __init__(self, path: Path) -> None:
        """`path` is the notebook's file, which need not be there."""
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        shell: Any = InteractiveShell
        self.shell = shell(config=config, user_module=types.ModuleType("live_notebook"))
        self.path = path
        self.history = History(self.shell)

    @classmethod
    def of(cls, other: LiveNotebook) -> LiveNotebook:
        """Return the same notebook, from now on looked at anew."""
        same = cls.__new__(cls)
        same.shell, same.path, same.history = other.shell, other.path, History(other.shell)
        return same

    def run(self, *cells: str) -> None:
        """Run cells; none may raise."""
        for cell in cells:
            self.shell.run_cell(cell, store_history=True).raise_error()

    def save(self, *cells: str, at: float = SAVED_JUST_NOW) -> None:
        """Write the file, as if at that time (Unix seconds)."""
        made = [nbformat.v4.new_code_cell(cell, id=f"cell-{i}") for i, cell in enumerate(cells)]
        text = nbformat.writes(nbformat.v4.new_notebook(cells=made))
        self.path.write_text(text, encoding="utf-8")
        os.utime(self.path, (at, at))

    def check(self, named: str = "", *, fresh: bool = False) -> LiveReport:
        """Check what is defined now."""
        subject = subject_of(named, self.shell.user_ns)
        live = check_live(subject, self.history, Reading())
        return with_fresh_run(live, subject, self.history) if fresh else live
