"""Proofs that a split is fair to one milestone, judged in this process with the real checks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import milestones
from grader.judge import Mistake, judge
from grader.report import CheckReport, Outcome, shown_points
from milestones.spec import Answers, Check, Milestone
from solutions.exam import (
    blank_answers,
    mistaken_answers,
    named_mistakes,
    reference_answers,
    stored_mistakes,
    write_mistakes,
)
from solutions.mistake import NamedMistake
from solutions.remember import FilesInMemory

MARGIN = 0.10  # of the bar: what a reference keeps between itself and every bar


@dataclass(frozen=True)
class Answered:
    """What the solved, the blank and every mistaken notebook of a milestone answered."""

    solved: Answers
    blank: Answers
    mistaken: Mapping[str, Answers]


@dataclass(frozen=True)
class Proof:
    """What one milestone's checks did on one split; `faults` is empty when the split is fair.

    `answered` is what they judged, where that was to be kept.
    """

    slug: str
    faults: tuple[str, ...]
    reference: tuple[CheckReport, ...]
    caught: dict[str, tuple[str, ...]]
    seconds: float
    answered: Answered | None = None


def prove(slug: str, folder: Path, *, margins: bool = True, keep: bool = False) -> Proof:
    """Judge the solved, the blank and every mistaken notebook of a milestone on a split.

    Stores the mistakes' answers beside the truth on the way. Without `margins` (an instructor's
    own runs) figures are reported, not required: the reference's, and what they tell of mistakes.
    Told to `keep` them, it returns the answers too.
    """
    started = time.perf_counter()
    milestone = milestones.load(slug)
    truth = FilesInMemory(folder / "truth")
    right, blank = reference_answers(slug, folder), blank_answers(slug, folder)
    mistaken = mistaken_answers(milestone, folder, right)
    stored = stored_mistakes(slug, mistaken, right)
    write_mistakes(folder, slug, stored)

    def judged(
        answers: Answers, checks: Sequence[Check] = milestone.checks
    ) -> tuple[CheckReport, ...]:
        asked = replace(milestone, checks=tuple(checks))
        others = [report for report in reference if report.name not in {c.name for c in checks}]
        return judge(asked, answers, truth, stored, public=True, settled=others)

    reference: tuple[CheckReport, ...] = ()
    reference = judged(right)
    faults = [
        *_solved_faults(reference, margins),
        *_blank_faults(judged(blank)),
    ]
    caught = {}
    for mistake in named_mistakes(slug):
        answers = mistaken[mistake.name]
        anew = {
            report.name: report for report in judged(answers, _touched(milestone, answers, right))
        }
        reports = tuple(anew.get(report.name, report) for report in reference)
        caught[mistake.name] = _failed(reports)
        faults += _mistake_faults(mistake, reports, margins)
    faults += _unnamed_checks(milestone, named_mistakes(slug))
    faults += unseen(named_mistakes(slug), stored)
    seconds = time.perf_counter() - started
    faults = [f"{slug}: {fault}" for fault in faults]
    kept = Answered(right, blank, mistaken) if keep else None
    return Proof(slug, tuple(faults), reference, caught, seconds, kept)


def _touched(milestone: Milestone, answers: Answers, right: Answers) -> list[Check]:
    """Return the checks that may end otherwise than on the right answers.

    Judging is pure: a check that reads the very answers that were judged before ends as before.
    """
    changed = {
        answer.call.topic
        for call_id, answer in answers.by_id.items()
        if answer is not right.by_id[call_id]
    }
    touched: dict[str, Check] = {}
    for check in milestone.checks:
        if changed.intersection(check.topics) or touched.keys() & set(check.needs):
            touched[check.name] = check
    return list(touched.values())


def _failed(reports: Sequence[CheckReport]) -> tuple[str, ...]:
    return tuple(report.name for report in reports if report.outcome is Outcome.FAILED)


def _solved_faults(reports: Sequence[CheckReport], margins: bool) -> list[str]:
    faults = []
    for report in reports:
        if report.figure is not None and report.bar is not None and report.bar != 0:
            room = room_inside(report.figure, report.bar)
            if margins and room < MARGIN:
                faults.append(
                    f"the reference is only {room:.1%} inside the bar of {report.name} "
                    f"({report.figure:.4f} against {report.bar:g})"
                )
        elif report.outcome is not Outcome.PASSED:
            faults.append(f"the reference is {report.outcome} on {report.name}: {report.hint}")
        if report.outcome is Outcome.BROKEN:
            faults.append(f"{report.name} is BROKEN: {report.hint}")
    return faults


def room_inside(figure: float, bar: float) -> float:
    """Return how far inside its bar a figure lies, as a share of what the bar allows.

    A bar above one half is one to reach, on a scale that ends at 1 (R², a share of plans): what it
    allows is its distance from 1. A cost ratio's bar lies above 1: what it allows is the excess.
    """
    if bar > 1:
        return (bar - figure) / (bar - 1)
    if bar > 0.5:
        return (figure - bar) / (1 - bar)
    return (bar - figure) / bar


def _blank_faults(reports: Sequence[CheckReport]) -> list[str]:
    return [
        f"the blank notebook earns {shown_points(r.points)} on {r.name}"
        for r in reports
        if r.points != 0
    ]


def reads_hint(mistake: NamedMistake, reports: Sequence[CheckReport]) -> bool:
    """Tell whether who makes a mistake reads its hint, in one of the checks that it fails.

    Not always in the one that catches it: several answers of nothing but 0 are no mistake's.
    """
    return any(mistake.hint in r.hint for r in reports if r.name in mistake.checks)


def _mistake_faults(
    mistake: NamedMistake, reports: Sequence[CheckReport], margins: bool
) -> list[str]:
    faults = []
    by_name = {report.name: report for report in reports}
    if mistake.caught_by not in by_name:
        return [f"the mistake {mistake.name} names no check: {mistake.caught_by}"]
    catcher = by_name[mistake.caught_by]
    if catcher.outcome is not Outcome.FAILED:
        faults.append(f"the mistake {mistake.name} is {catcher.outcome} on {mistake.caught_by}")
    elif not reads_hint(mistake, reports):
        faults.append(f"the mistake {mistake.name} does not read its hint, but: {catcher.hint}")
    surprises = [
        name
        for name in _failed(reports)
        if name not in mistake.checks and (margins or by_name[name].figure is None)
    ]
    if surprises:
        faults.append(f"the mistake {mistake.name} also fails {', '.join(surprises)}")
    faults += [
        f"the mistake {mistake.name} breaks {r.name}: {r.hint}"
        for r in reports
        if r.outcome is Outcome.BROKEN
    ]
    return faults


def unseen(mistakes: Sequence[NamedMistake], stored: Sequence[Mistake]) -> list[str]:
    """Return a fault for each mistake that a split does not show in the check that catches it."""
    shown = {mistake.name: mistake.checks for mistake in stored}
    return [
        f"the mistake {m.name} answers as the solution does in what {m.caught_by} reads"
        for m in mistakes
        if m.caught_by not in shown[m.name]
    ]


def _unnamed_checks(milestone: Milestone, mistakes: Sequence[NamedMistake]) -> list[str]:
    named = {mistake.caught_by for mistake in mistakes}
    return [f"no mistake is named for {c.name}" for c in milestone.checks if c.name not in named]
