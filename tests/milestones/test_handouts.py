"""What a handout tells about points is what its milestone gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import milestones
from milestones.questions import read_questions

ROW = re.compile(r"^\| `(\w+)` \| ([\d.]+) \|", re.MULTILINE)
WORDS = {3: "Three", 4: "Four", 5: "Five"}


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_a_handout_tells_the_points_that_its_milestone_gives(slug: str, course: Path) -> None:
    handout = (course / "milestones" / slug / "handout.md").read_text(encoding="utf-8")
    milestone = milestones.load(slug)
    points = {check.name: check.points for check in milestone.checks}
    told = {name: float(number) for name, number in ROW.findall(handout)}
    assert told == {name: points[name] for name in told}
    closing = {question.key for question in read_questions(slug)}
    if told:  # a table of points has a row for every check, the closing questions in one
        assert told.keys() | closing == points.keys()
    worth = f"{milestone.points:g}" if milestone.points else f"{milestone.bonus:g} bonus"
    assert f" {worth} points, about" in " ".join(handout.split())


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_a_handout_tells_how_the_closing_questions_are_answered(slug: str, course: Path) -> None:
    handout = (course / "milestones" / slug / "handout.md").read_text(encoding="utf-8")
    told = " ".join(handout.partition("\n## Check your understanding\n")[2].split())
    questions = read_questions(slug)
    each = {question.points for question in questions}
    assert told.startswith(f"{WORDS[len(questions)]} questions, {each.pop():g} points each.")
    assert not each
    functions = [question.key for question in questions if question.kind == "function"]
    assert all(f"`{name}`" in told for name in functions)
