"""The `grader` command: exit codes, reports, and bad input told in one sentence."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from grader.split import Split, sha256_of
from tests.conftest import WriteNotebook

RIGHT = (
    "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n"
    "    return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8"
)


def grader(*args: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    run = subprocess.run(
        [sys.executable, "-m", "grader", *map(str, args)],
        cwd=cwd or Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        encoding=os.environ.get("PYTHONIOENCODING", "utf-8"),
        check=False,
    )
    assert "Traceback" not in run.stdout + run.stderr
    return run


def test_the_solved_notebook_passes_and_exits_0(m2_split: Split, course: Path) -> None:
    run = grader(
        "check", "2", "--split", m2_split.folder, "--notebooks", course / "solutions" / "solved"
    )
    assert run.returncode == 0
    assert "15 of 15 points" in run.stdout
    assert "FAILED" not in run.stdout
    assert "without a boundary" in run.stdout


def test_a_failed_check_exits_1_and_every_report_says_the_same(
    m2_split: Split, write_notebook: WriteNotebook, tmp_path: Path
) -> None:
    folder = write_notebook(RIGHT, "1 / 0").parent
    reports = tmp_path / "report.json", tmp_path / "report.xml", tmp_path / "report.html"
    run = grader(
        "check", "m2", "--split", m2_split.folder, "--notebooks", folder,
        "--json", reports[0], "--junit", reports[1], "--html", reports[2],
    )  # fmt: skip
    assert run.returncode == 1
    assert "cell 1 raised ZeroDivisionError: division by zero" in run.stdout

    content = json.loads(reports[0].read_text())
    assert list(content) == ["schema", "split_id", "grader_version", "milestones"]
    assert (content["schema"], content["split_id"]) == (1, m2_split.split_id)
    (milestone,) = content["milestones"]
    assert list(milestone) == [
        "milestone", "points", "points_max", "bonus", "bonus_max", "notebook_sha256", "checks",
        "cells",
    ]  # fmt: skip
    assert (milestone["points"], milestone["points_max"]) == (4, 15)
    assert milestone["cells"] == [{"cell": 1, "error": "ZeroDivisionError: division by zero"}]
    assert list(milestone["checks"][0]) == [
        "name", "sentence", "outcome", "points", "points_max", "bonus", "figure", "bar", "hint",
        "diagnosis",
    ]  # fmt: skip

    page = reports[2].read_text(encoding="utf-8")
    assert "ZeroDivisionError" in page
    assert "Your notebooks" in page

    suite = ElementTree.parse(reports[1]).getroot().find("testsuite")
    assert suite is not None
    assert suite.attrib["name"] == "m2_kv_bytes"
    outcomes = {c["name"]: c["outcome"] for c in milestone["checks"] if not c["bonus"]}
    failed = {case.attrib["name"] for case in suite if case.find("failure") is not None}
    assert failed == {name for name, outcome in outcomes.items() if outcome == "FAILED"}


def test_the_same_notebook_and_split_give_the_same_bytes(
    m2_split: Split, write_notebook: WriteNotebook, tmp_path: Path
) -> None:
    folder = write_notebook("print(object())", "object().missing", RIGHT).parent
    for name in ("one.json", "two.json"):
        grader(
            "check",
            "2",
            "--split",
            m2_split.folder,
            "--notebooks",
            folder,
            "--json",
            tmp_path / name,
        )
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_an_unreadable_notebook_exits_2_and_still_has_its_row(
    m2_split: Split, tmp_path: Path
) -> None:
    (tmp_path / "m2_kv_bytes.ipynb").write_text("<html>")
    report = tmp_path / "report.json"
    run = grader(
        "check", "2", "--split", m2_split.folder, "--notebooks", tmp_path, "--json", report
    )
    assert run.returncode == 2
    assert "web page" in run.stdout
    (milestone,) = json.loads(report.read_text())["milestones"]
    assert (milestone["points"], milestone["points_max"]) == (0, 15)


def test_a_fault_of_ours_exits_3(m2_split: Split, course: Path, tmp_path: Path) -> None:
    broken = tmp_path / "split"
    shutil.copytree(m2_split.folder, broken)
    answers = broken / "truth" / "m2_kv_bytes" / "answers.json"
    answers.write_text("{}")  # truth without answers, and a manifest that agrees with it
    manifest = json.loads((broken / "MANIFEST.json").read_text())
    manifest["files"]["truth/m2_kv_bytes/answers.json"] = sha256_of(answers)
    (broken / "MANIFEST.json").write_text(json.dumps(manifest))
    report, solved = tmp_path / "report.json", course / "solutions" / "solved"
    run = grader("check", "2", "--split", broken, "--notebooks", solved, "--json", report)
    assert run.returncode == 3
    assert "BROKEN" in run.stdout
    assert "not your fault" in " ".join(run.stdout.split())
    (milestone,) = json.loads(report.read_text())["milestones"]
    faulty = [check for check in milestone["checks"] if check["outcome"] == "BROKEN"]
    assert faulty
    assert all(check["points"] is None for check in faulty)  # never zero
    assert milestone["points"] is None


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("check", "9"), "there is no milestone '9'"),
        (("check", "2", "--split", "/nowhere"), "there is no such directory"),
        (("check", "2", "--notebooks", "/nowhere"), "no such folder of notebooks"),
        (("check", "2", "--json", "/nowhere/report.json"), "its folder does not exist"),
        (("check", "--unknown"), "No such option"),
        (("reset",), "Missing argument"),
        (("frobnicate",), "No such command"),
    ],
)
def test_bad_usage_exits_2_with_a_sentence(
    args: tuple[str, ...], sentence: str, m2_split: Split
) -> None:
    if "--split" not in args and args[:2] == ("check", "2"):
        args = (*args, "--split", str(m2_split.folder))
    run = grader(*args)
    assert run.returncode == 2
    assert sentence in run.stderr


@pytest.mark.parametrize("harm", ["changed", "added", "lost", "no-manifest", "schema"])
def test_a_split_that_is_not_as_it_was_made_is_refused(
    harm: str, m2_split: Split, tmp_path: Path
) -> None:
    split = tmp_path / "split"
    shutil.copytree(m2_split.folder, split)
    runs = split / "questions" / "runs.csv"
    if harm == "changed":
        runs.write_text(runs.read_text() + "\n")
    if harm == "added":
        (split / "questions" / "more.csv").write_text("a\n")
    if harm == "lost":
        runs.unlink()
    if harm == "no-manifest":
        (split / "MANIFEST.json").unlink()
    if harm == "schema":
        manifest = json.loads((split / "MANIFEST.json").read_text())
        (split / "MANIFEST.json").write_text(json.dumps({**manifest, "schema": 99}))
    run = grader("check", "2", "--split", split)
    assert run.returncode == 2
    assert run.stderr.startswith("grader: ") or "\ngrader: " in run.stderr


def test_a_split_may_be_named_by_a_relative_path(m2_split: Split, course: Path) -> None:
    solved = course / "solutions" / "solved"
    folder = m2_split.folder
    run = grader("check", "2", "--split", folder.name, "--notebooks", solved, cwd=folder.parent)
    assert run.returncode == 0


def test_questions_that_are_missing_are_our_fault_not_the_notebooks(
    m2_split: Split, course: Path, tmp_path: Path
) -> None:
    solved = course / "solutions" / "solved"
    other = grader("check", "3", "--split", m2_split.folder, "--notebooks", solved)
    split = tmp_path / "split"
    shutil.copytree(m2_split.folder, split)
    (split / "questions" / "runs.csv").unlink()
    manifest = json.loads((split / "MANIFEST.json").read_text())
    del manifest["files"]["questions/runs.csv"]
    (split / "MANIFEST.json").write_text(json.dumps(manifest))
    same = grader("check", "2", "--split", split, "--notebooks", solved)
    for run in (other, same):
        assert run.returncode == 3
        assert "BROKEN" in run.stdout
        assert "FAILED" not in run.stdout


def test_outside_a_course_the_grader_still_finds_its_own(
    tmp_path: Path, m2_split: Split, course: Path
) -> None:
    solved = course / "solutions" / "solved"
    run = grader("check", "2", "--split", m2_split.folder, "--notebooks", solved, cwd=tmp_path)
    assert run.returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_signal_ends_the_grading_and_what_it_started(
    name: str, m2_split: Split, write_notebook: WriteNotebook, tmp_path: Path
) -> None:
    if name == "SIGKILL" and sys.platform != "linux":
        pytest.skip("only Linux ends a process with its parent")
    marker = tmp_path / "pid"
    cell = f"import os, time\nopen({str(marker)!r}, 'w').write(str(os.getpid()))\ntime.sleep(3600)"
    folder = write_notebook(cell).parent
    run = subprocess.Popen(
        [
            *(sys.executable, "-m", "grader", "check", "2"),
            *("--split", str(m2_split.folder), "--notebooks", str(folder)),
        ],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (marker.exists() and marker.read_text()):
        time.sleep(0.05)
        assert run.poll() is None
    run.send_signal(signal.Signals[name])
    _, told = run.communicate(timeout=300)  # far below the hour that the cell would sleep
    if name != "SIGKILL":
        assert run.returncode == 130
        assert "interrupted" in told
    assert "Traceback" not in told
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(marker.read_text())).wait(timeout=300)


def test_a_console_of_few_characters_shows_escapes_and_the_report_is_whole(
    m2_split: Split, write_notebook: WriteNotebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "cp1252")
    folder = write_notebook("raise ValueError('größer → 日本')").parent
    report = tmp_path / "report.json"
    run = grader("check", "2", "--split", m2_split.folder, "--notebooks", folder, "--json", report)
    assert run.returncode == 1
    assert "\\u2192" in run.stdout
    (milestone,) = json.loads(report.read_text(encoding="utf-8"))["milestones"]
    assert milestone["cells"] == [{"cell": 0, "error": "ValueError: größer → 日本"}]


def test_a_report_that_cannot_be_written_is_bad_input(
    m2_split: Split, course: Path, tmp_path: Path
) -> None:
    solved = course / "solutions" / "solved"
    taken = tmp_path / "report.json"
    taken.mkdir()
    run = grader("check", "2", "--split", m2_split.folder, "--notebooks", solved, "--json", taken)
    assert run.returncode == 2


def test_reset_gives_the_blank_notebook_and_loses_nothing(
    write_notebook: WriteNotebook, course: Path
) -> None:
    mine = write_notebook(RIGHT)
    before = mine.read_bytes()
    for _ in range(2):
        assert grader("reset", "2", "--notebooks", mine.parent).returncode == 0
        blank = course / "milestones" / "m2_kv_bytes" / "blank.ipynb"
        assert mine.read_bytes() == blank.read_bytes()
        kept = [p for p in mine.parent.glob("*.ipynb") if p != mine]
        assert [p.read_bytes() for p in kept] == [before]


def test_no_colour_and_no_bar_without_a_terminal(m2_split: Split, course: Path) -> None:
    solved = course / "solutions" / "solved"
    run = grader("check", "2", "--split", m2_split.folder, "--notebooks", solved)
    assert "\x1b" not in run.stdout + run.stderr
    assert run.stderr == "grading m2_kv_bytes ...\n"
