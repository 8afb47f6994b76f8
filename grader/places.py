"""Where a notebook's questions and data lie, and which file a call means by a path."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """The public data and the questions of a split.

    `overlay`, where a split has one, holds files that stand in for those of `data` (an
    instructor's own training runs). `bait`, where given, holds files to lie beside `data` that no
    honest notebook looks for.
    """

    data: Path
    questions: Path
    overlay: Path | None = None
    bait: Path | None = None

    def absolute(self) -> Places:
        """Return the same places by paths that hold in any working folder."""
        overlay = None if self.overlay is None else self.overlay.absolute()
        bait = None if self.bait is None else self.bait.absolute()
        return Places(self.data.absolute(), self.questions.absolute(), overlay, bait)

    def file(self, path: str) -> Path:
        """Return where a call's `data/...` or `questions/...` lies."""
        root, _, rest = path.partition("/")
        if root == "questions":
            return self.questions / rest
        over = None if self.overlay is None else self.overlay / rest
        return over if over is not None and over.is_file() else self.data / rest

    def read(self, path: str) -> bytes:
        """Return the bytes of a call's file."""
        return self.file(path).read_bytes()


def lay_out_course(places: Places, folder: Path) -> None:
    """Lay out, in `folder`, what a notebook finds beside its own: `data/` as in a clone.

    The public split is left out: it holds truth, and truth is never an input of a process that
    runs a student's code.
    """
    shutil.copytree(places.data, folder / "data", ignore=shutil.ignore_patterns("public_split"))
    if places.overlay is not None:
        shutil.copytree(places.overlay, folder / "data", dirs_exist_ok=True)
    if places.bait is not None:
        shutil.copytree(places.bait, folder, dirs_exist_ok=True)
