"""Bytes of every kind in place of a reply: the room tells an answer or a problem, never raises."""

from __future__ import annotations

import io
import json
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.frames import read_frame
from grader.host import Body, Start
from grader.judge import judge
from grader.limits import Limits
from grader.notebook import Cell
from grader.places import Places
from grader.report import Outcome
from grader.room import Room, open_room
from grader.wire import MAX_DEPTH, MAX_TEXT, MalformedError, as_sent, unpack
from milestones.spec import Answer, Answers, Call, Returns
from tests.grader.fuzz import (
    MARK,
    MARKED_NUMBER,
    PUBLIC,
    TRUTH,
    fuzzed,
    milestone_of,
    mistakes_of,
    right_answers,
    sound,
    texts,
)

READY = b'{"ready": true, "size": 0}'
CELL = Cell(3, "x = 1")


class _Replies:
    """A room's process that answers each request with the next of these bytes, then ends."""

    shown_as: tuple[tuple[str, str], ...] = (("/tmp/some-room", "/course"),)

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = iter(chunks)
        self._ready, self._asked = b"", b""
        self._change = threading.Condition()
        self._ended = False
        self.requests = self.replies = cast(BinaryIO, self)
        self.output = cast(BinaryIO, Path(os.devnull).open("rb"))  # noqa: SIM115 - the room closes it
        self._more()

    def write(self, data: bytes) -> None:
        self._asked += data

    def flush(self) -> None:
        request, _ = read_frame(io.BytesIO(self._asked), 2**30)
        self._asked = b""
        if request["do"] != "file":
            self._more()

    def _more(self) -> None:
        with self._change:
            chunk = next(self._chunks, None)
            self._ended = self._ended or chunk is None
            self._ready += chunk or b""
            self._change.notify_all()

    def read(self, size: int) -> bytes:
        with self._change:
            self._change.wait_for(lambda: self._ready or self._ended or not size)
            found, self._ready = self._ready[:size], self._ready[size:]
            return found

    def close(self) -> None:
        self.end()

    def family(self) -> list[psutil.Process]:
        return []

    def cpu_s(self) -> float:
        return 0.0

    def sockets(self) -> int:
        return 0

    def ending(self, timeout_s: float) -> int | None:  # noqa: ARG002
        return 0 if self._ended else None

    def end(self) -> None:
        with self._change:
            self._ended = True
            self._change.notify_all()

    def clear(self) -> None:
        """There is nothing on disk."""


class _Host:
    walled = False
    shown: tuple[str, ...] = ()

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def start(self, start: Start) -> Body:  # noqa: ARG002
        return _Replies([frame(READY), *self._chunks])


@contextmanager
def room_of(*chunks: bytes) -> Iterator[Room]:
    data = PUBLIC.parent
    # a reply that never becomes whole is waited for until this many seconds are over
    limits = Limits(cell_cpu_s=0.02, call_cpu_s=0.02, wall_per_cpu=10)
    with open_room(Places(data, PUBLIC / "questions"), limits, host=_Host(list(chunks))) as room:
        yield room


def frame(header: bytes, payload: bytes = b"", length: int | None = None) -> bytes:
    return struct.pack(">I", len(header) if length is None else length) + header + payload


# ---------------------------------------------------------------- bytes of every kind


def npy(shape: str, descr: str = "'<f8'", fortran: str = "False", body: bytes = bytes(8)) -> bytes:
    head = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) % 2**16) + head + body


SHAPES = (
    *("()", "(1,)", "(0,)", "(4000,)", "(-1,)", "(-4000,)", "(1, -8)", "(True,)", "(1.0,)", "1"),
    *("(10**9,)", "(1000000000000,)", "(4611686018427387904, 4)", "(18446744073709551616,)"),
    *(
        "(0, 9223372036854775807)",
        "(3037000500, 3037000500)",
        f"({'1, ' * 70})",
        "(None,)",
        "('x',)",
    ),
    *("(4000L,)", "(1,) * 9", "[1]", "{1}", "(1,)\\q", "'\\q'", "(" * 300, "(1,), 'shape': (2,)"),
)
DESCRS = (
    *("'<f8'", "'>f8'", "'=f8'", "'|O'", "'<f4'", "'<i8'", "'<c16'", "'<U9'", "'|S8'", "'|V8'"),
    *("[('a', '<f8')]", "[('a', '|O'), ('b', '<f8')]", "('<f8', (2,))", "'<M8[s]'", "'|b1'", "5"),
    *(
        "'<f8, <f8'",
        "None",
        "[]",
        "'<f16'",
        "('<f8', (1000000000,))",
        "'<f9999999999'",
        "'float64'",
    ),
)
npys = st.builds(
    npy,
    st.sampled_from(SHAPES),
    st.just("'<f8'") | st.sampled_from(DESCRS),
    st.sampled_from(["False", "True", "None", "5"]),
    st.binary(max_size=40) | st.just(bytes(32_000)) | st.just(b"\x80\x04\x95" + bytes(30)),
)
HONEST_JSON = json.dumps([1, 2.5, "text", {"key": None}]).encode()
JSONS = (
    *(b"NaN", b"[Infinity]", b"1e999", b"-1e999", b'{"a": 1, "a": 2}', b'{"a": {"b": 1, "b": 1}}'),
    *(b'"\\ud800"', b'{"\\udfff": 1}', b"[" * 900 + b"]" * 900, b"[" * 40_000 + b"]" * 40_000),
    *(
        b'{"a":' * 900 + b"1" + b"}" * 900,
        b"1" * 300,
        b"1" * 302,
        b"9" * 4_301,
        b"-" + b"9" * 5_000,
    ),
    *(
        b"1e-999",
        b"1e308",
        b"-0",
        b"1E400",
        b"\xef\xbb\xbf1",
        b"1 2",
        b"\x00",
        b'"\x00"',
        b"01",
        b"",
    ),
    *(str(MARKED_NUMBER).encode(), b"[" + b"1," * 300_000 + b"1]", b'"' + b"x" * 100_000 + b'"'),
    *(b'{"returned": 5}', b'{"raised": ["ValueError"], "message": 5}', b'{"raised": "ValueError"}'),
    *(b'{"raised": [], "message": ""}', b'{"returned": "\\u0000\\u001b[2J"}', b"\xed\xa0\x80"),
    json.dumps({"raised": ["ValueError", f"{MARK}\x1b"], "message": f"{MARK}\x00"}).encode(),
    json.dumps({"returned": MARK + "x" * 100_000}).encode(),
)
payloads = npys | st.sampled_from(JSONS) | texts.map(lambda t: json.dumps(t).encode()) | st.binary()
odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
kinds = st.sampled_from(["missing", "raised", "wrong_form", "unreadable", "no_function"]) | odd
errors = st.sampled_from(["ValueError", "print", "__doc__", "\ud800", "a\x00b", ""]) | odd
headers = st.one_of(
    st.fixed_dictionaries({"form": st.sampled_from(["json", "npy", "none"]) | odd}),
    st.fixed_dictionaries({"error": errors}),
    st.fixed_dictionaries({"trouble": st.tuples(kinds, errors, odd) | odd}),
    st.dictionaries(st.sampled_from(["form", "error", "trouble", "do", "ready"]), odd),
    odd,
)
SIZES: tuple[Any, ...] = (-1, 2**31, 2**63, 10**400, True, None, 1.0, "5", [], 32 * 2**20 + 1, 7)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Draw one reply: an honest frame around odd things, a damaged frame, or no frame at all."""
    kind = draw(st.integers(0, 14))
    if kind == 0:
        return draw(st.binary(max_size=60))
    header, payload = draw(headers), draw(payloads)
    if isinstance(header, dict):
        odd_size = kind == 1
        header = {**header, "size": draw(st.sampled_from(SIZES)) if odd_size else len(payload)}
    head = json.dumps(header).encode()
    if kind == 2:
        head = draw(st.sampled_from([b"[" * 50_000, b'{"size": 0, "size": 0', b"\xff", b"", b"1"]))
    if kind == 3:  # nested so deep that it can be read, or told, only just, or not
        depth = draw(st.sampled_from([100, 300, 490, 900, 1_500, 5_000]))
        key = draw(st.sampled_from([b"error", b"trouble", b"form"]))
        head = b'{"' + key + b'": ' + b"[" * depth + b"]" * depth + b', "size": 0}'
        payload = b""
    whole = frame(head, payload, draw(st.sampled_from([*[None] * 16, 0, 5, 2**20 + 1, 2**31])))
    if kind == 4 and whole:
        damaged = bytearray(whole)
        for _ in range(draw(st.integers(1, 4))):
            damaged[draw(st.integers(0, len(damaged) - 1))] = draw(st.integers(0, 255))
        return bytes(damaged)
    if kind == 5:
        return whole[: draw(st.integers(0, len(whole)))]
    return whole + (whole if kind == 6 else b"")


FORMS: tuple[Returns, ...] = ("json", "array", "raised", "kept")
CALLS: dict[str, Call] = {
    returns: Call(f"{returns}/0", "f", {"n": 1}, returns) for returns in FORMS
}


def told_well(answer: Answer) -> None:
    """Assert that an answer is a value that honest bytes carry, or a problem told in our words."""
    if answer.problem is not None:
        assert answer.value is None
        assert answer.problem.detail.isprintable()
        assert answer.problem.summary.isprintable()
        assert MARK not in answer.problem.summary
        return
    match answer.call.returns:
        case "array":
            assert type(answer.value) is np.ndarray
            assert answer.value.dtype == np.float64
        case "kept":
            assert answer.value is None
        case "raised":
            assert {"returned"} == answer.value.keys() or {
                "raised",
                "message",
            } == answer.value.keys()
        case _:
            json.dumps(as_sent(answer.value), allow_nan=False, ensure_ascii=False).encode("utf-8")


@fuzzed(150)
@given(st.lists(frames(), min_size=1, max_size=3), st.sampled_from(sorted(CALLS)))
def test_a_room_makes_an_answer_or_a_problem_of_any_bytes(
    chunks: list[bytes], returns: str
) -> None:
    with room_of(*chunks) as room:
        error = room.run_cell(CELL)
        assert error is None or error.isprintable()
        for call in (CALLS["array"], CALLS[returns]):
            told_well(room.ask(call))


def test_an_error_that_is_no_text_is_no_message() -> None:
    head = b'{"error": ' + b"[" * 960 + b"]" * 960 + b', "size": 0}'
    with room_of(frame(head)) as room:
        room.run_cell(CELL)
        assert room.stop


HONEST = {
    "json": (b'{"form": "json", "size": %d}', HONEST_JSON),
    "array": (b'{"form": "npy", "size": %d}', npy("(1,)")),
    "raised": (b'{"form": "json", "size": %d}', b'{"returned": "int"}'),
    "kept": (b'{"form": "none", "size": %d}', b""),
}


@pytest.mark.parametrize("returns", sorted(HONEST))
def test_honest_bytes_are_an_answer(returns: str) -> None:
    header, payload = HONEST[returns]
    with room_of(frame(header % len(payload), payload)) as room:
        assert room.ask(CALLS[returns]).problem is None


@fuzzed(300)
@given(st.sampled_from(["json", "npy", "none"]), payloads)
def test_a_payload_is_read_as_strict_data_or_malformed(form: str, payload: bytes) -> None:
    try:
        value = unpack(form, payload)
    except MalformedError:
        return
    told_well(Answer(CALLS[{"npy": "array", "none": "kept", "json": "json"}[form]], value))


@pytest.mark.parametrize(
    ("payload", "read"),
    [
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), True),
        (b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2), False),
        (b'"' + b"x" * MAX_TEXT + b'"', True),
        (b'"' + b"x" * (MAX_TEXT + 1) + b'"', False),
        (b"[" + b"1," * 199_998 + b"1]", True),
        (b"[" + b"1," * 200_000 + b"1]", False),
    ],
)
def test_what_no_honest_packing_sends_is_refused_on_arrival_too(payload: bytes, read: bool) -> None:
    try:
        unpack("json", payload)
    except MalformedError:
        assert not read
    else:
        assert read


@pytest.mark.parametrize("shape", [(), (0,), (1,), (4_000,), (30, 4), (0, 3), (3, 0), (2, 3, 4)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_array_that_numpy_saves_is_read_as_it_was(
    shape: tuple[int, ...], order: Literal["C", "F"]
) -> None:
    array = np.asarray(np.random.default_rng(0).normal(size=shape), order=order)
    saved = io.BytesIO()
    np.save(saved, array)
    found = unpack("npy", saved.getvalue())
    assert found.shape == array.shape
    assert (found == array).all()


@pytest.mark.parametrize("shape", ["(1L,)", "(1,), '\\q': 1", "(True,)", "(-1,)", "(01,)x", "1"])
def test_a_header_that_only_a_generous_reader_understands_is_malformed(shape: str) -> None:
    with pytest.raises(MalformedError):
        unpack("npy", npy(shape))


# ---------------------------------------------------------------- to the end: judged


@pytest.mark.parametrize("slug", ["m2_kv_bytes", "m6_memory_traffic"])
def test_no_reply_passes_a_check_breaks_it_or_is_quoted_on_a_hidden_split(slug: str) -> None:
    right = right_answers(slug)
    by_form: dict[str, Call] = {
        call.returns: call for answer in right.by_id.values() for call in [answer.call]
    }

    @fuzzed(60)
    @given(frames(), st.sampled_from(sorted(by_form)))
    def holds(chunk: bytes, returns: str) -> None:
        call = by_form[returns]
        with room_of(chunk) as room:
            answer = room.ask(call)
        told_well(answer)
        by_id = {**right.by_id, call.id: answer}
        answers = Answers(by_id, None if right.again is None else by_id)
        for public in (True, False):
            checks = judge(milestone_of(slug), answers, TRUTH, mistakes_of(slug), public=public)
            sound(slug, checks, public=public)
            waiting = [
                c
                for c, of in zip(checks, milestone_of(slug).checks, strict=True)
                if call.topic in of.topics
            ]
            assert returns == "kept" or all(c.outcome is not Outcome.PASSED for c in waiting)

    holds()
