"""What a student's checks came to, a line each: for their own eyes, and never evidence of anything.

`.grader/history.jsonl` in the course's folder only grows. A line that is damaged, or written by a
version that this one does not know, is passed over and counted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from grader import __version__
from grader.errors import BadInputError
from grader.report import MilestoneReport, Outcome, Report, is_all_bonus
from grader.trouble import printable

FOLDER = ".grader"
LIVE = "notebook"  # an entry `by` this is of a live kernel, every other of a fresh run
SCHEMA = 1
LOCK_TIMEOUT_S = 10.0  # a line is written in a millisecond
WORDS = ("by", "split_id", "grader_version", "milestone", "notebook_sha256", "code_sha256")
MAX_READ_BYTES = 32 * 2**20  # the newest lines: ten thousand checks


@dataclass(frozen=True)
class PastCheck:
    """One check's outcome, as it was told."""

    name: str
    sentence: str
    outcome: Outcome
    points: float
    points_max: float
    bonus: bool
    hint: str
    figure: float | None
    bar: float | None
    figure_name: str
    highest_is_best: bool


@dataclass(frozen=True)
class Entry:
    """One milestone as it was graded once; `code_sha256` is that of its code cells.

    It is empty where no file holds the code that was graded.
    """

    at: datetime
    by: str
    split_id: str
    grader_version: str
    milestone: str
    notebook_sha256: str
    code_sha256: str
    checks: tuple[PastCheck, ...]

    @property
    def is_live(self) -> bool:
        """Whether a live kernel was asked as it stood: it can hold what no cell makes."""
        return self.by == LIVE

    @property
    def points(self) -> float:
        """Points earned, without bonus."""
        return sum(check.points for check in self.checks if not check.bonus)

    @property
    def points_max(self) -> float:
        """Points there were to earn, without bonus."""
        return sum(check.points_max for check in self.checks if not check.bonus)

    @property
    def bonus(self) -> float:
        """Bonus points earned."""
        return sum((check.points for check in self.checks if check.bonus), 0.0)

    @property
    def bonus_max(self) -> float:
        """Bonus points there were to earn."""
        return sum((check.points_max for check in self.checks if check.bonus), 0.0)

    @property
    def main(self) -> tuple[float, float]:
        """Points earned and to earn; those of the bonus where all of the milestone was bonus."""
        if self.is_all_bonus:
            return self.bonus, self.bonus_max
        return self.points, self.points_max

    @property
    def is_all_bonus(self) -> bool:
        """Whether it was one of the labs, which have nothing but bonus."""
        return is_all_bonus(self.points_max, self.bonus_max)

    @property
    def failing(self) -> tuple[PastCheck, ...]:
        """Return the checks that did not pass, those beside the points left out."""
        return tuple(
            check
            for check in self.checks
            if check.outcome is not Outcome.PASSED and not (check.bonus and self.points_max)
        )


@dataclass(frozen=True)
class History:
    """The entries that can be read, in the order they were written, and how many lines cannot."""

    entries: tuple[Entry, ...] = ()
    n_unread: int = 0

    def last(self, milestone: str) -> Entry | None:
        """Return the newest entry of a milestone.

        Where that is of a live kernel and a fresh run had the same code, the fresh run's stands.
        """
        newest = next((e for e in reversed(self.entries) if e.milestone == milestone), None)
        fresh = self.last_fresh(milestone)
        if newest is None or fresh is None or not newest.is_live or not newest.code_sha256:
            return newest
        one, other = ((e.split_id, e.code_sha256) for e in (newest, fresh))
        return fresh if one == other else newest

    def last_fresh(self, milestone: str) -> Entry | None:
        """Return the newest entry of a milestone that was run from a fresh start."""
        found = (e for e in reversed(self.entries) if e.milestone == milestone and not e.is_live)
        return next(found, None)


def is_kept(course: Path, notebooks: Path, report: Report) -> bool:
    """Tell whether a report belongs into the history: the course's own notebooks, in public."""
    return report.public and notebooks.resolve() == (course / "notebooks").resolve()


def append(
    course: Path, split_id: str, report: MilestoneReport, code_sha256: str, by: str, now: datetime
) -> None:
    """Write down what one milestone came to; what could not be graded is not written.

    Raises:
        BadInputError: it cannot be written; the message says why.
    """
    if report.unreadable is not None or report.count(Outcome.BROKEN):
        return
    line = json.dumps(
        {
            "schema": SCHEMA,
            "at": now.astimezone(UTC).isoformat(timespec="seconds"),
            "by": by,
            "split_id": split_id,
            "grader_version": __version__,
            "milestone": report.milestone,
            "notebook_sha256": report.notebook_sha256,
            "code_sha256": code_sha256,
            "checks": [asdict(_past(check)) for check in map(asdict, report.checks)],
        },
        ensure_ascii=False,
        allow_nan=False,
    )
    path = file_of(course)
    try:
        _make_folder(path.parent)
        # Two writers at once would mix their lines, and only one of them may mend a torn end.
        with FileLock(path.with_suffix(".lock"), timeout=LOCK_TIMEOUT_S), path.open("ab+") as file:
            torn = file.tell() > 0 and _last_byte(path) != b"\n"
            file.write((b"\n" if torn else b"") + line.encode() + b"\n")
    except Timeout:
        raise BadInputError(f"{path}: another program holds it; this check is not in it") from None
    except (OSError, NotImplementedError) as error:  # a file system may know no locks
        why = getattr(error, "strerror", None) or error
        raise BadInputError(f"{path}: cannot be written: {why}; this check is not in it") from None


def read(course: Path) -> History:
    """Read the history, whatever state it is in; there may be none."""
    path = file_of(course)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MAX_READ_BYTES))
            raw = file.read(MAX_READ_BYTES)
    except OSError:
        return History(n_unread=int(path.exists()))
    lines = raw.split(b"\n")
    if size > MAX_READ_BYTES:  # where reading began is inside a line
        del lines[0]
    found = [_entry(line) for line in lines if line.strip()]
    entries = tuple(entry for entry in found if entry is not None)
    return History(entries, len(found) - len(entries))


def file_of(course: Path) -> Path:
    """Return where a course's history lies."""
    return course / FOLDER / "history.jsonl"


def own_folder(course: Path) -> Path:
    """Return the folder of what the grader keeps for a student, made if it is not there.

    Raises:
        BadInputError: it cannot be made.
    """
    folder = course / FOLDER
    try:
        _make_folder(folder)
    except OSError as error:
        raise BadInputError(f"{folder}: cannot be made: {error.strerror}") from None
    return folder


def _make_folder(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    ignore = folder / ".gitignore"  # whatever the clone's own says: this is nobody else's
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1)


def _entry(line: bytes) -> Entry | None:
    """Return what a line says; None where it is damaged or of another schema."""
    try:
        content = json.loads(line.decode("utf-8"))
        if content["schema"] != SCHEMA:
            return None
        at = datetime.fromisoformat(content["at"])
        checks = tuple(_past(check) for check in content["checks"])
        words = {word: _text(content[word]) for word in WORDS}
        return Entry(at=at.astimezone(UTC), checks=checks, **words)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _past(content: Mapping[str, Any]) -> PastCheck:
    return PastCheck(
        name=_text(content["name"]),
        sentence=_text(content["sentence"]),
        outcome=Outcome(content["outcome"]),
        points=_number(content["points"]),
        points_max=_number(content["points_max"]),
        bonus=bool(content.get("bonus")),
        hint=_text(content["hint"]),
        figure=None if content["figure"] is None else _number(content["figure"]),
        bar=None if content["bar"] is None else _number(content["bar"]),
        figure_name=_text(content.get("figure_name", "")),
        highest_is_best=bool(content.get("highest_is_best")),
    )


def _text(value: object) -> str:
    """Return a text as a terminal can show it.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, str):
        raise TypeError("not a text")
    return printable(value)


def _number(value: object) -> float:
    """Return a finite number.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError("not a number")
    return float(value)
