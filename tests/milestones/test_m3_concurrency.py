"""What milestone 3 promises: figures worked by hand, exact truth, and checks that never crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from milestones.m3_concurrency import MILESTONE as WHOLE_MILESTONE
from milestones.m3_concurrency.checks import DISAGREE, NEGATIVE, WHOLE
from milestones.spec import Answer, Answers, Call, Files, Verdict
from solutions.exam import write_questions
from solutions.m3_concurrency.oracle import CONTEXT, KNOWN, REQUESTS, Machine
from tests.milestones.closing import without_closing

SEED = (11).to_bytes(32, "big")
MILESTONE = without_closing(WHOLE_MILESTONE)
CHECKS = MILESTONE.checks
JUNK: tuple[Any, ...] = (
    None,
    True,
    False,
    "3",
    "",
    [],
    [3],
    {},
    {"requests": 3},
    -1,
    -0.5,
    3.567,
    1e308,
    -1e308,
    2**1000,
    -(2**1000),
)


@dataclass(frozen=True)
class Exam:
    """One drawn split of the milestone: its calls, its right answers and its truth."""

    calls: tuple[Call, ...]
    right: Mapping[str, int]
    truth: Files

    def judged(self, answer: Callable[[Call], Any]) -> dict[str, Verdict]:
        """Judge every check on the answers that `answer` gives."""
        given = Answers({call.id: Answer(call, answer(call)) for call in self.calls})
        return {check.name: check.judge(given, self.truth) for check in CHECKS}


@pytest.fixture(scope="module")
def exam(tmp_path_factory: pytest.TempPathFactory) -> Exam:
    folder: Path = tmp_path_factory.mktemp("m3") / "split"
    write_questions(folder, SEED, 0, slugs=(MILESTONE.slug,))
    truth = Files(folder / "truth")
    calls = tuple(MILESTONE.calls(Files(folder / "questions")))
    return Exam(calls, truth.json("m3_concurrency/answers.json"), truth)


def bytes_needed(call: Call, n_requests: int, context_len: int) -> Fraction:
    """Weights and caches together, in exact bytes, from a question's own arguments."""
    args = call.args
    weights = Fraction(str(args["params_b"])) * 10**9 * Fraction(args["weight_bits"], 8)
    values = 2 * args["n_layers"] * args["n_kv_heads"] * args["head_dim"]
    return weights + Fraction(values * args["kv_bits"] * n_requests * context_len, 8)


def bytes_usable(call: Call) -> Fraction:
    fraction = Fraction(str(call.args.get("memory_fraction", 0.92)))
    return fraction * Fraction(str(call.args["gpu_memory_gb"])) * 10**9


def fits(call: Call, answer: int) -> bool:
    """Tell whether as many requests, or tokens, as `answer` says fit into the usable memory."""
    if call.function == REQUESTS:
        return bytes_needed(call, answer, call.args["context_len"]) <= bytes_usable(call)
    return bytes_needed(call, call.args["n_requests"], answer) <= bytes_usable(call)


def test_the_named_figures_are_the_truth(exam: Exam) -> None:
    assert [exam.right[f"known/{i}"] for i in range(3)] == [3, 7, 0]
    quotients = [float(machine.quotient(context)) for machine, context in KNOWN[:3]]
    assert [round(quotient, 3) for quotient in quotients] == [3.567, 7.134, 0.446]


def test_the_capacity_of_the_example_is_116_882_tokens() -> None:
    machine = Machine("80", "70.6", 4, 80, 8, 128, 16)
    assert machine.answer(1) == 116_882
    assert machine.answer(4_096) == 28


def test_every_answer_fits_and_one_more_does_not(exam: Exam) -> None:
    for call in exam.calls:
        right = exam.right[call.id]
        assert not fits(call, right + 1), call
        assert right == 0 or fits(call, right), call
        assert right >= 0


def test_no_question_lies_near_a_whole_number(exam: Exam) -> None:
    for call in exam.calls:
        given = call.args["context_len" if call.function == REQUESTS else "n_requests"]
        per_unit = bytes_needed(call, 1, given) - bytes_needed(call, 0, 0)
        quotient = (bytes_usable(call) - bytes_needed(call, 0, 0)) / per_unit
        nearest = round(quotient)
        assert nearest < 1 or abs(quotient - nearest) > Fraction(nearest, 10**6), call


def test_a_boundary_is_refused_and_its_neighbours_are_not() -> None:
    # 1 GB used whole, no weights to speak of, 2 bytes a value: 10**9 bytes / (2 * 2 * 1 * 125).
    machine = Machine("1", "0.000000000", 16, 1, 1, 125, 16, fraction="1")
    assert machine.capacity_tokens == 2_000_000
    assert not machine.is_safe(1_000)
    assert machine.is_safe(1_001)


def test_zero_is_the_answer_when_weights_or_the_first_request_do_not_fit(exam: Exam) -> None:
    calls = [call for call in exam.calls if call.topic == "nothing_fits"]
    assert all(exam.right[call.id] == 0 for call in calls)
    weights_fit = [bytes_needed(call, 0, 0) <= bytes_usable(call) for call in calls]
    assert any(weights_fit)
    assert not all(weights_fit)
    assert {call.function for call in calls} == {REQUESTS, CONTEXT}


def test_other_fractions_change_the_answer(exam: Exam) -> None:
    calls = [call for call in exam.calls if call.topic == "fraction"]
    assert {call.function for call in calls} == {REQUESTS, CONTEXT}
    for call in calls:
        assert "memory_fraction" in call.args
        usual = {k: v for k, v in call.args.items() if k != "memory_fraction"}
        at_default = Call(call.id, call.function, usual)
        right = exam.right[call.id]
        assert not (fits(at_default, right) and not fits(at_default, right + 1))


def test_right_answers_earn_every_point(exam: Exam) -> None:
    assert all(v.passed for v in exam.judged(lambda call: exam.right[call.id]).values())
    assert all(v.passed for v in exam.judged(lambda call: float(exam.right[call.id])).values())


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_junk_neither_crashes_a_check_nor_passes_it(exam: Exam, junk: Any) -> None:
    verdicts = exam.judged(lambda _: junk)
    assert not any(verdict.passed for verdict in verdicts.values())


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_one_junk_answer_among_right_ones_fails_its_check(exam: Exam, junk: Any) -> None:
    for check in CHECKS:
        last = [call.id for call in exam.calls if call.topic in check.topics][-1]
        verdicts = exam.judged(
            lambda call, last=last: junk if call.id == last else exam.right[call.id]  # type: ignore[misc]
        )
        assert [name for name, verdict in verdicts.items() if not verdict.passed] == [check.name]


def test_a_constant_passes_nothing_but_the_zero_of_nothing_fits(exam: Exam) -> None:
    verdicts = exam.judged(lambda _: 0)
    assert [name for name, verdict in verdicts.items() if verdict.passed] == ["nothing_fits"]


def test_one_request_is_told_as_one(exam: Exam) -> None:
    assert exam.judged(lambda _: 1)["trade_off"].detail.startswith("1 request: that is ")


@pytest.mark.parametrize("shift", [-1, 1])
def test_one_too_few_and_one_too_many_both_fail_the_trade(exam: Exam, shift: int) -> None:
    assert not exam.judged(lambda call: exam.right[call.id] + shift)["trade_off"].passed


def test_functions_that_disagree_are_told_so_and_functions_that_agree_are_not(exam: Exam) -> None:
    def half_requests(call: Call) -> int:
        right = exam.right[call.id]
        return right // 2 if call.function == REQUESTS else right

    def another_machine(call: Call) -> int:
        """Answer consistently, for a machine with four fifths of the tokens."""
        for machine in exam.truth.json("m3_concurrency/capacities.json"):
            if call.id in machine["calls"]:
                given = call.args.get("context_len", call.args.get("n_requests"))
                return int(0.8 * machine["tokens"] // given)
        return exam.right[call.id]

    assert exam.judged(half_requests)["trade_off"].remark == DISAGREE
    assert exam.judged(another_machine)["trade_off"].remark == ""
    assert not exam.judged(another_machine)["trade_off"].passed


def test_what_hidden_sets_show_is_one_of_three_sentences(exam: Exam) -> None:
    wrong: list[Callable[[Call], Any]] = [
        lambda _: 3.567,
        lambda _: -4,
        lambda call: exam.right[call.id] + 7,
        lambda call: exam.right[call.id] // 2,
    ]
    remarks = {verdict.remark for answer in wrong for verdict in exam.judged(answer).values()}
    assert remarks <= {"", WHOLE, NEGATIVE, DISAGREE}


def test_points_sum_to_fifteen() -> None:
    assert WHOLE_MILESTONE.points == 15
