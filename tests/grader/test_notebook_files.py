"""A file that is not a notebook gets one clear sentence; an odd but honest one is read."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from grader.errors import BadInputError
from grader.notebook import read_notebook


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is empty"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b'{"cells": [', "broken or cut short"),
        (b"\xff\xfe{\x00}\x00", "UTF-16"),
        (b"hello", "no JSON text"),
        (b'{\n<<<<<<< HEAD\n"cells": []\n=======\n>>>>>>> theirs\n}', "merge-conflict markers"),
        (b"[1, 2]", "not a notebook"),
        (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a notebook"),
        (b'{"cells": 5, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a notebook"),
        (b"[" * 100_000, "is not a notebook"),
    ],
)
def test_what_is_no_notebook_is_told_in_one_sentence(
    content: bytes, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "m2_kv_bytes.ipynb"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=sentence) as caught:
        read_notebook(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_directory_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no such notebook"):
        read_notebook(tmp_path / "m2.ipynb")
    with pytest.raises(BadInputError, match="cannot be read"):
        read_notebook(tmp_path)


def test_a_file_far_beyond_a_notebook_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "m2.ipynb"
    with path.open("wb") as stream:
        stream.truncate(200 * 10**6)
    with pytest.raises(BadInputError, match="too large"):
        read_notebook(path)


def test_code_cells_are_numbered_among_all_cells_and_empty_ones_left_out(tmp_path: Path) -> None:
    path = tmp_path / "m2.ipynb"
    cells = [
        nbformat.v4.new_markdown_cell("# Title"),
        nbformat.v4.new_code_cell("a = 1"),
        nbformat.v4.new_code_cell("  \n"),
        nbformat.v4.new_code_cell("b = 2\nc = 3"),
    ]
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")
    found = [(cell.index, cell.source) for cell in read_notebook(path).cells]
    assert found == [(1, "a = 1"), (3, "b = 2\nc = 3")]


@pytest.mark.parametrize(
    "oddity", ["no-ids", "same-ids", "bom", "crlf", "version-3", "version-4.0"]
)
def test_an_odd_but_honest_file_is_read(oddity: str, tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell("a = 1", id="x"),
            nbformat.v4.new_code_cell("b = 2", id="y"),
        ]
    )
    content = json.loads(nbformat.writes(notebook))
    if oddity == "no-ids":
        for cell in content["cells"]:
            del cell["id"]
    if oddity == "same-ids":
        content["cells"][1]["id"] = "x"
    if oddity == "version-4.0":
        content["nbformat_minor"] = 0
        for cell in content["cells"]:
            del cell["id"]
    if oddity == "version-3":
        content = json.loads(nbformat.writes(notebook, version=3))
    raw = json.dumps(content, indent=1).encode()
    if oddity == "bom":
        raw = b"\xef\xbb\xbf" + raw
    if oddity == "crlf":
        raw = raw.replace(b"\n", b"\r\n")
    path = tmp_path / "Hausaufgabe für Łukasz 2.ipynb"
    path.write_bytes(raw)
    assert [cell.source for cell in read_notebook(path).cells] == ["a = 1", "b = 2"]
