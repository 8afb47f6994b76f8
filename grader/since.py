"""What is otherwise in a milestone's report than it was in an earlier one."""

from __future__ import annotations

from dataclasses import dataclass

from grader.report import CheckReport, MilestoneReport, Outcome


@dataclass(frozen=True)
class Moved:
    """A figure before and after."""

    now: CheckReport
    before: float


@dataclass(frozen=True)
class Since:
    """The checks that ended otherwise, and the figures that moved."""

    newly_passed: tuple[CheckReport, ...]
    newly_failed: tuple[CheckReport, ...]
    moved: tuple[Moved, ...]
    points_before: float | None

    @property
    def nothing(self) -> bool:
        """Whether every outcome and figure is as it was."""
        return not (self.newly_passed or self.newly_failed or self.moved)


def since(before: MilestoneReport, now: MilestoneReport) -> Since:
    """Compare two reports of one milestone; a check that only one of them has is left out."""
    old = {check.name: check for check in before.checks}
    both = [(old[check.name], check) for check in now.checks if check.name in old]
    passed = Outcome.PASSED
    return Since(
        tuple(b for a, b in both if b.outcome is passed and a.outcome is not passed),
        tuple(b for a, b in both if a.outcome is passed and b.outcome is not passed),
        tuple(
            Moved(b, a.figure)
            for a, b in both
            if a.figure is not None and b.figure is not None and _shown(a) != _shown(b)
        ),
        before.main[0],
    )


def _shown(check: CheckReport) -> str:
    """Return a figure to the precision that reports show."""
    return f"{check.figure:.4f}"
