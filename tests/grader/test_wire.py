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
from grader.wire import MalformedError, UnsendableError, pack, unpack
from milestones.spec import Call, Returns


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
        {"a": [float("nan")]},
        {1: "a", "1": "b"},
        _endless(),
    ],
)
def test_a_value_that_is_no_answer_is_refused(value: Any) -> None:
    with pytest.raises(UnsendableError):
        pack(value, "json")


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
    found = Desk(None).ask({"understanding": {"gb": float("nan")}}, call)  # type: ignore[arg-type]
    assert isinstance(found, Trouble)
    assert found.detail.startswith("`understanding` is nan at ['gb']")
