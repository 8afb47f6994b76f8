"""Whatever a notebook file holds, it is read as cells or refused in one line, and earns no more."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader.errors import BadInputError
from grader.grade import grade
from grader.host import Host
from grader.limits import Limits
from grader.notebook import read_notebook
from grader.report import Outcome
from grader.split import Split
from solutions.lesson import ROOT
from tests.grader.fuzz import fuzzed, leaves, milestone_of, readable, trees

NAME = "m2_kv_bytes.ipynb"
SOLVED = (ROOT / "solutions" / "solved" / NAME).read_bytes()
CONTENT = json.loads(SOLVED)

# What is no number, text or list of JSON, as tokens; and what Python's reader lets through.
TOKENS = (
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 5_000,
    '"\\ud800"',
    '"\\u0000"',
    "[" * 2_000,
    "{",
    "",
    "1 1",
)
nodes = trees(st.sampled_from(["cells", "cell_type", "source", "code"])) | leaves


@pytest.fixture(scope="module")
def notebook_at(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bytes], Path]:
    path = tmp_path_factory.mktemp("fuzz") / NAME

    def write(raw: bytes) -> Path:
        path.write_bytes(raw)
        return path

    return write


def paths_in(node: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every node of a JSON tree."""
    yield where
    if isinstance(node, dict | list):
        for key in node if isinstance(node, dict) else range(len(node)):
            yield from paths_in(node[key], (*where, key))


PLACES = tuple(
    place
    for place in paths_in({**CONTENT, "cells": CONTENT["cells"][:6]})
    if "outputs" not in place
)


def with_node(place: tuple[Any, ...], put: Callable[[Any, Any], None]) -> Any:
    """Return the solved notebook after `put(parent, key)` at one place; the root has none."""
    whole = [copy.deepcopy(CONTENT)]
    parent: Any = whole
    for key in (0, *place)[:-1]:
        parent = parent[key]
    put(parent, (0, *place)[-1])
    return whole[0] if whole else None


@st.composite
def bent(draw: st.DrawFn) -> bytes:
    """Draw the solved notebook's file with nodes replaced, lost, said twice, or by a wild token."""
    place = draw(st.sampled_from(PLACES))
    node = draw(nodes)
    token = draw(st.sampled_from(TOKENS))
    kind = draw(st.integers(0, 3))

    def put(parent: Any, key: Any) -> None:
        if kind == 1:
            del parent[key]
        else:
            parent[key] = node if kind == 0 else "@@"

    text = json.dumps(with_node(place, put))
    if kind == 2:
        text = text.replace('"@@"', token)
    if kind == 3 and place and isinstance(place[-1], str):
        name = json.dumps(place[-1])
        text = text.replace('"@@"', f"{json.dumps(node)}, {name}: {json.dumps(node)}")
    return text.encode("utf-8", draw(st.sampled_from(["strict", "surrogatepass"])))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Draw the solved notebook's file with bytes changed, cut, put in, or in another encoding."""
    raw = bytearray(SOLVED)
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(raw)))
        match draw(st.integers(0, 3)):
            case 0 if at < len(raw):
                raw[at] ^= 1 << draw(st.integers(0, 7))
            case 1:
                raw[at:at] = draw(st.binary(max_size=20))
            case 2:
                del raw[at : at + draw(st.integers(1, 2_000))]
            case _:
                del raw[at:]
    if draw(st.integers(0, 9)) == 0:
        encoding = draw(st.sampled_from(["utf-16", "utf-32", "utf-8-sig", "cp037"]))
        return bytes(raw).decode("utf-8", "replace").encode(encoding, "replace")
    return bytes(raw)


files = st.binary(max_size=300) | bent() | damaged() | nodes.map(lambda n: json.dumps(n).encode())


@fuzzed(300)
@given(raw=files)
@example(raw=b'{"cells": [{"cell_type": "code", "source": ["a", ["b"]]}]}')
@example(raw=b'{"cells": [{"cell_type": "code", "source": "\\ud800"}]}')
@example(raw=b'{"cells": [{"cell_type": ["code"]}], "cells": 5}')
def test_any_file_is_a_notebook_of_cells_or_refused_in_one_line(
    raw: bytes, notebook_at: Callable[[bytes], Path]
) -> None:
    path = notebook_at(raw)
    try:
        notebook = read_notebook(path)
    except BadInputError as error:
        said = str(error)
    else:
        said = ""
        indexes = [cell.index for cell in notebook.cells]
        assert indexes == sorted(set(indexes))
        assert all(index >= 0 for index in indexes)
        for cell in notebook.cells:
            assert isinstance(cell.source, str)
            assert cell.source.strip()
            cell.source.encode("utf-8", "replace")
    assert not said or said.startswith(f"{path}: ")
    assert said.replace(str(path), "").isprintable()


@fuzzed(200)
@given(raw=bent())
def test_a_cell_keeps_its_place_whatever_else_is_bent(
    raw: bytes, notebook_at: Callable[[bytes], Path]
) -> None:
    try:
        notebook = read_notebook(notebook_at(raw))
    except BadInputError:
        return
    cells = json.loads(raw)["cells"]
    for cell in notebook.cells:
        told = cells[cell.index]
        assert told["cell_type"] == "code"
        source = told["source"] if "source" in told else told["input"]
        assert cell.source == ("".join(source) if isinstance(source, list) else source)


# ---------------------------------------------------------------- to the end, in a room

RIGHT = """
def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):
    return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8
"""
EARNED_BY_RIGHT = {"known_shapes", "other_shapes"}
QUICK = Limits(cell_cpu_s=3, call_cpu_s=3, total_cpu_s=10)


def graded(raw: bytes, at: Callable[[bytes], Path], split: Split, host: Host) -> set[str]:
    """Grade a file; assert that it is graded at all, and return the checks that it passes."""
    milestone = milestone_of("m2_kv_bytes")
    report = grade(milestone, at(raw), split, ROOT / "data", QUICK, host=host)
    assert report.count(Outcome.BROKEN) == 0, report.checks
    assert report.points is not None
    readable(report)
    for cell in report.cells:
        assert cell.error.isprintable()
    return {check.name for check in report.checks if check.outcome is Outcome.PASSED}


def notebook_of(*cells: str) -> bytes:
    made = [nbformat.v4.new_code_cell(source, id=f"c-{i}") for i, source in enumerate(cells)]
    return str(nbformat.writes(nbformat.v4.new_notebook(cells=made))).encode(
        "utf-8", "surrogatepass"
    )


def test_the_function_that_is_bent_below_earns_its_points(
    notebook_at: Callable[[bytes], Path], m2_split: Split, walled: Host
) -> None:
    assert graded(notebook_of(RIGHT), notebook_at, m2_split, walled) == EARNED_BY_RIGHT


@st.composite
def ruins(draw: st.DrawFn) -> str:
    """Draw a cell with the function above less what makes it right: its name, its body, its end."""
    text, at = draw(st.text(max_size=40)), draw(st.integers(0, 10**6))
    return draw(
        st.sampled_from(
            [
                RIGHT.replace("kv_bytes_per_token", f"kv_bytes_per_token_{at}"),
                RIGHT.replace("2 *", f"{at + 3} *"),
                RIGHT[: 5 + at % (len(RIGHT) - 12)],
                f"{RIGHT}\ndel kv_bytes_per_token\n{text!r}",
                f"raise ValueError({text!r})\n{RIGHT}",
                f"{RIGHT}\nkv_bytes_per_token = {text!r}",
                f"def kv_bytes_per_token(**shape):\n    return {text!r}",
                f"def kv_bytes_per_token(**shape):\n    raise ValueError({text!r})",
                f"def kv_bytes_per_token(**shape):\n    raise type({text!r}, (Exception,), {{}})",
            ]
        )
    )


@fuzzed(15)
@given(cell=ruins())
def test_a_ruined_function_earns_nothing_and_breaks_nothing(
    cell: str, notebook_at: Callable[[bytes], Path], m2_split: Split, walled: Host
) -> None:
    assert graded(notebook_of(cell), notebook_at, m2_split, walled) == set()


@fuzzed(12)
@given(raw=bent() | damaged())
def test_a_bent_notebook_file_is_graded_to_its_end(
    raw: bytes, notebook_at: Callable[[bytes], Path], m2_split: Split, walled: Host
) -> None:
    graded(raw, notebook_at, m2_split, walled)
