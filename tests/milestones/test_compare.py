"""What comes back is told as a person would: how far off, in which unit, of which kind."""

from __future__ import annotations

import math

import numpy as np
import pytest

from milestones.compare import array_agrees, how_far, kind_of, named, numbers_agree, shown
from milestones.spec import Answer, Call, Table

CALL = Call("size/0", "size", {"n": 3})


@pytest.mark.parametrize(
    ("value", "expected", "told"),
    [
        (163_840, 327_680, "163,840, which is 0.5 times the right value"),
        (2_621_440, 327_680, "2,621,440, which is 8 times the right value"),
        (351_844, 327_680, "351,844, 7.37% too high"),
        (327_681, 327_680, "327,681, off by 1"),
        (4, 3, "4, off by 1"),
        (4.5, 3, "4.5, which is 1.5 times the right value"),
        (205, 206, "205, off by -1"),
        (10, 327_680, "10, 32,768 times too small"),
        (2_359_296_000, 655_360, "2,359,296,000, which is 3,600 times the right value"),
        (0, 3, "0 where 3 was expected"),
        (1, 0, "1 where 0 was expected"),
        (-3, 3, "-3, which is -1 times the right value"),
    ],
)
def test_a_wrong_number_is_told_by_how_far_it_is_off(
    value: float, expected: float, told: str
) -> None:
    assert how_far(value, expected) == told


@pytest.mark.parametrize(
    ("number", "told"),
    [(1_720_320, "1,720,320"), (0.5, "0.5"), (1e20, "1e+20"), (2.5e-7, "2.5e-07"), (-4.0, "-4")],
)
def test_whole_numbers_are_shown_in_full(number: float, told: str) -> None:
    assert shown(number) == told


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "None"),
        (True, "the truth value True"),
        (3, "the number 3"),
        ("x" * 99, "the text 'xxx"),
        ([1, 2], "a list of 2"),
        ({"a": 1}, "a dict with a"),
        (np.zeros((2, 3)), "an array of shape (2, 3)"),
    ],
)
def test_a_value_of_another_kind_is_named(value: object, told: str) -> None:
    assert kind_of(value).startswith(told)


@pytest.mark.parametrize("value", [2.0, True, "3", None, [3], math.nan, math.inf, 3 + 1e-9])
def test_only_the_right_number_agrees(value: object) -> None:
    assert numbers_agree([Answer(CALL, 3)], {"size/0": 3}).passed
    assert numbers_agree([Answer(CALL, 3.0)], {"size/0": 3}).passed
    assert not numbers_agree([Answer(CALL, value)], {"size/0": 3}).passed


def test_an_array_that_differs_is_told_by_its_first_wrong_place() -> None:
    right = np.arange(12.0).reshape(3, 4) + 1
    wrong = right.copy()
    wrong[1, 2] *= 2
    verdict = array_agrees(Answer(CALL, wrong), right, rel=1e-9)
    assert not verdict.passed
    assert verdict.remark == "Off in 1 of 12 values."
    assert "(1, 2): 14, which is 2 times" in verdict.detail
    for other in (right[:2], np.full_like(right, np.nan), -right):
        assert not array_agrees(Answer(CALL, other), right, rel=1e-9).passed
    assert array_agrees(Answer(CALL, right * (1 + 1e-12)), right, rel=1e-9).passed


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (6, "6 requests, which is 2 times the right value"),
        (1, "1 request, off by -2"),
        (0, "0 requests where 3 was expected"),
        (math.nan, "nan where 3 requests was expected"),
    ],
)
def test_what_came_back_is_told_in_its_unit(value: float, told: str) -> None:
    assert how_far(value, 3, "requests") == told


def test_a_question_too_long_to_be_shown_is_told_by_its_name() -> None:
    long = Call("plain/7", "size", {"config": {f"key_{i}": i for i in range(20)}})
    assert named(long).endswith("..., ), question plain/7".replace(", )", ")"))
    assert named(CALL) == "size(n=3)"


def test_a_call_says_where_its_tables_lie() -> None:
    first, train = Table("questions/m0/first.csv"), Table("data/train.csv")
    told = named(Call("size/0", "size", {"train": train, "test": first}))
    where = "where train is data/train.csv and first is questions/m0/first.csv"
    assert told == f"size(train=train, test=first), {where}"
    some = named(Call("size/1", "size", {"runs": Table("questions/runs.csv", (3, 1))}))
    assert "question size/1, where runs is questions/runs.csv" in some
