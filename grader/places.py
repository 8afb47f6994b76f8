"""Where a notebook's questions and data lie, and which file a call means by a path."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Places:
    """The public data and the questions of a split.

    `overlay`, where a split has one, holds files that stand in for those of `data` (an
    instructor's own training runs).
    """

    data: Path
    questions: Path
    overlay: Path | None = None

    def absolute(self) -> Places:
        """Return the same places by paths that hold in any working folder."""
        overlay = None if self.overlay is None else self.overlay.absolute()
        return Places(self.data.absolute(), self.questions.absolute(), overlay)

    def file(self, path: str) -> Path:
        """Return where a call's `data/...` or `questions/...` lies."""
        root, _, rest = path.partition("/")
        if root == "questions":
            return self.questions / rest
        over = None if self.overlay is None else self.overlay / rest
        return over if over is not None and over.is_file() else self.data / rest
