"""The student repository: made and proved by one command, updated without losing work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.errors import BadInputError
from solutions.release import KEPT, main, make

TREES = {"milestones", "grader", "data", "notebooks", "docs"}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release, with the command's own proof: blank notebooks earn 0 there, solved ones 100."""
    folder = tmp_path_factory.mktemp("release") / "students"
    assert main([str(folder)]) == 0
    return folder


def test_it_holds_the_students_part_and_nothing_secret(released: Path) -> None:
    assert {p.name for p in released.iterdir()} == {*KEPT, "README.md"}
    assert {p.name for p in released.iterdir() if p.is_dir()} == TREES
    text = (released / "README.md").read_text()
    assert "As a student" in text
    for word in ("As an instructor", "make demo", "solutions", "not in a release"):
        assert word not in text
    for notebook in (released / "notebooks").glob("*.ipynb"):
        cells = json.loads(notebook.read_text())["cells"]
        assert not any(cell.get("outputs") for cell in cells)


def test_it_runs_its_own_grader_and_cannot_import_a_solution(
    released: Path, tmp_path: Path
) -> None:
    code = "import grader, milestones; print(grader.__file__); import solutions"
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(released)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.startswith(str(released))
    assert "No module named 'solutions'" in run.stderr


def test_deleting_solutions_and_tests_leaves_a_working_course(released: Path, course: Path) -> None:
    # What a release keeps is what is left after deleting: the same trees, byte for byte.
    for tree in TREES - {"notebooks"}:
        kept = {
            p.relative_to(course): p.read_bytes()
            for p in (course / tree).rglob("*")
            if p.is_file() and "__pycache__" not in p.parts
        }
        for name, content in kept.items():
            assert (released / name).read_bytes() == content


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(BadInputError, match="is not empty"):
        make(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def git(folder: Path, *args: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    run = subprocess.run(
        ["git", *identity, *args], cwd=folder, capture_output=True, text=True, check=True
    )
    return run.stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_an_update_by_the_readmes_command_keeps_the_students_notebooks(
    released: Path, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "course", tmp_path / "student"
    shutil.copytree(released, ours)
    git(ours, "init", "--quiet", "--initial-branch=main")
    git(ours, "add", "--all")
    git(ours, "commit", "--quiet", "--message=release 1")
    git(tmp_path, "clone", "--quiet", str(ours), str(theirs))

    mine = theirs / "notebooks" / "m2_kv_bytes.ipynb"
    work = mine.read_text().replace("is yours to write", "is what I wrote")
    mine.write_text(work)
    git(theirs, "add", "--all")
    git(theirs, "commit", "--quiet", "--message=my work")

    upstream = ours / "notebooks" / "m2_kv_bytes.ipynb"
    upstream.write_text(upstream.read_text().replace("yours to write", "still yours to write"))
    handout = ours / "milestones" / "m2_kv_bytes" / "handout.md"
    handout.write_text(handout.read_text() + "\nOne more sentence.\n")
    git(ours, "commit", "--quiet", "--all", "--message=release 2")

    git(theirs, "pull", "--quiet", "--no-rebase", "-X", "ours")
    assert mine.read_text() == work
    updated = theirs / "milestones" / "m2_kv_bytes" / "handout.md"
    assert updated.read_text() == handout.read_text()
