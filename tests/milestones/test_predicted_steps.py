"""What the model milestones share: usable predictions, figures against bars, a second run."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from milestones.compare import same_again
from milestones.predicted_steps import judge_mape, judge_r2, usable
from milestones.spec import Answer, Answers, Call, Problem

RUNS = pd.DataFrame(
    {
        "run_id": [f"r{i}" for i in range(200)],
        "decode_step_ms": np.linspace(1.0, 50.0, 200),
        "tokens_per_s": 16_000 / np.linspace(1.0, 50.0, 200),  # a batch of 16 everywhere
    }
)
STEP = RUNS["decode_step_ms"].to_numpy()


@pytest.mark.parametrize(
    ("off_by", "share"),
    [(0.0, 1.0), (0.0899, 1.0), (0.0901, 0.5), (0.1124, 0.5), (0.1126, 0.0)],
)
def test_a_mape_earns_all_up_to_the_bar_and_half_up_to_a_quarter_beyond(
    off_by: float, share: float
) -> None:
    verdict = judge_mape(STEP * (1 + off_by), RUNS, 0.09)
    assert verdict.share == share
    assert verdict.figure == pytest.approx(off_by)


def test_r2_is_that_of_the_throughput_which_the_steps_imply() -> None:
    rng = np.random.default_rng(0)
    predicted = STEP * np.exp(0.1 * rng.standard_normal(len(STEP)))
    implied, actual = 1000 * 16 / predicted, RUNS["tokens_per_s"].to_numpy()
    by_hand = 1 - np.sum((implied - actual) ** 2) / np.sum((actual - actual.mean()) ** 2)
    assert judge_r2(predicted, RUNS, 0.95).figure == pytest.approx(by_hand)


def test_a_figure_near_its_bar_is_too_close_to_call() -> None:
    rng = np.random.default_rng(1)
    off_by = np.abs(rng.standard_normal(len(STEP)))
    predicted = STEP * (1 + 0.0905 * off_by / off_by.mean())
    assert "too close to call" in judge_mape(predicted, RUNS, 0.09).remark
    assert "too close to call" not in judge_mape(predicted, RUNS, 0.5).remark


@pytest.mark.parametrize(
    "predicted",
    [
        np.full(200, np.nan),
        np.full(200, np.inf),
        np.where(np.arange(200) == 7, -1.0, STEP),
        np.where(np.arange(200) == 7, 0.0, STEP),
        np.full(200, 1e-9),
        np.full(200, 1e300),
        STEP[:-1],
        STEP[:, None],
        np.array(3.0),
        np.empty(0),
    ],
)
def test_times_that_no_step_can_take_are_not_usable(predicted: np.ndarray) -> None:
    verdict = usable(predicted, 200)
    assert not verdict.passed
    assert verdict.remark


def _answers(first: Any, second: Any) -> Answers:
    call = Call("topic", "function", {})
    again = second if isinstance(second, dict) else {"topic": Answer(call, second)}
    return Answers({"topic": Answer(call, first)}, again)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 2.0]) * (1 + 1e-9)),
        ([1.0, 2.0], [1.0, 2.0]),
        ({"a": 1}, {"topic": Answer(Call("topic", "function", {}), {"a": 1})}),
        (np.array([np.nan]), np.array([np.nan])),
    ],
)
def test_a_second_run_may_differ_by_rounding_only(first: Any, second: Any) -> None:
    assert same_again(_answers(first, second), ["topic"]).passed


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 2.001])),
        (np.array([1.0, 2.0]), np.array([1.0])),
        ([1.0], "text"),
        (np.array([1.0]), {}),
        (
            np.array([1.0]),
            {"topic": Answer(Call("topic", "function", {}), problem=Problem("raised"))},
        ),
    ],
)
def test_a_second_run_that_differs_is_not_reproducible(first: Any, second: Any) -> None:
    verdict = same_again(_answers(first, second), ["topic"])
    assert not verdict.passed
    assert "not reproducible" in verdict.remark


def test_what_ended_the_second_run_is_told_and_not_called_another_answer() -> None:
    none = Answer(Call("topic", "function", {}), problem=Problem("`function` is not defined"))
    verdict = same_again(_answers(1.0, {"topic": none}), ["topic"])
    assert "different answers" not in verdict.remark
    assert verdict.remark.endswith("The second time, `function` is not defined.")


def test_without_a_second_run_there_is_nothing_to_differ() -> None:
    answers = Answers({"topic": Answer(Call("topic", "function", {}), 1)})
    assert same_again(answers, ["topic"]).passed


@pytest.mark.parametrize("shape", [(0, 529, 65_719), (529,), (), (200, 2)])
def test_a_wrong_shape_is_named_in_the_detail_alone(shape: tuple[int, ...]) -> None:
    # A shape is chosen by the notebook, which may have seen hidden questions.
    verdict = usable(np.zeros(shape), len(RUNS))
    assert not verdict.passed
    assert str(shape) in verdict.detail
    assert not any(letter.isdigit() for letter in verdict.remark)


@pytest.mark.parametrize(("factor", "told"), [(1e7, "above 10"), (1e-3, "below -10")])
def test_a_figure_that_is_far_off_is_told_without_digits_that_spell_a_label(
    factor: float, told: str
) -> None:
    # One row far off and the others right: all digits of the figure would be digits of its label.
    predicted = STEP.copy()
    predicted[7] *= factor
    judged = judge_mape if factor > 1 else judge_r2
    assert f" is {told}; the bar is" in judged(predicted, RUNS, 0.09).remark
