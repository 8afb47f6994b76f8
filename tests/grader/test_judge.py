"""Judging is a pure function of answers and truth: outcomes, points, hints and what is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grader.ask import Desk
from grader.judge import Mistake, judge, mistake_as_json, probe, read_mistakes, shows
from grader.report import Outcome
from grader.trouble import Trouble
from grader.trouble import problem as problem_of
from milestones.figures import at_least, at_most, bootstrap_interval, mape, r2
from milestones.spec import (
    Answer,
    Answers,
    Call,
    Check,
    Files,
    Milestone,
    Problem,
    Verdict,
    check,
    failed,
    passed,
)


@check(points=2, topics=["number"])
def is_seven(answers: Answers, _truth: Files) -> Verdict:
    """The number is seven."""
    value = answers.value("number/0")
    return passed() if value == 7 else failed(f"number(0) returned {value}.")


@check(points=3, topics=["number"], needs=["is_seven"])
def is_prime(_answers: Answers, _truth: Files) -> Verdict:
    """The number is prime."""
    return passed()


@check(points=1, topics=["number"])
def has_a_fault(_answers: Answers, _truth: Files) -> Verdict:
    """This check has a fault of ours."""
    raise KeyError("a fault of ours")


CALL = Call("number/0", "number", {"n": 0})


def judged(
    answer: Answer, *checks: Check, mistakes: tuple[Mistake, ...] = (), public: bool = True
) -> Any:
    milestone = Milestone("m0", "Numbers", ("number",), lambda _questions: [CALL], checks)
    return judge(
        milestone, Answers({answer.call.id: answer}), Files(Path()), mistakes, public=public
    )


def test_a_right_answer_passes_with_every_point() -> None:
    (report,) = judged(Answer(CALL, 7), is_seven)
    assert (report.outcome, report.points, report.points_max) == (Outcome.PASSED, 2, 2)


def test_a_wrong_answer_fails_and_the_check_that_waits_for_it_is_skipped() -> None:
    first, second = judged(Answer(CALL, 8), is_seven, is_prime)
    assert (first.outcome, second.outcome) == (Outcome.FAILED, Outcome.SKIPPED)
    assert second.points == 0
    assert is_seven.sentence in second.hint


def test_a_fault_of_ours_is_broken_never_zero_with_a_shrug_or_full_marks() -> None:
    (report,) = judged(Answer(CALL, 7), has_a_fault)
    assert report.outcome is Outcome.BROKEN
    assert report.points is None
    assert "not your fault" in report.hint
    assert "a fault of ours" not in report.hint  # no traceback text


def test_a_check_without_a_question_is_broken_not_passed() -> None:
    milestone = Milestone("m0", "Numbers", (), lambda _questions: [], (is_seven,))
    (report,) = judge(milestone, Answers({}), Files(Path()), (), public=True)
    assert report.outcome is Outcome.BROKEN


def test_an_answer_with_a_problem_fails_with_its_reason_and_is_never_judged() -> None:
    problem = Problem(
        "`number` raised ValueError on a question", "number(n=0) raised ValueError: x"
    )
    (report,) = judged(Answer(CALL, problem=problem), has_a_fault)
    assert report.outcome is Outcome.FAILED
    assert problem.detail in report.hint


@pytest.mark.parametrize(
    "function",
    [lambda n: 1 / n, lambda n: {n}, lambda n: [1j]],  # noqa: ARG005
    ids=["raises", "gives-a-set", "gives-a-complex-number"],
)
def test_a_question_that_ends_in_no_answer_is_told_as_asked_on_a_public_split_alone(
    function: Any,
) -> None:
    call = replace(CALL, args={"n": 0})
    met = Desk(None).ask({"number": function}, call)  # type: ignore[arg-type]
    assert isinstance(met, Trouble)
    answer = Answer(call, problem=problem_of(call, met))
    (public,), (hidden,) = (judged(answer, has_a_fault, public=told) for told in (True, False))
    assert public.diagnosis is not None
    assert hidden.diagnosis is not None
    assert (public.diagnosis.asked, hidden.diagnosis.asked) == ("number(n=0)", "")
    assert "number(n=0)" not in public.diagnosis.came_back  # it is told once
    assert public.hint.startswith("number(n=0): ")


@pytest.mark.parametrize("namespace", [{}, {"number": 3}], ids=["missing", "no-function"])
def test_a_question_that_nobody_could_put_is_not_told(namespace: dict[str, Any]) -> None:
    met = Desk(None).ask(namespace, CALL)  # type: ignore[arg-type]
    assert isinstance(met, Trouble)
    (report,) = judged(Answer(CALL, problem=problem_of(CALL, met)), has_a_fault)
    assert report.diagnosis is not None
    assert report.diagnosis.asked == ""


def test_on_a_hidden_split_no_question_and_no_value_is_told() -> None:
    problem = Problem("`number` raised ValueError on a question", "number(n=12345) raised 67890")
    (raised,) = judged(Answer(CALL, problem=problem), is_seven, public=False)
    (wrong,) = judged(Answer(CALL, 8), is_seven, public=False)
    assert raised.hint == "`number` raised ValueError on a question."
    assert wrong.hint == ""


MISTAKE = Mistake("eight", ("is_seven",), "Seven, not eight: count again.", {"number/0": 8})


@pytest.mark.parametrize(("value", "hinted"), [(8, True), (8.0, True), (9, False), ("8", False)])
def test_a_hint_is_read_by_those_whose_answers_equal_the_mistakes(value: Any, hinted: bool) -> None:
    (report,) = judged(Answer(CALL, value), is_seven, mistakes=(MISTAKE,))
    assert (MISTAKE.hint in report.hint) is hinted


@pytest.mark.parametrize(("column", "hinted"), [(0, True), (1, False)])
def test_a_mistake_is_recognised_by_what_the_check_reads_alone(column: int, hinted: bool) -> None:
    right = np.ones((50, 2))
    wrong = right * [8, 1]
    mistake = Mistake("m", ("is_seven",), "Hm.", {"number/0": probe(wrong, right)})
    reading = replace(_fails, reads=(column,))
    (report,) = judged(Answer(CALL, right * [8, 5]), reading, mistakes=(mistake,))
    assert (report.hint == "Hm.") is hinted

    by_key = Mistake("m", ("is_seven",), "Hm.", {"number/0": {"a": 8, "b": 1}})
    reading = replace(_fails, reads=(("a", "b")[column],))
    (report,) = judged(Answer(CALL, {"a": 8, "b": 5, "c": 0}), reading, mistakes=(by_key,))
    assert (report.hint == "Hm.") is hinted


def test_a_function_that_returns_nothing_is_asked_about_its_return() -> None:
    thinking = replace(is_seven, think="Count again.")
    for value, call, think in (
        (None, CALL, "Does the function `return` its result?"),
        (8, CALL, "Count again."),
        (None, replace(CALL, variable=True), "Count again."),
    ):
        (report,) = judged(Answer(call, value), thinking)
        assert report.diagnosis.think.startswith(think)


def test_nothing_but_zeros_is_read_as_no_mistake() -> None:
    calls = [Call(f"number/{i}", "number", {"n": i}) for i in range(2)]
    milestone = Milestone("m0", "Numbers", ("number",), lambda _questions: calls, (is_seven,))
    mistake = Mistake("m", ("is_seven",), "Hm.", {"number/0": 0, "number/1": 0})
    eight = replace(mistake, answers={"number/0": 0, "number/1": 8})
    for stored, values, told in ((mistake, (0, 0), False), (eight, (0, 8), True)):
        answers = {c.id: Answer(c, value) for c, value in zip(calls, values, strict=True)}
        (report,) = judge(milestone, Answers(answers), Files(Path()), (stored,), public=True)
        assert (report.mistake == "m") is told


def test_a_check_that_sees_problems_judges_them_itself() -> None:
    counting = replace(_fails, sees_problems=True, judge=lambda _answers, _truth: passed())
    (report,) = judged(Answer(CALL, problem=Problem("it raised")), counting)
    assert report.outcome is Outcome.PASSED


def test_a_mistake_that_cannot_answer_is_known_by_that_too() -> None:
    raised = "`number` raised IndexError on a question"
    mistake = Mistake("m", ("is_seven",), "Hm.", {}, {"number/0": raised})
    for summary, hint in ((raised, " Hm."), ("`number` is not written yet", "")):
        answer = Answer(CALL, problem=Problem(summary))
        (report,) = judged(answer, is_seven, mistakes=(mistake,), public=False)
        assert report.hint == f"{summary}.{hint}"


def test_a_hint_is_kept_for_the_checks_it_belongs_to() -> None:
    elsewhere = Mistake("eight", ("is_prime",), MISTAKE.hint, MISTAKE.answers)
    (report,) = judged(Answer(CALL, 8), is_seven, mistakes=(elsewhere,))
    assert MISTAKE.hint not in report.hint


def test_a_long_array_is_known_by_the_rows_in_which_the_mistake_is_wrong(tmp_path: Path) -> None:
    right = np.linspace(1, 2, 4_000)
    wrong = np.where(np.arange(4_000) < 3_000, right, np.nan)  # right in its first 3,000 rows
    wrong[3_500:] = right[3_500:] * 2
    answers = {"number/0": probe(wrong, right)}
    stored = [
        {"name": "m", "checks": ["is_seven"], "hint": "Hm.", "answers": answers, "problems": {}}
    ]
    folder = tmp_path / "m0"
    folder.mkdir()
    (folder / "mistakes.json").write_text(json.dumps(stored, allow_nan=False))
    (mistake,) = read_mistakes(Files(tmp_path), "m0")

    def hint(value: np.ndarray) -> str:
        (report,) = judged(Answer(CALL, value), _fails, mistakes=(mistake,))
        return str(report.hint)

    assert hint(wrong * (1 + 1e-12)) == "Hm."
    for other in (wrong * (1 + 1e-6), right, wrong[:3_600], np.array(1.0), wrong[:, None]):
        assert hint(other) == ""


def test_a_long_text_is_known_by_a_hash_and_can_be_read_by_nobody() -> None:
    text = "Eight H200, because they are cheap. " * 20
    stored = probe(text, "right")
    assert "H200" not in json.dumps(stored)
    assert probe("short", "right") == "short"
    mistake = Mistake("m", ("is_seven",), "Hm.", {"number/0": stored})
    for value, hint in ((text, "Hm."), (text + " ", ""), ("short", "")):
        (report,) = judged(Answer(CALL, value), _fails, mistakes=(mistake,))
        assert report.hint == hint, value


def test_a_mistake_is_not_read_into_answers_that_are_wrong_elsewhere() -> None:
    right, wrong = np.linspace(1, 2, 100), np.linspace(1, 2, 100)
    wrong[7] = 0.0
    answers = {"number/0": probe(wrong, right)}
    mistake = Mistake("m", ("is_seven",), "Hm.", answers)
    also_wrong = wrong.copy()
    also_wrong[0] = 5.0
    for value, hint in ((wrong, "Hm."), (also_wrong, "")):
        (report,) = judged(Answer(CALL, value), _fails, mistakes=(mistake,))
        assert report.hint == hint


def test_a_mistake_that_only_loses_the_sign_of_a_zero_is_known_by_that_sign(tmp_path: Path) -> None:
    right = np.arange(1.0, 101.0)
    right[[40, 41]] = (0.0, -0.0)
    wrong = np.where(right == 0, 0.0, right)
    mistake = Mistake("m", ("is_seven",), "Hm.", {"number/0": probe(wrong, right)})
    (tmp_path / "m0").mkdir()
    stored = json.dumps([mistake_as_json(mistake)], allow_nan=False)
    (tmp_path / "m0" / "mistakes.json").write_text(stored)
    (read,) = read_mistakes(Files(tmp_path), "m0")
    elsewhere = right.copy()
    elsewhere[7] = 5.0
    for value, hint in ((wrong, "Hm."), (elsewhere, ""), (right, ""), (np.abs(right), "Hm.")):
        (report,) = judged(Answer(CALL, value), _fails, mistakes=(read,))
        assert report.hint == hint


def test_the_sign_of_a_zero_counts_only_where_nothing_else_differs() -> None:
    right = np.array([0.0, 1.0, 2.0])
    wrong = np.array([-0.0, 1.0, 3.0])
    mistake = Mistake("m", ("is_seven",), "Hm.", {"number/0": probe(wrong, right)})
    (report,) = judged(Answer(CALL, np.abs(wrong)), _fails, mistakes=(mistake,))
    assert report.hint == "Hm."


def test_a_mistake_shows_in_a_check_only_where_its_answers_differ_in_what_that_check_reads() -> (
    None
):
    right = np.ones((50, 2))
    answers = Answers({CALL.id: Answer(CALL, right)})
    for wrong, reads, seen in (
        (right, (), False),
        (right * [1, 8], (), True),
        (right * [1, 8], (0,), False),
        (right * [1, 8], (1,), True),
    ):
        mistake = Mistake("m", ("is_seven",), "Hm.", {CALL.id: probe(wrong, right)})
        assert shows(mistake, replace(_fails, reads=reads), answers) is seen
    raised = Mistake("m", ("is_seven",), "Hm.", {}, {CALL.id: "`number` raised"})
    assert shows(raised, _fails, answers)


def test_a_mistake_in_the_words_of_an_exception_shows_though_it_is_known_in_any_wording() -> None:
    refusal = replace(CALL, returns="raised")
    right = Answers({CALL.id: Answer(refusal, {"raised": ["ValueError"], "message": "no n"})})
    reading = replace(_fails, reads=("raised",))
    for message, seen in (("no", True), ("no n", False)):
        answer = {"raised": ["ValueError"], "message": message}
        assert shows(Mistake("m", ("is_seven",), "Hm.", {CALL.id: answer}), reading, right) is seen


def test_who_passes_the_check_that_catches_a_mistake_has_not_made_it() -> None:
    both = replace(MISTAKE, checks=("is_seven", "_always_fails"), answers={"number/0": 7})
    for value, told in ((7, False), (8, True)):
        mistake = replace(both, answers={"number/0": value})
        reports = judged(Answer(CALL, value), is_seven, _always_fails, mistakes=(mistake,))
        assert (reports[1].mistake == "eight") is told
        alone = judged(Answer(CALL, value), _always_fails, mistakes=(mistake,))
        assert alone[0].mistake == "eight", "nothing is known of the other check"
        (settled,) = judge(
            Milestone("m0", "Numbers", ("number",), lambda _questions: [CALL], (_always_fails,)),
            Answers({CALL.id: Answer(CALL, value)}),
            Files(Path()),
            (mistake,),
            public=True,
            settled=reports[:1],
        )
        assert (settled.mistake == "eight") is told


def test_a_mistake_without_an_answer_to_a_question_is_not_read_into_one() -> None:
    mistake = Mistake("m", ("is_seven",), "Hm.", {})
    (report,) = judged(Answer(CALL, 8), is_seven, mistakes=(mistake,))
    assert "Hm." not in report.hint


@check(points=2, topics=["number"])
def _always_fails(_answers: Answers, _truth: Files) -> Verdict:
    """Fails."""
    return failed("")


_fails = Check("is_seven", "Fails.", 2, ("number",), _always_fails.judge)


# ---------------------------------------------------------------- figures


def test_mape_and_r2_are_those_of_the_definitions() -> None:
    assert mape([110, 180], [100, 200]) == pytest.approx(0.10)
    assert r2([1.0, 2.0, 4.0], [1.0, 2.0, 3.0]) == pytest.approx(0.5)  # SSE 1, SST 2
    assert r2([2.0, 2.0, 2.0], [1.0, 2.0, 3.0]) == 0.0


@pytest.mark.parametrize(
    ("figure", "share"), [(0.089, 1.0), (0.09, 1.0), (0.0901, 0.5), (0.1124, 0.5), (0.1126, 0.0)]
)
def test_a_figure_earns_half_between_its_bar_and_a_quarter_beyond(
    figure: float, share: float
) -> None:
    verdict = at_most(figure, 0.09, "the MAPE")
    assert (verdict.share, verdict.figure, verdict.bar) == (share, figure, 0.09)


@pytest.mark.parametrize(
    ("figure", "share"), [(0.98, 1.0), (0.97, 1.0), (0.965, 0.5), (0.9624, 0.0), (-3.0, 0.0)]
)
def test_a_figure_to_reach_earns_half_for_a_shortfall_a_quarter_beyond(
    figure: float, share: float
) -> None:
    assert at_least(figure, 0.97, "the R²").share == share


def test_not_a_number_earns_nothing() -> None:
    assert at_most(float("nan"), 0.09, "the MAPE").share == 0
    assert at_least(float("nan"), 0.97, "the R²").share == 0


@check(points=2, topics=["number"])
def endless(_answers: Answers, _truth: Files) -> Verdict:
    """The figure is finite."""
    return at_most(float("inf"), 0.09, "the MAPE")


def test_a_figure_that_no_report_can_carry_is_left_out() -> None:
    (report,) = judged(Answer(CALL, 7), endless)
    assert (report.outcome, report.figure, report.bar) == (Outcome.FAILED, None, 0.09)


def test_a_figure_whose_interval_holds_the_bar_is_too_close_to_call() -> None:
    errors = np.random.default_rng(1).exponential(0.09, 4_000)
    interval = bootstrap_interval(errors)
    assert interval[0] < errors.mean() < interval[1]
    assert "too close to call" in at_most(errors.mean(), 0.09, "the MAPE", interval).remark
    assert "too close to call" not in at_most(errors.mean(), 0.2, "the MAPE", interval).remark


def test_an_array_is_no_mistake_whose_answer_is_a_dict() -> None:
    mistake = Mistake("m", ("is_seven",), "Hm.", {"number/0": {"a": 8}})
    (report,) = judged(Answer(CALL, np.ones(3)), replace(_fails, reads=("a",)), mistakes=(mistake,))
    assert (report.outcome, report.hint) == (Outcome.FAILED, "")
