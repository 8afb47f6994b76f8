"""A report as a student reads it on a terminal, as JSON, and as JUnit XML."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader import __version__
from grader.report import (
    CheckReport,
    MilestoneReport,
    Outcome,
    Report,
    shown_points,
    with_bonus,
)
from grader.told import told
from milestones.diagnosis import Diagnosis

STYLES = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "red",
    Outcome.SKIPPED: "yellow",
    Outcome.BROKEN: "bold magenta",
}


def print_report(report: Report, console: Console) -> None:
    """Print every milestone's checks, then the points."""
    for milestone in report.milestones:
        print_milestone(milestone, console)
    if len(report.milestones) > 1:
        table = Table(box=None, padding=(0, 2), show_header=False)
        for milestone in report.milestones:
            table.add_row(milestone.milestone, points_told(milestone))
        table.add_row("[bold]total", f"[bold]{points_told(report)}")
        console.print(table)
    where = "the public split" if report.public else f"split {report.split_id}"
    console.print(f"[dim]Graded on {escape(where)}.[/dim]", highlight=False)


def print_milestone(milestone: MilestoneReport, console: Console) -> None:
    """Print what each check of one milestone came to."""
    points = points_told(milestone)
    title = Text.assemble((milestone.milestone, "bold"), f"  {milestone.title}  {points}")
    console.print(title)
    if milestone.unreadable is not None:
        console.print(Padding(Text(milestone.unreadable, style="red"), (0, 0, 1, 2)))
        return
    for told_of, cells in _by_error(milestone).items():
        line = Text(f"{cells} {told_of}", style="yellow")
        console.print(Padding(line, (0, 0, 0, 2)))
    if milestone.cells:
        counted = "cells are counted from 0, text cells included"
        by_bound = milestone.stop is not None and milestone.stop.by_bound
        if by_bound and any(cell.stopped for cell in milestone.cells):
            counted += "; what was stopped was left out, and the rest run without it where it could"
        note = Text(counted, style="dim")
        console.print(Padding(note, (0, 0, 0, 2)))
    for check in milestone.checks:
        _print_check(check, console)
    console.print()


def _by_error(milestone: MilestoneReport) -> dict[str, str]:
    """Return what became of cells that failed, and which, named together where it is the same."""
    numbers: dict[str, list[str]] = {}
    for cell in milestone.cells:
        numbers.setdefault(cell.told, []).append(str(cell.cell))
    return {
        told_of: f"cell{'s' if len(found) > 1 else ''} {', '.join(found)}"
        for told_of, found in numbers.items()
    }


def _print_check(check: CheckReport, console: Console) -> None:
    style = STYLES[check.outcome]
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(width=7)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", width=9)  # 0.25/0.25
    sentence = Text(check.sentence)
    if check.figure is not None:
        sentence.append(f"  {check.figure:.4f}", style="bold")
        sentence.append(f" (bar {check.bar:g})", style="dim")
    said: list[RenderableType] = [sentence]
    if check.diagnosis is not None:
        said.append(told(check.diagnosis, style))
    elif check.hint:
        said.append(Text(check.hint, style="dim" if check.outcome is Outcome.PASSED else style))
    points = f"{shown_points(check.points)}/{shown_points(check.points_max)}"
    if check.bonus:
        points += "\nbonus"
    grid.add_row(Text(check.outcome, style=style), Group(*said), points)
    apart = check.diagnosis is not None and len(check.diagnosis.rows) > 1
    console.print(Padding(grid, (0, 0, int(apart), 2)))


def points_told(one: MilestoneReport | Report) -> str:
    """Return what was earned of what there is, and the bonus beside it."""
    told = f"{shown_points(one.points)} of {shown_points(one.points_max)} points"
    if one.points is None:
        told = f"not graded (of {shown_points(one.points_max)} points): the grader broke"
    return with_bonus(told, one.points_max, one.bonus, one.bonus_max)


def as_json(report: Report) -> str:
    """Return the report in JSON schema 1; the same report gives the same bytes."""
    content: dict[str, Any] = {
        "schema": 1,
        "split_id": report.split_id,
        "grader_version": __version__,
        "milestones": [
            {
                "milestone": milestone.milestone,
                "points": milestone.points,
                "points_max": milestone.points_max,
                "bonus": milestone.bonus,
                "bonus_max": milestone.bonus_max,
                "notebook_sha256": milestone.notebook_sha256,
                "checks": [
                    {
                        "name": check.name,
                        "sentence": check.sentence,
                        "outcome": str(check.outcome),
                        "points": check.points,
                        "points_max": check.points_max,
                        "bonus": check.bonus,
                        "figure": check.figure,
                        "bar": check.bar,
                        "hint": check.hint,
                        "diagnosis": _diagnosis_as_json(check.diagnosis),
                    }
                    for check in milestone.checks
                ],
                "cells": [{"cell": cell.cell, "error": cell.error} for cell in milestone.cells],
            }
            for milestone in report.milestones
        ],
    }
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _diagnosis_as_json(diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    """Return the parts of a diagnosis; None where a check has none, as one that passed."""
    return None if diagnosis is None else asdict(diagnosis)


def as_junit(report: Report) -> str:
    """Return the report as JUnit XML: one suite a milestone, one case a check.

    A bonus that is not earned is no failure beside points: it is a skipped case that says why.
    """
    document = JUnitXml("grader")
    for milestone in report.milestones:
        suite = TestSuite(milestone.milestone)
        for check in milestone.checks:
            case = TestCase(check.name, classname=milestone.milestone)
            text = _xml_text(check.hint or check.sentence)
            extra = check.bonus and milestone.points_max
            match check.outcome:
                case Outcome.FAILED if extra:
                    case.result = [Skipped(f"Bonus, not earned: {text}")]
                case Outcome.FAILED:
                    case.result = [Failure(text)]
                case Outcome.SKIPPED:
                    case.result = [Skipped(text)]
                case Outcome.BROKEN:
                    case.result = [Error(text)]
            suite.add_testcase(case)
        document.add_testsuite(suite)
    return str(document.tostring().decode("utf-8")) + "\n"


def _xml_text(text: str) -> str:
    """Drop the control characters that XML cannot carry."""
    return "".join(c for c in text if c in "\t\n\r" or c >= " ")
