"""Answers travel as strict data: what an honest value becomes, and what nothing may become."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.ask import Desk
from grader.trouble import Trouble
from grader.wire import (
    MAX_DEPTH,
    MalformedError,
    UnsendableError,
    as_sent,
    pack,
    strict_json,
    unpack,
)
from milestones.compare import kind_of
from milestones.spec import Call, Problem, Returns


def through(value: Any, returns: Returns = "json") -> Any:
    return unpack(*pack(value, returns))


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (7, 7),
        (np.int64(7), 7),
        (np.float32(0.5), 0.5),
        (np.bool_(True), True),
        (np.array(3), 3),
        (Decimal("2.5"), 2.5),
        (Fraction(1, 4), 0.25),
        ((1, 2), [1, 2]),
        (np.arange(3), [0, 1, 2]),
        ({"a": np.int8(1)}, {"a": 1}),
        (pd.Series({"H100": 0.5, "L40S": 0.5}), {"H100": 0.5, "L40S": 0.5}),
        (None, None),
        ("é", "é"),
    ],
)
def test_an_honest_value_arrives_as_plain_json(value: Any, arrives: Any) -> None:
    assert through(value) == arrives
    assert type(through(value)) is type(arrives)


class _Float(float):
    """A float that claims to equal anything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = float.__hash__


class _Array(np.ndarray):
    """An array that claims to equal anything."""

    def __eq__(self, other: object) -> Any:
        return np.ones(self.shape, dtype=bool)


def test_a_value_with_methods_of_its_own_arrives_without_them() -> None:
    assert through(_Float(1.5)) != 2.0
    arrived = through(np.arange(3.0).view(_Array), "array")
    assert type(arrived) is np.ndarray
    assert not (arrived == 9).any()


def _endless() -> Iterator[int]:
    while True:
        yield 1


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("-inf"),
        Decimal("NaN"),
        1j,
        object(),
        b"bytes",
        {1, 2},
        "x" * 30_000,
        2**5_000,
        [float("nan")],
        {1: "a", "1": "b"},
        _endless(),
    ],
)
def test_a_value_that_is_no_answer_is_refused(value: Any) -> None:
    with pytest.raises(UnsendableError):
        pack(value, "json")


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (np.float32("inf"), "inf"),
        (Decimal("NaN"), "nan"),
        ([1, float("nan")], "nan at [1]"),
        (1j, "a complex number"),
        ({1, 2}, "a set"),
        (pd.DataFrame({"a": [1]}), "a DataFrame"),
        ("x" * 30_000, "a text of 30,000 characters"),
        (2**5_000, "a whole number of 5,001 bits"),
        ({1: "a", "1": "b"}, "a dict with the key '1' twice"),
        (type("T" * 10_000, (), {})(), "a " + "T" * 98),
    ],
)
def test_what_cannot_be_sent_is_a_problem_at_its_key_and_spoils_no_other(
    value: Any, what: str
) -> None:
    found = through({"one": 1, "odd": value, "inner": [{"odd": value, "two": 2.5}]})
    assert found == {"one": 1, "odd": Problem(what), "inner": [{"odd": Problem(what), "two": 2.5}]}
    assert kind_of(found["odd"]) == what
    form, data = pack({"odd": value}, "json")
    assert unpack(form, data) == {"odd": Problem(what)}
    strict_json(data)  # on its way it is JSON with no liberties
    assert as_sent(found["odd"]) == json.loads(data)["odd"]


def test_a_column_of_numbers_by_name_keeps_those_that_are_numbers() -> None:
    assert through(pd.Series({"a": 1.0, "b": np.nan})) == {"a": 1.0, "b": Problem("nan")}


def test_too_much_is_refused_as_a_whole_wherever_it_lies() -> None:
    loop: dict[str, Any] = {"right": 1}
    loop["loop"] = loop
    with pytest.raises(UnsendableError, match="nested more than"):
        pack(loop, "json")
    with pytest.raises(UnsendableError, match="more than 200,000 values"):
        pack({"a": 1, "many": [0] * 10**6}, "json")
    with pytest.raises(UnsendableError, match="more than 200,000 values"):
        pack({str(i): float("nan") for i in range(150_000)}, "json")


def test_a_dict_that_looks_like_a_problem_is_the_dict_that_it_is() -> None:
    for value in ({"\0": "nan"}, {"a": {"\0": "nan"}}, {"\0\0": {"\0": 1, "\0\0\0": 2, "": 3}}):
        assert through(value) == value


@pytest.mark.parametrize("depth", range(15, 23))
def test_what_is_sent_is_read_however_deep_its_problem_lies(depth: int) -> None:
    value: Any = float("nan")
    for _ in range(depth):
        value = {"a": value}
    try:
        packed = pack(value, "json")
    except UnsendableError:
        assert depth >= MAX_DEPTH
        return
    assert str(unpack(*packed)).count("Problem") == 1


@pytest.mark.parametrize(
    "data",
    [
        rb'{"\u0000": "nan"}',
        rb'[{"\u0000": "nan"}]',
        rb'{"a": [{"\u0000": "nan"}]}',
        rb'{"a": {"\u0000": "nan", "b": 1}}',
        rb'{"a": {"\u0000": 1}}',
        rb'{"a": {"\u0000": {"b": 1}}}',
        b'{"a": {"\\u0000": "' + b"x" * 101 + b'"}}',
    ],
)
def test_a_problem_where_no_honest_packing_puts_one_is_malformed(data: bytes) -> None:
    strict_json(data)
    with pytest.raises(MalformedError):
        unpack("json", data)


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UnsendableError, match="nested more than"):
        pack(loop, "json")


@pytest.mark.parametrize(
    "value",
    [3, None, "text", [[1], [2, 3]], np.array([1j]), ["1", "2"], np.array(["1"]), {"a": 1}],
)
def test_what_is_no_array_of_numbers_is_refused(value: Any) -> None:
    with pytest.raises(UnsendableError):
        pack(value, "array")


def test_a_frame_gives_its_named_columns_in_order() -> None:
    frame = pd.DataFrame({"b": [1, 2], "a": [3, 4], "c": ["x", "y"]})
    form, data = pack(frame, "columns", ("a", "b"))
    assert unpack(form, data).tolist() == [[3, 1], [4, 2]]
    with pytest.raises(UnsendableError, match="without d"):
        pack(frame, "columns", ("a", "d"))


def _npy(array: np.ndarray, allow_pickle: bool = False) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=allow_pickle)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("form", "data"),
    [
        ("json", b"NaN"),
        ("json", b"-Infinity"),
        ("json", b'{"a": 1, "a": 2}'),
        ("json", b'"\\ud800"'),
        ("json", b"[" * 100_000),
        ("json", b"1e999"),
        ("json", b"\xff"),
        ("json", b""),
        ("json", b"9" * 10_000),
        ("npy", b""),
        ("npy", b"\x93NUMPY\x01\x00"),
        ("npy", pickle.dumps([1.0])),
        ("npy", _npy(np.array([None]), allow_pickle=True)),
        ("npy", _npy(np.array([1, 2]))),
        ("npy", _npy(np.array([1.0])) + b"more"),
        ("pickle", pickle.dumps(1)),
        ("none", b"something"),
    ],
)
def test_bytes_that_no_honest_packing_wrote_are_malformed(form: str, data: bytes) -> None:
    with pytest.raises(MalformedError):
        unpack(form, data)


def test_an_array_that_claims_a_terabyte_is_malformed_before_any_memory_is_taken() -> None:
    head = _npy(np.array([1.0])).replace(b"(1,)", b"(9,)")
    assert len(head) == len(_npy(np.array([1.0])))
    with pytest.raises(MalformedError):
        unpack("npy", head)


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=20,
)


@given(_json)
def test_any_json_value_without_lone_surrogates_arrives_unchanged(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return
    assert through(value) == value


@settings(max_examples=500)
@given(st.sampled_from(["json", "npy", "none"]), st.binary(max_size=300))
def test_random_bytes_are_read_or_malformed_and_nothing_else(form: str, data: bytes) -> None:
    try:
        unpack(form, data)
    except MalformedError:
        return


def test_a_variable_that_cannot_be_sent_is_named_as_one() -> None:
    call = Call("understanding", "understanding", {}, variable=True)
    found = Desk(None).ask({"understanding": [float("nan")]}, call)  # type: ignore[arg-type]
    assert isinstance(found, Trouble)
    assert found.detail.startswith("`understanding` is nan at [0]")
