"""Check your understanding: the calls that ask a milestone's closing questions, and their checks.

One check a question, made from its data. Words and stated numbers come from the dict
`understanding`; the truth says for each which is right, and of each wrong one what it overlooks:
that is the hint, on every split, since these questions are no secret.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from milestones.compare import (
    TruthError,
    is_number,
    kind_of,
    numbers_agree,
    numbers_beside,
    right_number,
    shown,
)
from milestones.compared import Compared
from milestones.questions import Question, plain_words, read_questions
from milestones.spec import Answers, Call, Check, Files, ReadTable, Verdict, failed, passed

VARIABLE = "understanding"
FILE = "understanding.json"
SLIP_RTOL = 0.01  # a stated number is rounded to two or three digits; slips lie further apart


def understanding_names(slug: str) -> tuple[str, ...]:
    """Return the names that a student defines to answer a milestone's questions."""
    asked = read_questions(slug)
    functions = tuple(question.key for question in asked if question.kind == "function")
    return (*functions, VARIABLE)


def understanding_calls(slug: str, questions: Files) -> list[Call]:
    """Return the calls: each function with the figures of the split, and the dict."""
    drawn = questions.json(f"{slug}/{FILE}")
    return [
        *(
            Call(f"{question.key}/{i}", question.key, args)
            for question in read_questions(slug)
            if question.kind == "function"
            for i, args in enumerate(drawn[question.key])
        ),
        Call(VARIABLE, VARIABLE, {}, variable=True),
    ]


def understanding_checks(slug: str, *, bonus: bool = False) -> tuple[Check, ...]:
    """Return the checks of a milestone's questions, in their order."""
    return tuple(replace(_check(slug, question), bonus=bonus) for question in read_questions(slug))


def _check(slug: str, question: Question) -> Check:
    if question.kind == "function":
        return _function_check(slug, question)

    def judge(answers: Answers, truth: Files) -> Verdict:
        given = answers.value(VARIABLE)
        if not isinstance(given, dict):
            return failed(f"It is {kind_of(given)}.", f"`{VARIABLE}` is not a dict.")
        if given.get(question.key) is None:
            return failed("", f"{_place(question)} is not answered yet.")
        judged = _chosen if question.kind == "choice" else _stated
        verdict = judged(question, given[question.key], _truth(truth, slug, question))
        return verdict if verdict.passed else replace(verdict, asked=_place(question))

    return Check(
        question.key, question.promise, question.points, (VARIABLE,), judge, reads=(question.key,)
    )


def _function_check(slug: str, question: Question) -> Check:
    def judge(answers: Answers, truth: Files) -> Verdict:
        right = _truth(truth, slug, question)["answers"]
        return numbers_agree(
            answers.under(question.key), right, rel=question.within, unit=question.unit
        )

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        right = _truth(truth, slug, question)["answers"]
        whole = all(isinstance(number, int) for number in right.values())
        return [numbers_beside(answers.under(question.key), right, whole=whole)]

    return Check(
        question.key,
        question.promise,
        question.points,
        (question.key,),
        judge,
        think=question.think,
        compare=compare,
    )


def _truth(truth: Files, slug: str, question: Question) -> dict[str, Any]:
    found: dict[str, Any] = truth.json(f"{slug}/{FILE}")[question.key]
    return found


def _place(question: Question) -> str:
    return f"`{VARIABLE}[{question.key!r}]`"


def _chosen(question: Question, given: Any, truth: dict[str, Any]) -> Verdict:
    """Judge the words of an option; the order in which options are shown plays no part."""
    known = {plain_words(option): option for option in question.options}
    if known.keys() != {plain_words(option) for option in (truth["right"], *truth["why"])}:
        raise TruthError(f"the options of {question.key} are not those of the truth")
    if not isinstance(given, str):
        remark = f"{_place(question)} must hold the words of one option, as a text."
        return failed(f"It is {kind_of(given)}.", remark)
    option = known.get(plain_words(given))
    if option is None:
        remark = f"{_place(question)} is none of the options: copy the words of one of them."
        return failed(f"It is {kind_of(given)}.", remark)
    if option == truth["right"]:
        return passed()
    return replace(failed(f'"{option}"'), think=truth["why"][option])


def _stated(question: Question, given: Any, truth: dict[str, Any]) -> Verdict:
    """Judge a number against the range that right roundings lie in."""
    low, high = right_number(truth["low"]), right_number(truth["high"])
    if not low <= high:
        raise TruthError(f"{question.key} has no right number")
    if not is_number(given):
        remark = f"{_place(question)} must be a number, without quotes or units."
        return failed(f"It is {kind_of(given)}.", remark)
    if low <= given <= high:
        return passed()
    slips = (why for value, why in truth["slips"] if abs(given - value) <= SLIP_RTOL * abs(value))
    return replace(failed(f"{shown(given)}."), think=next(slips, truth["hint"]))
