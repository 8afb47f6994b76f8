"""A file that is not a notebook gets one clear sentence; an odd but honest one is read."""

from __future__ import annotations

import json
import os
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
        (b" \n\n", "it is empty"),
        (b"\xef\xbb\xbf<html>", "web page"),
        (b'{"cells": "a character is cut \xc5', "broken or cut short"),
        (b'{"cells": []} {"cells": []}', "broken or cut short"),
        (b"\xff\xfe{\x00}\x00", "UTF-16"),
        (b'{\x00"\x00', "UTF-16"),
        (b'\x00{\x00"', "UTF-16"),
        (b'{"cells": ["Gr\xf6\xdfe"]}', "another encoding"),
        (b"PK\x03\x04 and so on", "zip archive"),
        (b"hello", "no JSON text"),
        (bytes(4_096), "no JSON text"),
        (b'{\n<<<<<<< HEAD\n"cells": []\n=======\n>>>>>>> theirs\n}', "merge-conflict markers"),
        (b'{\n<<<<<<< HEAD\n"\xf6": 1\n=======\n>>>>>>> theirs\n}', "merge-conflict markers"),
        (b"[1, 2]", "not a notebook"),
        (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a notebook"),
        (b'{"cells": 5, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a notebook"),
        (b'{"cells": [5]}', "not a notebook"),
        (b'{"cells": [{"cell_type": "code", "source": 5}]}', "not a notebook"),
        (b'{"cells": [{"cell_type": "code", "source": [1]}]}', "not a notebook"),
        (b'{"cells": [{"cell_type": "code", "source": {"a": 1}}]}', "not a notebook"),
        (b'{"worksheets": 5}', "not a notebook"),
        (b"null", "not a notebook"),
        (b'"cells"', "not a notebook"),
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


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (b"", "get it again with `grader reset`"),
        (b"<html>", "download the notebook file itself"),
        (b'{"cells": [', "put a good copy in its place"),
        ("{}".encode("utf-16"), "save it in UTF-8"),
        ('{"Größe": 1}'.encode("latin-1"), "save it in UTF-8"),
        (b"{\n<<<<<<< HEAD\n=======\n>>>>>>> theirs\n}", "choose one side"),
        (b"# %%\nx = 1\n", "save it as .ipynb"),
        (b"{}", "get it again with `grader reset`"),
    ],
)
def test_the_sentence_says_what_to_do_about_this_very_file(
    content: bytes, remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / "m2_kv_bytes.ipynb"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=remedy):
        read_notebook(path)


def test_a_missing_file_and_a_directory_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"no such notebook$"):
        read_notebook(tmp_path / "m2.ipynb")
    with pytest.raises(BadInputError, match="is a folder"):
        read_notebook(tmp_path)


@pytest.mark.parametrize(
    "copy",
    [
        "m2_kv_bytes (1).ipynb",
        "m2_kv_bytes-Copy1.ipynb",
        "m2_kv_bytes.2026-11-30-120000.ipynb",
        ".ipynb_checkpoints/m2_kv_bytes-checkpoint.ipynb",
    ],
)
def test_a_copy_of_a_missing_notebook_is_named(copy: str, tmp_path: Path) -> None:
    (tmp_path / copy).parent.mkdir(exist_ok=True)
    (tmp_path / copy).write_text("{}")
    with pytest.raises(BadInputError, match="no such notebook, but") as caught:
        read_notebook(tmp_path / "m2_kv_bytes.ipynb")
    assert str(Path(copy)) in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m2.ipynb")
    with pytest.raises(BadInputError, match="is not a file"):
        read_notebook(tmp_path / "m2.ipynb")


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
    ("content", "sentence"),
    [
        (b'{"cells": [], "x": [' + b"[]," * 2_600_000 + b"[]]}", "too many for a notebook"),
        (
            json.dumps({"cells": [{"cell_type": "code", "source": "1"}] * 2_001}).encode(),
            "has 2,001 code cells",
        ),
    ],
    ids=["values", "cells"],
)
def test_what_would_fill_the_graders_memory_is_refused(
    content: bytes, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "m2.ipynb"
    path.write_bytes(content)
    with pytest.raises(BadInputError, match=sentence):
        read_notebook(path)
