"""What is remembered is the same work: another function, constant or table is another fit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grader.places import Places
from milestones.spec import Call, Files, Result, Table
from milestones.understanding import understanding_names
from solutions.exam import named_mistakes, reference
from solutions.remember import FilesInMemory, reached, with_fits

COUNT = """
class Fits:
    done = 0
"""
SOURCE = """
RATE = 2

def scaled(value):
    return RATE * value

def fit(train):
    Fits.done += 1
    return [scaled(v) for v in train]
"""
FIT = Call("fit", "fit", {"train": Table("data/train.csv")}, returns="kept")


def space(source: str = SOURCE) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    for part in (COUNT, source):
        exec(part, namespace)
    return namespace


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.csv").write_text("a\n1\n")
    return Places(tmp_path / "data", tmp_path / "questions")


def fit(namespace: dict[str, Any], places: Places, call: Call = FIT) -> Any:
    return with_fits(namespace, call, places)[call.function](train=[1, 2])


def test_the_same_fit_is_done_once(places: Places) -> None:
    namespace = space()
    assert fit(namespace, places) == fit(namespace, places) == [2, 4]
    assert namespace["Fits"].done == 1


@pytest.mark.parametrize(
    ("old", "new", "fitted"),
    [
        ("RATE * value", "RATE + value", [3, 4]),  # a function that the fit calls
        ("RATE = 2", "RATE = 3", [3, 6]),  # a constant that a called function reads
        ("scaled(v) for", "scaled(v) + 1 for", [3, 5]),  # the fit itself, in its inner code
    ],
)
def test_a_fit_that_could_differ_is_done_again(
    places: Places, old: str, new: str, fitted: list[int]
) -> None:
    namespace = space()
    fit(namespace, places)
    assert old in SOURCE
    exec(SOURCE.replace(old, new), namespace)
    assert fit(namespace, places) == fitted


def test_another_table_is_another_fit(places: Places) -> None:
    namespace = space()
    fit(namespace, places)
    (places.data / "train.csv").write_text("a\n2\n")
    fit(namespace, places)
    assert namespace["Fits"].done == 2


def test_an_instructors_own_training_runs_are_another_fit(places: Places, tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    shutil.copytree(places.data, overlay)
    (overlay / "train.csv").write_text("a\n3\n")
    namespace = space()
    fit(namespace, places)
    fit(namespace, Places(places.data, places.questions, overlay=overlay))
    assert namespace["Fits"].done == 2


@pytest.mark.parametrize(
    "call",
    [
        Call("fit", "fit", {"train": Table("questions/runs.csv")}, returns="kept"),
        Call("fit", "fit", {"train": Table("data/train.csv", (0,))}, returns="kept"),
        Call("fit", "fit", {"train": Result("other")}, returns="kept"),
        Call("fit", "fit", {"train": Table("data/train.csv")}, returns="json"),
    ],
)
def test_nothing_that_hangs_on_the_split_is_remembered(places: Places, call: Call) -> None:
    namespace = space()
    assert with_fits(namespace, call, places) is namespace


def test_what_raises_is_not_remembered(places: Places) -> None:
    namespace = space("def fit(train):\n    raise ValueError(len(train))\n")
    for _ in range(2):
        with pytest.raises(ValueError, match="2"):
            fit(namespace, places)


def test_mistakes_in_the_features_of_milestone_6_are_fitted_apart() -> None:
    lesson = reference("m6_memory_traffic")
    right = reached(lesson.namespace, "fit_step_time")
    elsewhere = {"predict_step_ms", *understanding_names("m6_memory_traffic")}
    apart = 0
    for mistake in named_mistakes("m6_memory_traffic"):
        with lesson.with_edits(mistake.edits) as namespace:
            changed = {edit.function for edit in mistake.edits} - elsewhere
            assert (reached(namespace, "fit_step_time") != right) is bool(changed), mistake.name
            apart += bool(changed)
    assert apart > 5
    assert reached(lesson.namespace, "fit_step_time") == right


def test_files_in_memory_are_read_once_and_cannot_be_changed_by_a_reader(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("run_id,x\n01,1\n")
    (tmp_path / "a.json").write_text('{"a": [1]}')
    np.savez(tmp_path / "a.npz", a=np.arange(3))
    files = FilesInMemory(tmp_path)
    table = files.table("a.csv")
    table["x"] = 9
    files.json("a.json")["a"].append(2)
    files.arrays("a.npz").pop("a")
    with pytest.raises(ValueError, match="read-only"):
        files.arrays("a.npz")["a"][0] = 5
    for name in ("a.csv", "a.json", "a.npz"):
        (tmp_path / name).unlink()
    assert files.table("a.csv").to_dict("list") == {"run_id": ["01"], "x": [1]}
    assert files.json("a.json") == {"a": [1]}
    assert files.arrays("a.npz")["a"].tolist() == [0, 1, 2]
    with pytest.raises(FileNotFoundError):
        Files(tmp_path).json("a.json")
