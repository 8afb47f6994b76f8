"""Fuzzed files of a gradebook: rules, marks, rubrics and rosters are read, or refused in words."""

from __future__ import annotations

import string
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.errors import BadInputError
from grader.gradebook.manual import read_marks, read_rubric
from grader.gradebook.roster import read_roster
from grader.gradebook.rules import RulesFile, read_rules, rules_of
from milestones import SLUGS

QUICK = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
HEADERS = (
    b"student,criterion,points,comment,author\n",
    b"criterion;points_max;sentence\n",
    b"Student,ID,SIS Login ID,Section,m2 (17)\n",
    b"[[criterion]]\n",
    b"",
)
ODD = (b"ann", b"1e999", b"-0", b"nan", b"2,5", b'"', b'"a\n', b"\0", b"\xff", b"\r", b"\n", b",")
CELLS = st.sampled_from((*ODD, b";", b"=1", b"'", "小".encode(), b"9" * 400, b"true", b"[", b"="))
KEYS = st.sampled_from(
    [*RulesFile.model_fields, "deadline", "weight", "until", "student", *SLUGS, "m2", "2", "x", ""]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(string.printable, max_size=20)
    | st.sampled_from(["best", "Europe/Berlin", "UTC", "half-up", "../etc"])
    | st.datetimes()
    | st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def refusal(read: Callable[[], object]) -> str:
    """What a reader says where it refuses; empty where it reads."""
    try:
        read()
    except BadInputError as refused:
        return str(refused)
    return ""


@QUICK
@given(
    header=st.sampled_from(HEADERS),
    cells=st.lists(CELLS, max_size=30),
    end=st.binary(max_size=30),
)
@pytest.mark.parametrize(
    ("read", "name"),
    [
        (read_marks, "a.csv"),
        (read_rubric, "a.csv"),
        (read_rubric, "a.toml"),
        (read_roster, "a.csv"),
        (read_rules, "a.toml"),
    ],
)
def test_any_file_is_read_or_refused_in_words(
    read: Callable[[Path], object],
    name: str,
    header: bytes,
    cells: list[bytes],
    end: bytes,
    tmp_path: Path,
) -> None:
    file = tmp_path / name
    file.write_bytes(header + b",".join(cells) + end)
    said = refusal(lambda: read(file))
    assert said == "" or said.startswith(str(file))


@QUICK
@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_any_rules_are_read_or_refused_in_words(content: dict[str, Any]) -> None:
    said = refusal(lambda: rules_of(content, "rules.toml"))
    assert all(line.startswith("rules.toml: ") for line in said.splitlines())
