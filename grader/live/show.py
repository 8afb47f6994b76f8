"""A live check as a notebook displays it: HTML that brings its own style, and plain text."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from grader.html.page import get_ready, part
from grader.html.scale import SHOWN, Scale
from grader.live.report import LiveReport
from grader.present import points_told, print_report
from grader.report import CheckReport, Outcome, Report, shown_bonus, shown_points

WIDTH = 88  # columns of the plain text
WORDS = {
    Outcome.PASSED: ("✓", "passed"),
    Outcome.FAILED: ("✗", "failed"),
    Outcome.SKIPPED: ("…", "waits"),
    Outcome.BROKEN: ("!", "broken"),
}


def make_ready() -> None:
    """Do what would make a first display slow."""
    get_ready("live.html")


@dataclass(frozen=True)
class Bullet:
    """A figure against its bar, in per cent of the picture's width."""

    zone: float
    half: float
    mark: float
    beyond: bool
    words: str

    @classmethod
    def of(cls, figure: float, bar: float) -> Bullet:
        """Return where the figure and the bar stand."""
        scale, at = Scale.of(bar), 100 / SHOWN
        return cls(at, at / 4, 100 * scale.at(figure), scale.beyond(figure), scale.words)


@dataclass(frozen=True)
class Shown:
    """The display of one live check."""

    live: LiveReport

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.as_html(), "text/plain": self.as_text()}

    def as_html(self) -> str:
        """Return HTML whose style is inline, so that any front end shows it, light or dark."""
        live, report = self.live, self.live.report
        outcomes = {
            str(outcome).lower(): [c for c in report.checks if c.outcome is outcome]
            for outcome in Outcome
        }
        wrong = [c for c in outcomes["failed"] if c.name not in live.unwritten]
        return part(
            "live.html",
            live=live,
            report=report,
            outcomes=outcomes,
            failed=_by_hint(wrong),
            n_failed=len(wrong),
            unwritten=[c for c in outcomes["failed"] if c.name in live.unwritten],
            to_write=list(dict.fromkeys(live.unwritten.values())),
            words={
                **{str(outcome).lower(): word for outcome, word in WORDS.items()},
                "unwritten": ("○", "to write"),
            },
            points=shown_points(report.points),
            points_max="" if report.is_all_bonus else shown_points(report.points_max),
            fresh_points="" if live.fresh is None else points_told(live.fresh.report),
            bonus=shown_bonus(report.bonus, report.bonus_max),
            points_of=lambda check: (
                f"{shown_points(check.points)} / {shown_points(check.points_max)}"
            ),
            bullet=_bullet,
            differences=() if live.fresh is None else live.fresh.differences(report),
        )

    def as_text(self) -> str:
        """Return plain text, as `grader check` prints it."""
        live = self.live
        text = io.StringIO()
        console = Console(
            file=text, width=WIDTH, color_system=None, highlight=False, force_jupyter=False
        )
        console.print()
        print_report(Report(live.split_id, public=True, milestones=(live.report,)), console)
        if live.notes:
            console.print("This kernel and the saved notebook differ:", markup=False)
        for note in live.notes:
            console.print(f"! {note.text}", markup=False)
        if live.printed:
            console.print(f"Your functions printed {live.n_printed:,} characters:", markup=False)
            console.print(live.printed.rstrip(), markup=False)
        for line in _fresh_lines(live):
            console.print(line, markup=False)
        console.print(" ".join(live.said), markup=False)
        return text.getvalue().rstrip()


@dataclass(frozen=True)
class Told:
    """The display of one sentence, where there is nothing to grade."""

    sentence: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.as_html(), "text/plain": f"%check: {self.sentence}"}

    def as_html(self) -> str:
        """Return it as HTML whose style is inline."""
        return part("told.html", sentence=self.sentence)


def _by_hint(checks: list[CheckReport]) -> list[tuple[CheckReport, ...]]:
    """Return the checks, those together that fail for the same reason: it is told once."""
    groups: dict[str, list[CheckReport]] = {}
    for check in checks:
        alone = check.figure is not None or not check.hint
        groups.setdefault(check.name if alone else f"={check.hint}", []).append(check)
    return [tuple(group) for group in groups.values()]


def _bullet(check: CheckReport) -> Bullet | None:
    if check.figure is None or check.bar is None:
        return None
    return Bullet.of(check.figure, check.bar)


def _fresh_lines(live: LiveReport) -> list[str]:
    if live.fresh is None:
        return []
    fresh = live.fresh
    lines = [f"From a fresh kernel ({fresh.ran}): {points_told(fresh.report)}."]
    for pair in fresh.differences(live.report):
        here, there = WORDS[pair.live.outcome][1], WORDS[pair.fresh.outcome][1]
        lines.append(f"! here {here}, there {there}: {pair.live.sentence}")
        if pair.fresh.hint:
            lines.append(f"  {pair.fresh.hint}")
    lines += [f"! there cell {cell.cell} {cell.told}" for cell in fresh.report.cells]
    if len(lines) == 1:
        lines.append("Every check ends there as it does here.")
    return lines
