"""A milestone without the questions its notebook ends with: those have tests of their own."""

from __future__ import annotations

from dataclasses import replace

from milestones.questions import read_questions
from milestones.spec import Call, Files, Milestone
from milestones.understanding import VARIABLE


def without_closing(milestone: Milestone) -> Milestone:
    """Return the milestone with neither the calls nor the checks of its closing questions."""
    keys = {question.key for question in read_questions(milestone.slug)}

    def calls(questions: Files) -> list[Call]:
        return [c for c in milestone.calls(questions) if c.topic not in {*keys, VARIABLE}]

    checks = tuple(check for check in milestone.checks if check.name not in keys)
    functions = tuple(name for name in milestone.functions if name not in {*keys, VARIABLE})
    return replace(milestone, calls=calls, checks=checks, functions=functions)
