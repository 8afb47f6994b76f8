"""What grading comes to: one outcome a check, as plain data that every report is made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from milestones.diagnosis import Diagnosis


class Outcome(StrEnum):
    """The four ends of a check."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"  # it waits for another check
    BROKEN = "BROKEN"  # our fault: never zero, never full marks


@dataclass(frozen=True)
class Stop:
    """Why a notebook's process ended early: the grader's sentence, and whether by a bound.

    `detail` is what the process itself may have chosen: a code, a signal.
    """

    why: str
    by_bound: bool
    detail: str = ""


@dataclass(frozen=True)
class CheckReport:
    """One check's outcome, with what the student reads.

    `hint` says in one string what the `diagnosis` of a failed check says in parts.
    """

    name: str
    sentence: str
    outcome: Outcome
    points: float | None  # None where BROKEN: neither zero nor any other number is earned
    points_max: float
    figure: float | None = None
    bar: float | None = None
    hint: str = ""
    mistake: str = ""  # the named one that the answers equal; for the instructor's overview alone
    bonus: bool = False  # whether its points stand beside those of the milestone
    diagnosis: Diagnosis | None = None
    figure_name: str = ""
    highest_is_best: bool = False  # of two figures


@dataclass(frozen=True)
class CellError:
    """A cell that raised: its position in the notebook, counted from 0, and what it raised.

    Where the process was `stopped` in it, `error` is the grader's own sentence.
    """

    cell: int
    error: str
    stopped: bool = False

    @property
    def told(self) -> str:
        """What became of the cell, to be read after its name."""
        if self.stopped:
            return self.error.replace(f" in cell {self.cell}", "")
        return f"raised {self.error}"


def is_all_bonus(points_max: float | Decimal, bonus_max: float | Decimal) -> bool:
    """Whether there is nothing but bonus to earn: then its bonus stands for its points."""
    return bool(bonus_max) and not points_max


@dataclass(frozen=True)
class MilestoneReport:
    """One milestone's outcomes on one notebook."""

    milestone: str
    title: str
    notebook_sha256: str
    checks: tuple[CheckReport, ...]
    cells: tuple[CellError, ...] = ()
    unreadable: str | None = None
    stop: Stop | None = None  # where the notebook's process ended early
    note: str = ""  # for the instructor alone
    document: str = ""  # what a person reads and marks beside the checks, as Markdown

    @property
    def points(self) -> float | None:
        """Points earned; None when a check is BROKEN, since what it would earn is not known."""
        return total(check.points for check in self.checks if not check.bonus)

    @property
    def points_max(self) -> float:
        """Points there are to earn, whatever is missing."""
        return sum((check.points_max for check in self.checks if not check.bonus), 0.0)

    @property
    def bonus(self) -> float | None:
        """Bonus points earned beside them; None when a bonus check is BROKEN."""
        return total(check.points for check in self.checks if check.bonus)

    @property
    def bonus_max(self) -> float:
        """Bonus points there are to earn."""
        return sum((check.points_max for check in self.checks if check.bonus), 0.0)

    @property
    def main(self) -> tuple[float | None, float]:
        """Points earned and to earn; those of the bonus where all of the milestone is bonus."""
        if self.is_all_bonus:
            return self.bonus, self.bonus_max
        return self.points, self.points_max

    @property
    def is_all_bonus(self) -> bool:
        """Whether it is one of the labs, which have nothing but bonus."""
        return is_all_bonus(self.points_max, self.bonus_max)

    def count(self, outcome: Outcome) -> int:
        """Return how many checks ended this way."""
        return sum(check.outcome is outcome for check in self.checks)


@dataclass(frozen=True)
class Report:
    """Everything one command graded."""

    split_id: str
    public: bool
    milestones: tuple[MilestoneReport, ...]

    @property
    def points(self) -> float | None:
        """Points earned over all milestones; None when a check is BROKEN."""
        return total(milestone.points for milestone in self.milestones)

    @property
    def points_max(self) -> float:
        """Points there are to earn over all milestones."""
        return sum(milestone.points_max for milestone in self.milestones)

    @property
    def bonus(self) -> float | None:
        """Bonus points earned over all milestones; None when a bonus check is BROKEN."""
        return total(milestone.bonus for milestone in self.milestones)

    @property
    def bonus_max(self) -> float:
        """Bonus points there are to earn over all milestones."""
        return sum(milestone.bonus_max for milestone in self.milestones)


EXIT_PASSED, EXIT_FAILED, EXIT_BAD_INPUT, EXIT_BROKEN = 0, 1, 2, 3
EXIT_INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended


def exit_code(milestones: Sequence[MilestoneReport]) -> int:
    """Return the exit code: the largest of those that apply.

    A bonus that is not earned is no failure, except in a milestone that is all bonus.
    """
    code = EXIT_PASSED
    for milestone in milestones:
        if milestone.unreadable is not None:
            code = max(code, EXIT_BAD_INPUT)
        for check in milestone.checks:
            if check.outcome is Outcome.BROKEN:
                code = max(code, EXIT_BROKEN)
            elif check.outcome is not Outcome.PASSED and not (check.bonus and milestone.points_max):
                code = max(code, EXIT_FAILED)
    return code


def total(points: Iterable[float | None]) -> float | None:
    """Return the sum, or None when a part of it is not known."""
    parts = list(points)
    return None if any(part is None for part in parts) else sum((p or 0.0 for p in parts), 0.0)


def shown_points(points: float | None) -> str:
    """Show points without needless decimals: 4, 2.5; a dash where they are not known."""
    return "-" if points is None else f"{points:g}"


def shown_bonus(bonus: float | None, bonus_max: float) -> str:
    """Show bonus points beside others: `2 of 2 bonus`; nothing where there are none to earn."""
    if not bonus_max:
        return ""
    if bonus is None:
        return f"bonus not graded (of {shown_points(bonus_max)})"
    return f"{shown_points(bonus)} of {shown_points(bonus_max)} bonus"


def with_bonus(told: str, points_max: float, bonus: float | None, bonus_max: float) -> str:
    """Add the bonus to what is told of the points; of what is all bonus it stands alone."""
    beside = shown_bonus(bonus, bonus_max)
    if not beside:
        return told
    return f"{told}, {beside}" if points_max else beside
