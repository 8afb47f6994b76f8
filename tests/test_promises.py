"""docs/promises.md names tests that exist and bounds that hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import milestones
from grader.limits import Limits
from grader.seccomp import DENIED
from milestones.questions import read_questions


@pytest.fixture
def page(course: Path) -> str:
    return (course / "docs" / "promises.md").read_text(encoding="utf-8")


def test_every_test_that_a_promise_names_exists(page: str, course: Path) -> None:
    named = set(re.findall(r"`(test_[a-z0-9_*]+\.py)`", page))
    assert len(named) > 10
    for name in named:
        assert list((course / "tests").rglob(name)), name


def test_the_bounds_it_states_are_those_that_hold(page: str) -> None:
    limits = Limits()
    assert (
        f"{limits.cell_cpu_s:g} CPU s a cell, {limits.call_cpu_s:g} a call, "
        f"{limits.total_cpu_s:g} in all; {limits.idle_s / 60:g} minutes asleep"
    ) in page
    assert limits.total_wall_s == 3_600
    assert "an hour in all" in page
    assert f"{limits.memory_bytes / 2**30:g} GiB of memory" in page
    assert f"{limits.disk_bytes / 2**30:g} GiB and {limits.disk_files:,} files" in page
    assert f"{limits.processes} processes and threads" in page
    assert f"{limits.sockets} sockets; {limits.open_files:,} open files" in page
    assert limits.output_bytes // 2**20 == 200
    assert "200 MB of output" in page
    assert f"denies {len(DENIED)} system calls" in page


def test_what_constants_are_worth_is_what_their_checks_give(page: str) -> None:
    paragraph = page[page.index("**A notebook that memorises") : page.index("**Copied work**")]
    told = " ".join(paragraph.split())
    named = set(re.findall(r"`([a-z_]+)` ?", told)) - {"grader check"}
    checks = [check for slug in milestones.SLUGS for check in milestones.load(slug).checks]
    worth = [check.points for check in checks if check.name in named]
    assert len(worth) == len(named) == 4
    fixed = [
        question.points
        for slug in milestones.SLUGS
        for question in read_questions(slug)
        if question.kind != "function"
    ]
    assert f"{sum(worth):g} of 100 points" in told
    assert f"{sum(fixed):g} more" in told
