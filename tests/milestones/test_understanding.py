"""Closing questions: fair to words and roundings, deaf to tricks, and kind when wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import milestones
from grader.judge import judge, read_mistakes
from grader.report import CheckReport, Outcome
from milestones.compare import TruthError
from milestones.questions import (
    Question,
    QuestionError,
    _read,
    read_questions,
    shuffled,
)
from milestones.spec import Answer, Answers, Call, Files
from milestones.understanding import SLIP_RTOL, VARIABLE, understanding_checks
from solutions.exam import named_mistakes, reference_answers, write_questions
from solutions.lesson import for_student, read_lesson, student_notebook
from solutions.proof import prove
from solutions.understanding import read_secrets

SEED = (31).to_bytes(32, "big")
DICT_QUESTIONS = [
    (slug, question)
    for slug in milestones.all_slugs()
    for question in read_questions(slug)
    if question.kind != "function"
]
CHOICES = [(slug, question) for slug, question in DICT_QUESTIONS if question.kind == "choice"]
NUMBERS = [(slug, question) for slug, question in DICT_QUESTIONS if question.kind == "number"]


def named(value: Any) -> str | None:
    return value.key if isinstance(value, Question) else None


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder: Path = tmp_path_factory.mktemp("understanding") / "split"
    write_questions(folder, SEED, 0)
    return Files(folder / "truth")


def judged(slug: str, given: Any, truth: Files) -> dict[str, CheckReport]:
    """Judge a dict `understanding` on the questions that it answers."""
    call = Call(VARIABLE, VARIABLE, {}, variable=True)
    answers = Answers({VARIABLE: Answer(call, given)})
    reports = {}
    for check in understanding_checks(slug):
        if check.topics == (VARIABLE,):
            milestone = milestones.load(slug)
            alone = type(milestone)(slug, "", (), milestone.calls, (check,))
            reports[check.name] = judge(alone, answers, truth, (), public=False)[0]
    return reports


def right_answers(slug: str) -> dict[str, Any]:
    return {
        key: secret.get("right", secret.get("stated")) for key, secret in read_secrets(slug).items()
    }


def outcome_of(slug: str, key: str, given: Any, truth: Files) -> tuple[Outcome, str]:
    report = judged(slug, right_answers(slug) | {key: given}, truth)[key]
    return report.outcome, report.hint


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_a_notebook_ends_with_three_to_five_questions_of_a_quarter_point_each(slug: str) -> None:
    questions = read_questions(slug)
    assert 3 <= len(questions) <= 5
    assert {question.points for question in questions} == {0.25}
    assert len({question.key for question in questions}) == len(questions)
    assert {question.kind for question in questions} >= {"choice", "function"}
    last = [cell.source for cell in student_notebook(slug).cells if cell.cell_type == "markdown"][
        -1
    ]
    assert last.startswith("## Check your understanding")
    for question in questions:
        assert question.asks.strip() in last
        assert all(f"\n- {option}" in last for option in question.options)


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_a_student_finds_every_key_in_the_dict_and_no_answer(slug: str) -> None:
    cell = next(c for c in read_lesson(slug) if c.kind == "exercise" and c.name == VARIABLE)
    namespace: dict[str, Any] = {}
    exec(for_student(cell), namespace)
    keys = [question.key for question in read_questions(slug) if question.kind != "function"]
    assert namespace[VARIABLE] == dict.fromkeys(keys)


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_right_answers_pass_and_each_question_is_judged_alone(slug: str, truth: Files) -> None:
    right = right_answers(slug)
    assert {r.outcome for r in judged(slug, right, truth).values()} == {Outcome.PASSED}
    for key in [question.key for s, question in DICT_QUESTIONS if s == slug]:
        without = judged(slug, {k: v for k, v in right.items() if k != key}, truth)
        assert [name for name, r in without.items() if r.outcome is Outcome.FAILED] == [key]
        assert without[key].hint == f"`{VARIABLE}[{key!r}]` is not answered yet."


@pytest.mark.parametrize(("slug", "question"), CHOICES, ids=named)
def test_every_wrong_option_says_what_it_overlooks(
    slug: str, question: Question, truth: Files
) -> None:
    secret = read_secrets(slug)[question.key]
    wrong = {entry["says"]: entry["why"] for entry in secret["wrong"]}
    assert {*wrong, secret["right"]} == set(question.options)
    assert len(set(wrong.values())) == len(wrong)
    for option, why in wrong.items():
        assert outcome_of(slug, question.key, option, truth) == (Outcome.FAILED, why)


@pytest.mark.parametrize(("slug", "question"), CHOICES, ids=named)
def test_case_spaces_quotes_and_a_last_dot_are_no_mistake(
    slug: str, question: Question, truth: Files
) -> None:
    right = right_answers(slug)[question.key]
    for form in (
        right.upper(),
        f"  {right}.\n",
        f"`{right}`",
        f'"{right}."',
        right.replace(" ", "  \n "),
        right.replace("'", "’"),
    ):
        assert outcome_of(slug, question.key, form, truth)[0] is Outcome.PASSED, form


@pytest.mark.parametrize(("slug", "question"), CHOICES, ids=named)
def test_no_trick_chooses_an_option(slug: str, question: Question, truth: Files) -> None:
    right = right_answers(slug)[question.key]
    tricks: list[Any] = [
        " ".join(question.options),
        "; ".join([right, *question.options]),
        right[: len(right) // 2],
        "",
        "a",
        [right],
        list(question.options),
        {right: True},
        True,
        0,
        1.5,
    ]
    for trick in tricks:
        outcome, hint = outcome_of(slug, question.key, trick, truth)
        assert outcome is Outcome.FAILED
        assert question.key in hint
        assert right not in hint


@pytest.mark.parametrize(("slug", "question"), NUMBERS, ids=named)
def test_a_stated_number_is_right_within_its_range_and_told_by_its_slip_outside(
    slug: str, question: Question, truth: Files
) -> None:
    secret = read_secrets(slug)[question.key]
    low, high = secret["low"], secret["high"]
    for value in (low, high, secret["stated"], float(low)):
        assert outcome_of(slug, question.key, value, truth)[0] is Outcome.PASSED
    for entry in secret["wrong"]:
        for says in entry["says"]:
            assert not low <= says <= high
            assert outcome_of(slug, question.key, says, truth) == (Outcome.FAILED, entry["why"])
    said = [says for entry in secret["wrong"] for says in entry["says"]]
    far = max([high, *said]) * (2 + SLIP_RTOL)
    assert outcome_of(slug, question.key, far, truth) == (Outcome.FAILED, secret["hint"])


@pytest.mark.parametrize(("slug", "question"), NUMBERS, ids=named)
@pytest.mark.parametrize("junk", ["13", "13 GB", [13], {}, True, False, ""], ids=repr)
def test_only_a_number_is_a_number(slug: str, question: Question, junk: Any, truth: Files) -> None:
    outcome, hint = outcome_of(slug, question.key, junk, truth)
    assert outcome is Outcome.FAILED
    assert hint == f"`{VARIABLE}[{question.key!r}]` must be a number, without quotes or units."


@pytest.mark.parametrize(("slug", "question"), NUMBERS, ids=named)
@pytest.mark.parametrize("value", [2**1000, -(2**1000), 1e308, -1e308, 0, -0.0, 1e-300], ids=repr)
def test_numbers_of_any_size_are_judged(
    slug: str, question: Question, value: float, truth: Files
) -> None:
    assert outcome_of(slug, question.key, value, truth)[0] is Outcome.FAILED


@pytest.mark.parametrize("junk", [None, [], "text", 3, True], ids=repr)
def test_what_is_no_dict_is_told_so(junk: Any, truth: Files) -> None:
    for slug in milestones.all_slugs():
        for report in judged(slug, junk, truth).values():
            assert report.outcome is Outcome.FAILED
            assert report.hint == f"`{VARIABLE}` is not a dict."


def test_options_that_are_not_those_of_the_truth_are_our_fault(truth: Files) -> None:
    slug, question = CHOICES[0]
    stored: Mapping[str, Any] = truth.json(f"{slug}/understanding.json")[question.key]
    assert {*stored["why"], stored["right"]} == set(question.options)
    check = next(c for c in understanding_checks(slug) if c.name == question.key)

    class Changed(Files):
        def json(self, path: str) -> Any:  # noqa: ARG002
            return {question.key: {**stored, "right": "something else"}}

    call = Call(VARIABLE, VARIABLE, {}, variable=True)
    answers = Answers({VARIABLE: Answer(call, {question.key: stored["right"]})})
    with pytest.raises(TruthError):
        check.judge(answers, Changed(truth.root))


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_every_wrong_answer_is_a_named_mistake(slug: str) -> None:
    known = {(mistake.caught_by, mistake.hint) for mistake in named_mistakes(slug)}
    asked = {question.key for question in read_questions(slug)}
    for key, secret in read_secrets(slug).items():
        for entry in secret["wrong"]:
            assert (key, entry["why"]) in known
    assert {caught_by for caught_by, _ in known} >= asked
    names = [mistake.name for mistake in named_mistakes(slug)]
    assert len(set(names)) == len(names)


def test_the_order_of_options_follows_the_seed_and_never_the_right_answer() -> None:
    places = []
    for slug, question in CHOICES:
        orders = {shuffled(slug, question, seed) for seed in map(str, range(20))}
        assert len(orders) > 3
        assert all(sorted(order) == list(question.options) for order in orders)
        assert shuffled(slug, question) == shuffled(slug, question)
        places.append(shuffled(slug, question).index(right_answers(slug)[question.key]))
    assert max(map(places.count, places)) <= len(places) / 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('key = "a"\nkind = "choice"\npoints = 1\nasks = "?"', "promise"),
        ('key = "a"\nkind = "choice"\npoints = 1\nasks = "?"\npromise = "p"', "three or more"),
        (
            'key = "a"\nkind = "choice"\npoints = 1\nasks = "?"\npromise = "p"\n'
            'options = ["x", "X.", "y"]',
            "three or more",
        ),
        (
            'key = "a"\nkind = "choice"\npoints = 1\nasks = "?"\npromise = "p"\n'
            'options = ["b", "a", "c"]',
            "alphabetical",
        ),
        (
            'key = "a"\nkind = "number"\npoints = 1\nasks = "?"\npromise = "p"\n'
            'options = ["a", "b", "c"]',
            "only a choice",
        ),
        ('key = "a"\nkind = "function"\npoints = 1\nasks = "?"\npromise = "p"', "`think`"),
    ],
)
def test_a_malformed_question_is_told_with_its_file_and_key(
    text: str, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "questions.toml"
    path.write_text(f"[[question]]\n{text}\n", encoding="utf-8")
    with pytest.raises(QuestionError, match=rf"questions\.toml: a: .*{told}"):
        _read(path)


def test_two_wrong_answers_at_once_each_read_their_own_hint(tmp_path: Path) -> None:
    slug = "m3_concurrency"
    write_questions(tmp_path / "split", SEED, 0, slugs=(slug,))
    assert prove(slug, tmp_path / "split").faults == ()
    secrets = read_secrets(slug)
    wrong = {
        key: entry["says"] if isinstance(entry["says"], str) else entry["says"][0]
        for key, secret in secrets.items()
        for entry in secret["wrong"][-1:]
    }
    answers = reference_answers(slug, tmp_path / "split")
    told = answers.by_id[VARIABLE]
    both = Answers({**answers.by_id, VARIABLE: Answer(told.call, wrong)})
    files = Files(tmp_path / "split" / "truth")
    reports = judge(milestones.load(slug), both, files, read_mistakes(files, slug), public=True)
    found = {r.name: r for r in reports if r.outcome is Outcome.FAILED}
    assert found.keys() == secrets.keys()
    for key, report in found.items():
        entry = secrets[key]["wrong"][-1]
        assert report.mistake == entry["name"]
        assert report.hint.endswith(entry["why"])
        assert report.hint.startswith(f"`{VARIABLE}[{key!r}]`: ")
