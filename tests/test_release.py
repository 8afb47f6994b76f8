"""The student repository: made and proved by one command, updated without losing work."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import milestones
from grader.errors import BadInputError
from solutions import release, verify
from solutions.lesson import ROOT
from solutions.release import KEPT, main, make, refuse, tracked_files
from tests.grader.fuzz import GRADED_IN_THE_SUITE

TREES = {"milestones", "grader", "data", "notebooks", "docs"}


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release, with the command's own proof: blank notebooks earn 0 there, solved ones all.

    In the suite of some milestones alone.
    """
    folder = tmp_path_factory.mktemp("release") / "students"
    with pytest.MonkeyPatch.context() as patch:
        some = partial(release.prove_release, slugs=GRADED_IN_THE_SUITE)
        patch.setattr(release, "prove_release", some)
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
            for p in map(course.joinpath, tracked_files())
            if p.is_relative_to(course / tree)
        }
        assert kept
        for name, content in kept.items():
            assert (released / name).read_bytes() == content


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(BadInputError, match="is not empty"):
        main([str(tmp_path)])
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("place", ["data/students", "docs", "notebooks/../data"])
def test_a_folder_in_what_is_copied_is_refused(place: str) -> None:
    with pytest.raises(BadInputError, match="lies in the repository"):
        main([str(ROOT / place)])


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BadInputError, match="is a file"):
        main([str(tmp_path / "file")])


@pytest.mark.parametrize("end", [KeyboardInterrupt, BadInputError("unfair")])
def test_a_release_that_does_not_end_well_leaves_nothing(
    end: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(folder: Path) -> list[str]:
        assert (folder / "README.md").exists()
        raise end

    monkeypatch.setattr(release, "prove_release", stop)
    with pytest.raises((KeyboardInterrupt, BadInputError)):
        main([str(tmp_path / "new" / "students")])
    assert list(tmp_path.iterdir()) == []


def small_repository(folder: Path) -> Path:
    """A checkout that has a file in every kept place and some that git does not track."""
    for name in ("milestones", "grader", "data", "docs", "notebooks"):
        (folder / name).mkdir(parents=True)
        (folder / name / "kept.txt").write_text("kept")
    (folder / "README.md").write_text("As a student")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    for left in ("data/.autumn.building/truth/runs.csv", "docs/autumn.seed", "data/lesson.txt"):
        (folder / left).parent.mkdir(parents=True, exist_ok=True)
        (folder / left).write_text("secret")
    return folder


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = small_repository(tmp_path / "private")
    monkeypatch.setattr(release, "ROOT", folder)
    monkeypatch.setattr(milestones, "SLUGS", ())
    monkeypatch.setattr(milestones, "BONUS_SLUGS", ())
    return folder


@pytest.mark.usefixtures("small")
def test_what_git_does_not_track_is_not_released(tmp_path: Path) -> None:
    make(tmp_path / "students")
    names = {p.name for p in (tmp_path / "students").rglob("*") if p.is_file()}
    assert names == {"kept.txt", "README.md"}


def test_a_folder_that_is_no_checkout_makes_no_release(small: Path, tmp_path: Path) -> None:
    shutil.rmtree(small / ".git")
    with pytest.raises(BadInputError, match="not a git checkout"):
        make(tmp_path / "students")


@pytest.mark.parametrize("name", ["notes.txt", "plan.csv", "a.ipynb", "NOTES"])
def test_a_solutions_line_in_any_text_file_is_found(name: str, tmp_path: Path) -> None:
    slug = milestones.SLUGS[-1]
    line = max(verify.solution_lines(slug), key=len)
    text = json.dumps({"source": line}) if name.endswith("ipynb") else f"x\n  {line}\n"
    (tmp_path / name).write_text(text)
    (tmp_path / "picture.png").write_bytes(b"\x89\xff")
    found = list(verify.leaks(tmp_path, [Path(name), Path("picture.png")]))
    assert found == [f"{name} holds a line of {slug}'s solution: {line}"]


def git(folder: Path, *args: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    run = subprocess.run(
        ["git", *identity, *args], cwd=folder, capture_output=True, text=True, check=True
    )
    return run.stdout


def students_clone(folder: Path) -> Path:
    (folder / "milestones").mkdir(parents=True)
    (folder / "milestones" / "__init__.py").write_text("")
    (folder / "old.txt").write_text("old")
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=release 1")
    return folder


@pytest.mark.usefixtures("small")
def test_a_second_release_replaces_all_but_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = students_clone(tmp_path / "students")
    monkeypatch.setattr(release, "prove_release", lambda _: ["proved"])
    assert main([str(clone)]) == 0
    assert not (clone / "old.txt").exists()
    assert (clone / "data" / "kept.txt").exists()
    assert "release 1" in git(clone, "log")
    assert {p.name for p in tmp_path.iterdir()} == {"private", "students"}


@pytest.mark.usefixtures("small")
def test_a_second_release_that_cannot_be_put_in_place_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = students_clone(tmp_path / "students")
    monkeypatch.setattr(release, "prove_release", lambda _: ["proved"])
    rename = Path.rename

    def fails(source: Path, target: Path) -> Path:
        if source.name == "README.md" and target.parent == clone:
            raise KeyboardInterrupt
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(KeyboardInterrupt):
        main([str(clone)])
    assert git(clone, "status", "--porcelain", "--ignored") == ""
    assert {p.name for p in tmp_path.iterdir()} == {"private", "students"}


def test_a_clone_that_would_lose_something_is_refused(tmp_path: Path) -> None:
    clone = students_clone(tmp_path / "students")
    refuse(clone)
    (clone / "mine.txt").write_text("mine")
    with pytest.raises(BadInputError, match="not committed"):
        refuse(clone)
    git(clone, "add", "--all")
    git(clone, "rm", "--quiet", "-r", "--cached", "milestones")
    with pytest.raises(BadInputError, match="something else"):
        refuse(clone)
    (clone / "solutions").mkdir()
    (clone / "solutions" / "a.py").write_text("")
    git(clone, "add", "--all")
    with pytest.raises(BadInputError, match="holds solutions/"):
        refuse(clone)


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
