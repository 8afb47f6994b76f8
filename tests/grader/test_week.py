"""`grader status`: the week at a glance, whatever has become of notebooks and history."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

import milestones
from grader import history
from grader.history import Entry, History, PastCheck
from grader.notebook import read_notebook
from grader.report import CheckReport, MilestoneReport, Outcome
from grader.split import open_split
from grader.status_cli import moment, print_week
from grader.week import Found, State, Week, week_of
from solutions.lesson import ROOT

NOW = datetime(2026, 11, 30, 14, 3, tzinfo=UTC)
CHECK = PastCheck(
    name="step_error", sentence="The step is right.", outcome=Outcome.FAILED, points=1.0,
    points_max=3.0, bonus=False, hint="Look at the dtype.", figure=0.112, bar=0.09,
    figure_name="MAPE", highest_is_best=False,
)  # fmt: skip
PASSED = replace(CHECK, name="terms", outcome=Outcome.PASSED, points=3.0, figure=None, bar=None)
ENTRY = Entry(NOW, "check", "s1", "0.1.0", "m5_roofline", "aa", "code", (PASSED, CHECK))
FOUND = Found(points_max=6.0, bonus_max=0.0, blank_sha256="blank", code_sha256="code")


def week(*entries: Entry, **found: Found) -> Week:
    return week_of(found or {"m5_roofline": FOUND}, History(entries), "s1")


def at_best(entry: Entry = ENTRY, **changes: object) -> Entry:
    full = replace(CHECK, outcome=Outcome.PASSED, points=3.0, figure=0.08)
    return replace(entry, checks=(PASSED, full), **changes)  # type: ignore[arg-type]


# ---------------------------------------------------------------- how a notebook stands


@pytest.mark.parametrize(
    ("found", "entries", "state"),
    [
        (replace(FOUND, code_sha256=None), (), State.MISSING),
        (replace(FOUND, code_sha256=None, fault="a web page"), (ENTRY,), State.UNREADABLE),
        (replace(FOUND, code_sha256="blank"), (), State.BLANK),
        (FOUND, (), State.UNCHECKED),
        (FOUND, (ENTRY,), State.CHECKED),
        (replace(FOUND, code_sha256="other"), (ENTRY,), State.CHANGED),
        (replace(FOUND, code_sha256="blank"), (ENTRY,), State.CHANGED),  # points were earned
        (FOUND, (replace(ENTRY, split_id="s0"),), State.OLDER),
        (replace(FOUND, points_max=7.0), (ENTRY,), State.OLDER),
        (FOUND, (replace(ENTRY, code_sha256=""),), State.CHANGED),  # changed while it was graded
        (FOUND, (replace(ENTRY, milestone="m1_profile_runs"),), State.UNCHECKED),
        (FOUND, (replace(ENTRY, by="notebook"),), State.LIVE),
        (FOUND, (ENTRY, replace(ENTRY, by="notebook")), State.CHECKED),  # what was run fresh stands
        (FOUND, (replace(ENTRY, by="notebook", code_sha256=""),), State.CHANGED),  # not saved
    ],
)
def test_a_notebook_stands_to_its_last_check(
    found: Found, entries: tuple[Entry, ...], state: State
) -> None:
    (row,) = week(*entries, m5_roofline=found).rows
    assert row.state is state


def test_the_points_are_those_of_the_last_check() -> None:
    told = week(at_best(), ENTRY)
    assert (told.points, told.points_max) == (4.0, 6.0)


def test_bonus_points_are_told_beside_the_others() -> None:
    extra = replace(PASSED, name="extra", bonus=True, points=2.0, points_max=2.0)
    entry = replace(at_best(), checks=(*at_best().checks, extra))
    found = replace(FOUND, bonus_max=2.0)
    told = week(entry, m5_roofline=found)
    assert (told.points, told.points_max, told.bonus, told.bonus_max) == (6.0, 6.0, 2.0, 2.0)


def test_a_bonus_that_is_missing_keeps_nobody_from_being_done() -> None:
    extra = replace(CHECK, name="extra", bonus=True, points=0.0)
    entry = replace(at_best(), checks=(extra, *at_best().checks))
    assert week(entry).next.command == "grader pack"


# ---------------------------------------------------------------- labs, which nobody owes

LAB = Found(points_max=0.0, bonus_max=5.0, blank_sha256="blank", code_sha256="code")


def lab_entry(points: float) -> Entry:
    rung = replace(CHECK, bonus=True, points=points, points_max=5.0)
    outcome = Outcome.PASSED if points == 5.0 else Outcome.FAILED
    return replace(ENTRY, milestone="x2_eviction", checks=(replace(rung, outcome=outcome),))


def test_a_lab_shows_its_bonus_as_its_points() -> None:
    console = Console(record=True, width=80)
    with console.capture() as said:
        print_week(week(lab_entry(5.0), x2_eviction=LAB), console, NOW)
    assert "5/5 bonus  ━━━━━━━━━━" in said.get()
    assert "0/0" not in said.get()


def test_a_lab_that_lacks_points_is_what_to_do_next() -> None:
    told = week(at_best(), lab_entry(1.0), m5_roofline=FOUND, x2_eviction=LAB)
    assert [row.is_done for row in told.rows] == [True, False]
    assert (told.next.slug, told.next.why) == ("x2_eviction", CHECK.sentence)
    full = week(at_best(), lab_entry(5.0), m5_roofline=FOUND, x2_eviction=LAB)
    assert full.next.command == "grader pack"


def test_a_lab_that_was_reset_after_points_has_changed() -> None:
    blank = replace(LAB, code_sha256="blank")
    assert week(lab_entry(5.0), x2_eviction=blank).rows[0].state is State.CHANGED
    assert week(lab_entry(0.0), x2_eviction=blank).rows[0].state is State.BLANK


def test_a_lab_is_shown_once_it_is_begun_and_asks_for_nothing_before() -> None:
    blank = replace(LAB, code_sha256="blank")
    told = week(at_best(), m5_roofline=FOUND, x1_quantized_cache=blank, x2_eviction=LAB)
    assert [row.slug for row in told.shown] == ["m5_roofline", "x2_eviction"]
    assert told.next.slug == "x2_eviction", "begun and never checked"
    assert told.bonus_max == 10, "of all labs, whichever were begun"
    told = week(at_best(), m5_roofline=FOUND, x2_eviction=blank)
    assert told.next.command == "grader pack", "nobody owes a lab"


# ---------------------------------------------------------------- the best so far


def test_the_best_of_a_figure_is_the_lowest_of_an_error_and_the_highest_of_a_fit() -> None:
    fit = replace(CHECK, name="fit", figure=0.9, figure_name="R²", highest_is_best=True)
    entries = [
        replace(ENTRY, checks=(replace(CHECK, figure=error), replace(fit, figure=r2)))
        for error, r2 in ((0.12, 0.95), (0.08, 0.91), (0.11, 0.97))
    ]
    assert [best.check.figure for best in week(*entries).best] == [0.08, 0.97]


def test_figures_on_another_split_or_without_a_name_are_not_compared() -> None:
    older = replace(at_best(), split_id="s0")
    nameless = replace(ENTRY, checks=(replace(CHECK, figure_name="", figure=0.01),))
    (best,) = week(older, nameless, ENTRY).best
    assert best.check.figure == 0.112


def test_what_a_live_kernel_gives_counts_as_points_and_never_as_a_best() -> None:
    lucky = at_best(by="notebook", code_sha256="other")
    told = week(ENTRY, lucky, m5_roofline=replace(FOUND, code_sha256="other"))
    assert told.points == 6.0
    assert [best.check.figure for best in told.best] == [0.112]
    assert week(lucky).best == ()


# ---------------------------------------------------------------- what to do next


def test_next_is_the_first_failing_check_with_its_hint() -> None:
    told = week(ENTRY).next
    assert (told.slug, told.why, told.hint) == ("m5_roofline", CHECK.sentence, CHECK.hint)
    assert told.command == "grader check 5"


def test_a_check_that_waits_for_another_is_not_what_to_do_next() -> None:
    waits = replace(CHECK, name="waits", sentence="Waits.", outcome=Outcome.SKIPPED)
    entry = replace(ENTRY, checks=(waits, PASSED, CHECK))
    found = replace(FOUND, points_max=entry.points_max)
    assert week(entry, m5_roofline=found).next.why == CHECK.sentence


def test_next_is_what_was_checked_last_and_not_what_comes_first_in_the_course() -> None:
    early = replace(ENTRY, milestone="m1_profile_runs", at=NOW - timedelta(days=1))
    found = dict.fromkeys(("m1_profile_runs", "m2_kv_bytes", "m5_roofline"), FOUND)
    assert week(early, ENTRY, **found).next.slug == "m5_roofline"


def test_with_nothing_begun_next_is_the_first_that_is_not_done() -> None:
    blank = replace(FOUND, code_sha256="blank")
    done = at_best(milestone="m1_profile_runs")
    told = week(done, m1_profile_runs=FOUND, m2_kv_bytes=blank, m3_concurrency=blank).next
    assert told.slug == "m2_kv_bytes"
    assert "handout" in told.hint


@pytest.mark.parametrize(
    ("found", "entries", "command"),
    [
        (replace(FOUND, code_sha256=None), (), "grader reset 5"),
        (FOUND, (), "grader check 5"),
        (replace(FOUND, code_sha256="other"), (at_best(),), "grader check 5"),
        (FOUND, (at_best(split_id="s0"),), "grader check 5"),
        (FOUND, (at_best(),), "grader pack"),
        (FOUND, (at_best(by="notebook"),), "grader check 5"),
        (FOUND, (replace(ENTRY, checks=(PASSED, replace(PASSED, points=0.0))),), "grader check 5"),
    ],
)
def test_the_command_fits_the_state(found: Found, entries: tuple[Entry, ...], command: str) -> None:
    assert week(*entries, m5_roofline=found).next.command == command


# ---------------------------------------------------------------- how it looks


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (NOW - timedelta(hours=1), "today 13:03"),
        (NOW - timedelta(days=1), "Sun 14:03"),
        (NOW - timedelta(days=7), "2026-11-23"),
        (NOW + timedelta(days=2), "2026-12-02"),  # a clock that was set back
    ],
)
def test_a_time_is_told_as_a_person_tells_it(at: datetime, told: str) -> None:
    assert moment(at, NOW) == told


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_it_fits_eighty_columns_and_any_terminal(encoding: str) -> None:
    import io

    raw = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    console = Console(file=raw, width=80, highlight=False)
    entry = replace(ENTRY, checks=(PASSED, CHECK))
    print_week(week(entry), console, NOW, n_unread=2)
    raw.seek(0)
    text = raw.read()
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "4/6" in text
    assert ".grader/history.jsonl: 2 lines that cannot" in text
    assert "\x1b" not in text


# ---------------------------------------------------------------- the command


def status(home: Path) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "grader", "status"],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return run.stdout


@pytest.fixture
def home(tmp_path: Path, course: Path) -> Path:
    home = tmp_path / "course"
    home.mkdir()
    shutil.copytree(course / "notebooks", home / "notebooks")
    (home / "data").symlink_to(course / "data", target_is_directory=True)
    return home


def test_a_fresh_clone_says_where_to_begin(home: Path) -> None:
    told = status(home)
    assert "0 of 100 points" in told
    assert told.count("not started") == 7
    assert "jupyter lab notebooks/m1_profile_runs.ipynb" in told


def test_a_check_in_the_notebook_is_told_as_one() -> None:
    console = Console(record=True, width=80)
    with console.capture() as said:
        print_week(week(replace(ENTRY, by="notebook")), console, NOW)
    assert "%check today 14:03" in said.get()


def test_the_command_tells_of_checks_damage_and_a_misnamed_notebook(home: Path) -> None:
    notebooks = home / "notebooks"
    shutil.copy(ROOT / "solutions" / "solved" / "m2_kv_bytes.ipynb", notebooks)
    mine = read_notebook(notebooks / "m2_kv_bytes.ipynb")
    checks = tuple(
        CheckReport(
            one.name, one.sentence, Outcome.FAILED, 0.0, one.points, hint="Think.", bonus=one.bonus
        )
        for one in milestones.load("m2_kv_bytes").checks
    )
    report = MilestoneReport("m2_kv_bytes", "KV bytes", mine.sha256, checks)
    split_id = open_split(home / "data" / "public_split").split_id
    history.append(home, split_id, report, mine.code_sha256, "check", datetime.now(UTC))
    with history.file_of(home).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"schema": 99}) + "\n")
    (notebooks / "m3_concurrency.ipynb").rename(notebooks / "m3_concurrency (1).ipynb")
    told = status(home)
    assert " ".join(checks[0].sentence.split()[:5]) in told
    assert "Think." in told
    assert ".grader/history.jsonl: 1 line that cannot be read" in told
    assert "cannot be read\n" in "\n".join(line.rstrip() for line in told.splitlines()) + "\n"
