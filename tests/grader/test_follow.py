"""Following a notebook's file: through half writes, renames, deletions and saves of outputs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from grader.follow import SETTLE_S, Change, Follower
from tests.conftest import WriteNotebook


def save(path: Path, text: str) -> None:
    """Write a file in place, as another state of it however coarse the clock."""
    path.write_text(text, encoding="utf-8")
    save.count += 1  # type: ignore[attr-defined]
    os.utime(path, ns=(save.count, save.count))  # type: ignore[attr-defined]


save.count = 0  # type: ignore[attr-defined]


@pytest.fixture
def notebook(write_notebook: WriteNotebook) -> Path:
    return write_notebook("a = 1")


def edited(path: Path, source: str = "a = 2") -> str:
    content = json.loads(path.read_text(encoding="utf-8"))
    content["cells"][0]["source"] = source
    return json.dumps(content)


def test_what_is_there_at_first_is_not_told(notebook: Path) -> None:
    follower = Follower(notebook)
    assert [follower.look(now_s) for now_s in (0, 1, 100)] == [None, None, None]


def test_other_code_is_told_once_and_at_once(notebook: Path) -> None:
    follower = Follower(notebook)
    save(notebook, edited(notebook))
    assert [follower.look(now_s) for now_s in (0, 0, 100)] == [Change.CODE, None, None]


def test_a_save_of_outputs_alone_is_told_as_one(notebook: Path) -> None:
    follower = Follower(notebook)
    content = json.loads(notebook.read_text(encoding="utf-8"))
    content["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "1"}]
    save(notebook, json.dumps(content))
    assert [follower.look(0), follower.look(0)] == [Change.SAME_CODE, None]


def test_a_rename_into_its_place_is_a_save(notebook: Path) -> None:
    follower = Follower(notebook)
    beside = notebook.with_name("new~")
    save(beside, edited(notebook))
    beside.replace(notebook)
    assert follower.look(0) is Change.CODE


def test_the_moment_between_two_renames_is_not_told(notebook: Path) -> None:
    follower = Follower(notebook)
    text = edited(notebook)
    notebook.rename(notebook.with_name("old~"))
    assert follower.look(0) is None
    save(notebook, text)
    assert follower.look(SETTLE_S / 2) is Change.CODE


def test_a_half_written_file_is_waited_for(notebook: Path) -> None:
    follower = Follower(notebook)
    text = edited(notebook)
    save(notebook, text[: len(text) // 2])
    assert [follower.look(0), follower.look(SETTLE_S / 2)] == [None, None]
    save(notebook, text)
    assert [follower.look(SETTLE_S * 0.7), follower.look(100)] == [Change.CODE, None]


def test_the_rest_of_a_write_is_seen_though_the_clock_has_not_moved(notebook: Path) -> None:
    follower = Follower(notebook)
    text = edited(notebook)
    save(notebook, " " * len(text))
    assert follower.look(0) is None
    moment = notebook.stat().st_mtime_ns
    notebook.write_text(text, encoding="utf-8")
    os.utime(notebook, ns=(moment, moment))
    assert follower.look(SETTLE_S / 2) is Change.CODE


@pytest.mark.parametrize("what", ["deleted", "broken"])
def test_what_stays_unreadable_is_told_once_and_then_its_return(what: str, notebook: Path) -> None:
    follower = Follower(notebook)
    text = notebook.read_text(encoding="utf-8")
    if what == "deleted":
        notebook.unlink()
    else:
        save(notebook, "{")
    looks = [follower.look(now_s) for now_s in (0, SETTLE_S / 2, SETTLE_S, SETTLE_S + 1, 100)]
    assert looks == [None, None, Change.UNREADABLE, None, None]
    save(notebook, text)
    assert follower.look(200) is Change.CODE  # though it is the code it had


def test_a_notebook_that_is_not_there_yet_is_told_when_it_comes(
    tmp_path: Path, write_notebook: WriteNotebook
) -> None:
    follower = Follower(tmp_path / "m2_kv_bytes.ipynb")
    assert follower.look(0) is None
    write_notebook("a = 1")
    assert follower.look(1) is Change.CODE
