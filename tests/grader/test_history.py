"""The history of a student's checks: it only grows, and no damage to it stops anybody."""

from __future__ import annotations

import json
import multiprocessing
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader import history
from grader.errors import BadInputError
from grader.report import CheckReport, MilestoneReport, Outcome, Report

NOW = datetime(2026, 11, 30, 14, 3, tzinfo=UTC)
CHECK = CheckReport(
    "step_error",
    "The step is right.",
    Outcome.FAILED,
    1.5,
    3.0,
    figure=0.112,
    bar=0.09,
    hint="größer → look at the dtype",
    figure_name="MAPE",
)
REPORT = MilestoneReport("m5_roofline", "Roofline", "aa", (CHECK,))


def write(course: Path, report: MilestoneReport = REPORT, code: str = "c0de") -> None:
    history.append(course, "s1", report, code, "check", NOW)


def write_many(course: Path, number: int) -> None:
    for _ in range(25):
        write(course, code=str(number))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(tmp_path)
    (entry,) = history.read(tmp_path).entries
    assert (entry.at, entry.by, entry.split_id, entry.code_sha256) == (NOW, "check", "s1", "c0de")
    assert (entry.points, entry.points_max, entry.bonus) == (1.5, 3.0, 0)
    (check,) = entry.checks
    assert (check.figure, check.bar, check.figure_name) == (0.112, 0.09, "MAPE")
    assert check.hint == CHECK.hint
    assert not check.highest_is_best


def test_bonus_points_stand_beside_the_others(tmp_path: Path) -> None:
    extra = replace(CHECK, bonus=True, points=2.0, points_max=2.0)
    write(tmp_path, replace(REPORT, checks=(CHECK, extra)))
    (entry,) = history.read(tmp_path).entries
    assert (entry.points, entry.points_max, entry.bonus, entry.bonus_max) == (1.5, 3.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("fresh", "live", "last"),
    [("c0de", "c0de", "check"), ("older", "c0de", "notebook"), ("", "", "notebook")],
    ids=["of-the-same-code", "of-other-code", "of-no-file"],
)
def test_what_a_fresh_run_found_of_some_code_stands_when_a_kernel_with_it_is_asked(
    fresh: str, live: str, last: str, tmp_path: Path
) -> None:
    write(tmp_path, code=fresh)
    history.append(tmp_path, "s1", REPORT, live, history.LIVE, NOW)
    found = history.read(tmp_path)
    entry, of_fresh_runs = found.last(REPORT.milestone), found.last_fresh(REPORT.milestone)
    assert entry is not None
    assert of_fresh_runs is not None
    assert (entry.by, of_fresh_runs.by) == (last, "check")


def test_no_history_is_an_empty_one(tmp_path: Path) -> None:
    assert history.read(tmp_path) == history.History()


def test_git_is_told_to_leave_it_alone(tmp_path: Path) -> None:
    write(tmp_path)
    assert (tmp_path / ".grader" / ".gitignore").read_text(encoding="utf-8") == "*\n"


@pytest.mark.parametrize(
    "report",
    [
        replace(REPORT, unreadable="it is a web page"),
        replace(REPORT, checks=(replace(CHECK, outcome=Outcome.BROKEN, points=None),)),
    ],
    ids=["unreadable", "broken"],
)
def test_what_could_not_be_graded_is_not_written(report: MilestoneReport, tmp_path: Path) -> None:
    write(tmp_path, report)
    assert not history.file_of(tmp_path).exists()


def lines_of(course: Path) -> list[str]:
    return history.file_of(course).read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    "damage",
    [
        "{",
        "null",
        "[]",
        '"a text"',
        "{}",
        '{"schema": 2}',
        '{"schema": 1, "at": "yesterday"}',
        "\x00" * 40,
        "[" * 100_000,
    ],
    ids=["cut", "null", "list", "text", "empty", "later-version", "time", "zeros", "deep"],
)
def test_a_damaged_line_is_passed_over_and_counted(damage: str, tmp_path: Path) -> None:
    write(tmp_path)
    with history.file_of(tmp_path).open("a", encoding="utf-8") as file:
        file.write(damage)  # and no end of the line, as a full disk leaves it
    write(tmp_path)
    found = history.read(tmp_path)
    assert (len(found.entries), found.n_unread) == (2, 1)


@pytest.mark.parametrize(
    ("key", "value"),
    [("points", None), ("points", "1"), ("points", True), ("figure", "x"), ("hint", 3),
     ("outcome", "WON"), ("points", 10**400), ("name", ["step_error"])],
)  # fmt: skip
def test_a_line_whose_check_is_none_is_passed_over(key: str, value: object, tmp_path: Path) -> None:
    write(tmp_path)
    content = json.loads(lines_of(tmp_path)[0])
    content["checks"][0][key] = value
    history.file_of(tmp_path).write_text(json.dumps(content), encoding="utf-8")
    assert history.read(tmp_path) == history.History(n_unread=1)


def test_a_check_that_is_no_number_at_all_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path)
    line = lines_of(tmp_path)[0].replace("0.112", "NaN")
    history.file_of(tmp_path).write_text(line, encoding="utf-8")
    assert history.read(tmp_path).n_unread == 1


def test_a_line_of_an_older_version_that_knew_less_is_read(tmp_path: Path) -> None:
    write(tmp_path)
    content = json.loads(lines_of(tmp_path)[0])
    for key in ("figure_name", "highest_is_best", "bonus", "diagnosis"):
        content["checks"][0].pop(key, None)
    history.file_of(tmp_path).write_text(json.dumps(content), encoding="utf-8")
    (entry,) = history.read(tmp_path).entries
    assert entry.checks[0].figure_name == ""


def test_what_a_terminal_would_obey_is_not_read_as_it_stands(tmp_path: Path) -> None:
    write(tmp_path, replace(REPORT, checks=(replace(CHECK, hint="\x1b[2J"),)))
    (entry,) = history.read(tmp_path).entries
    assert "\x1b" not in entry.checks[0].hint


@given(st.binary(max_size=400))
def test_no_bytes_stop_the_reader(raw: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / history.FOLDER).mkdir()
        history.file_of(Path(folder)).write_bytes(raw)
        assert history.read(Path(folder)).entries == ()


def test_two_writers_lose_no_line_and_mix_none(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=write_many, args=(tmp_path, n)) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = history.read(tmp_path)
    assert (len(found.entries), found.n_unread) == (75, 0)
    assert {entry.code_sha256 for entry in found.entries} == {"0", "1", "2"}


def test_of_a_history_without_end_the_newest_lines_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        write(tmp_path, code=str(number))
    monkeypatch.setattr(history, "MAX_READ_BYTES", 5 * len(lines_of(tmp_path)[0]))
    found = history.read(tmp_path)
    assert found.n_unread == 0
    assert [e.code_sha256 for e in found.entries][-1] == "19"
    assert 1 <= len(found.entries) <= 5


def test_a_place_that_cannot_be_written_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / history.FOLDER).write_text("a file", encoding="utf-8")
    with pytest.raises(BadInputError, match="this check is not in it"):
        write(tmp_path)


def test_a_history_that_is_a_folder_is_no_history(tmp_path: Path) -> None:
    history.file_of(tmp_path).mkdir(parents=True)
    assert history.read(tmp_path) == history.History(n_unread=1)


def test_only_the_courses_own_notebooks_on_the_public_split_are_kept(tmp_path: Path) -> None:
    mine = tmp_path / "notebooks"
    mine.mkdir()
    public, hidden = Report("s", True, ()), Report("s", False, ())
    assert history.is_kept(tmp_path, mine, public)
    assert history.is_kept(tmp_path, Path(os.path.relpath(mine)), public)
    assert not history.is_kept(tmp_path, mine, hidden)
    assert not history.is_kept(tmp_path, tmp_path / "solved", public)
