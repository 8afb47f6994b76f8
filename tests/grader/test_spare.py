"""Processes started ahead of a notebook: the same answers as from a cold start, nothing left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import milestones
from grader.cold import COLD, ColdBody
from grader.grade import grade
from grader.limits import Limits
from grader.notebook import Cell
from grader.places import Places
from grader.room import open_room
from grader.spare import SpareHost, open_spares
from grader.split import Split

# Whether this very process had LightGBM before the first cell ran.
AHEAD = "import sys\nif 'lightgbm' not in sys.modules: raise ImportError('not ahead')"


@pytest.fixture
def spares() -> Iterator[SpareHost]:
    with open_spares(2) as host:
        yield host


@pytest.fixture
def places(course: Path, tmp_path: Path) -> Places:
    return Places(course / "data", tmp_path)


def filled(host: SpareHost, size: int = 2) -> list[ColdBody]:
    host.refill()
    while len(host._spares) < size:
        time.sleep(0.05)
    return list(host._spares)


def error_of(host: SpareHost, places: Places, source: str) -> str | None:
    with open_room(places, Limits(), host=host) as room:
        return room.run_cell(Cell(0, source))


def test_a_notebook_finds_its_libraries_imported_and_otherwise_what_a_cold_start_gives(
    spares: SpareHost, m2_split: Split, course: Path, places: Places
) -> None:
    filled(spares)
    assert error_of(spares, places, AHEAD) is None
    solved = course / "solutions" / "solved" / "m2_kv_bytes.ipynb"
    reports = [
        grade(milestones.load("m2_kv_bytes"), solved, m2_split, course / "data", host=host)
        for host in (spares, COLD)
    ]
    assert reports[0] == reports[1]
    assert reports[0].points == 15


def test_with_no_process_left_a_cold_one_is_started(spares: SpareHost, places: Places) -> None:
    assert error_of(spares, places, AHEAD) == "ImportError: not ahead"


def test_each_process_runs_one_notebook(spares: SpareHost, places: Places) -> None:
    filled(spares)
    assert error_of(spares, places, "import sys\nsys.left = 1") is None
    again = "import sys\nassert not hasattr(sys, 'left')"
    assert error_of(spares, places, again) is None
    assert not spares._spares


def test_one_that_was_ended_while_it_waited_costs_a_cold_start_and_no_more(
    spares: SpareHost, places: Places
) -> None:
    for spare in filled(spares):
        spare.end()
    assert error_of(spares, places, "1 + 1") is None


def test_what_it_did_ahead_is_not_counted_as_the_notebooks_time(
    spares: SpareHost, places: Places
) -> None:
    (spare, *_) = filled(spares)
    seen_s = 0.0
    while spare.cpu_s() == 0 or spare.cpu_s() > seen_s:  # until its imports are done
        seen_s = spare.cpu_s()
        time.sleep(1)
    with open_room(places, Limits(), host=spares) as room:
        assert room.run_cell(Cell(0, "1 + 1")) is None
        assert spare.cpu_s() < seen_s


def test_nothing_is_left_of_those_that_ran_and_those_that_did_not(places: Places) -> None:
    with open_spares(2) as host:
        waiting = filled(host)
        assert error_of(host, places, "1 + 1") is None
    for spare in waiting:
        assert not spare._folder.exists()
        assert not psutil.pid_exists(spare._process.pid)
