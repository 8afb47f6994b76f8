"""The closing questions' secrets: what is right, what each wrong answer overlooks, drawn figures.

`solutions/<slug>/understanding.toml` holds the first two and `solutions/<slug>/drawn.py` draws the
figures of questions that are answered by a function. Every wrong answer is a named mistake.
"""

from __future__ import annotations

import tomllib
from importlib import import_module
from typing import Any

import numpy as np

from milestones.questions import Question, read_questions
from milestones.understanding import FILE, VARIABLE
from solutions.draft import Draft
from solutions.lesson import ROOT
from solutions.mistake import Edit, NamedMistake

Drawn = tuple[dict[str, Any], int | float]
"""The arguments of one call, and its right answer."""
DrawnByKey = dict[str, list[Drawn]]


def read_secrets(slug: str) -> dict[str, dict[str, Any]]:
    """Return what is right and wrong of each of a milestone's questions, by key."""
    if not read_questions(slug):
        return {}
    path = ROOT / "solutions" / slug / "understanding.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def draw_understanding(slug: str, rng: np.random.Generator) -> Draft:
    """Return the files of a milestone's closing questions on one split; none if it asks none."""
    asked = read_questions(slug)
    if not asked:
        return Draft({}, {})
    drawn: DrawnByKey = {}
    secrets = read_secrets(slug)
    if any(question.kind == "function" for question in asked):
        drawn = import_module(f"solutions.{slug}.drawn").draw(rng)
    truth = {
        question.key: _truth(question, secrets.get(question.key, {}), drawn.get(question.key, []))
        for question in asked
    }
    questions = {key: [args for args, _ in cases] for key, cases in drawn.items()}
    return Draft({FILE: questions}, {FILE: truth})


def _truth(question: Question, secret: dict[str, Any], drawn: list[Drawn]) -> dict[str, Any]:
    match question.kind:
        case "function":
            answers = {f"{question.key}/{i}": right for i, (_, right) in enumerate(drawn)}
            return {"answers": answers}
        case "number":
            slips = [[value, wrong["why"]] for wrong in secret["wrong"] for value in wrong["says"]]
            return {key: secret[key] for key in ("low", "high", "hint")} | {"slips": slips}
        case "choice":
            why = {wrong["says"]: wrong["why"] for wrong in secret["wrong"]}
            return {"right": secret["right"], "why": why}


def understanding_mistakes(slug: str) -> tuple[NamedMistake, ...]:
    """Return a named mistake for each wrong answer that a milestone's questions know of."""
    secrets = read_secrets(slug)
    return tuple(
        _mistake(question, secrets[question.key], wrong)
        for question in read_questions(slug)
        if question.kind != "function"  # these have mistakes of their own
        for wrong in secrets[question.key]["wrong"]
    )


def _mistake(question: Question, secret: dict[str, Any], wrong: dict[str, Any]) -> NamedMistake:
    if question.kind == "choice":
        right, says = f'"{secret["right"]}"', f'"{wrong["says"]}"'
    else:
        right, says = repr(secret["stated"]), repr(wrong["says"][0])
    edit = Edit(VARIABLE, f'"{question.key}": {right},', f'"{question.key}": {says},')
    return NamedMistake(wrong["name"], (edit,), caught_by=question.key, hint=wrong["why"])
