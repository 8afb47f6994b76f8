"""The autograder for Gradescope: unpacked as Gradescope does, it grades; what breaks is no zero."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.errors import BadInputError
from grader.gradebook import on_gradescope
from grader.gradebook.gradescope import (
    RELEASED,
    RELEASED_FILES,
    TRUSTED,
    WALLED,
    write_autograder,
)
from grader.gradebook_cli import gradebook
from grader.host import Host, NoBoundaryError
from grader.split import Split
from solutions.render import solved_path
from tests.conftest import WriteNotebook
from tests.grader.gradebook import graded
from tests.grader.test_exports import GradescopeResults

M2 = "m2_kv_bytes"
HALF = (
    "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n"
    "    return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8"
)


def unpacked(archive: Path, root: Path) -> Path:
    """What Gradescope makes of a zip: source/, run_autograder, submission/ and results/."""
    with zipfile.ZipFile(archive) as content:
        content.extractall(root / "source")
    shutil.copyfile(root / "source" / "run_autograder", root / "run_autograder")
    (root / "run_autograder").chmod(0o755)
    for name in ("submission", "results"):
        (root / name).mkdir()
    python = root / "venv" / "bin" / "python"  # what setup.sh installs
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return root


@pytest.fixture(scope="module")
def archive(m2_hidden: Split, course: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("zip") / "autograder.zip"
    write_autograder(course, m2_hidden.folder, out, trust=False)
    return out


@pytest.fixture
def autograder(archive: Path, tmp_path: Path) -> Path:
    return unpacked(archive, tmp_path / "autograder")


def run(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [root / "run_autograder"], cwd=root, capture_output=True, text=True, check=False
    )


def results(root: Path) -> GradescopeResults:
    text = (root / "results" / "results.json").read_text(encoding="utf-8")
    return GradescopeResults.model_validate_json(text)


def test_the_zip_has_what_gradescope_asks_for_at_its_root_and_no_solution(
    archive: Path, m2_hidden: Split, course: Path, tmp_path: Path
) -> None:
    write_autograder(course, m2_hidden.folder, tmp_path / "again.zip", trust=False)
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()
    with zipfile.ZipFile(archive) as opened:
        modes = {i.filename: i.external_attr >> 16 for i in opened.infolist()}
        setup = opened.read("setup.sh").decode()
    for name in ("setup.sh", "run_autograder"):
        assert modes[name] & stat.S_IXUSR
    assert not [name for name in modes if "solutions" in name.split("/")[:2]]
    assert not [name for name in modes if "__pycache__" in name]
    assert "release/grader/gradebook/on_gradescope.py" in modes
    assert any(name.startswith("split/truth/") for name in modes)
    check = subprocess.run(["bash", "-n"], input=setup, text=True, check=False)
    assert check.returncode == 0


def test_the_command_says_aloud_that_truth_is_inside(
    m2_hidden: Split, course: Path, tmp_path: Path
) -> None:
    args = ["gradescope-zip", "--split", str(m2_hidden.folder), "--course", str(course), "--out"]
    for trust in ([], ["--trust-submissions"]):
        done = CliRunner().invoke(gradebook, [*args, str(tmp_path / "a.zip"), *trust])
        assert done.exit_code == 0
        assert "The truth of the split is inside this zip" in done.output
        assert ("grades nothing" in done.output) == (not trust)


def test_a_folder_that_is_no_split_or_no_course_makes_no_zip(
    m2_hidden: Split, course: Path, tmp_path: Path
) -> None:
    for where, split in ((tmp_path, m2_hidden.folder), (course, tmp_path)):
        with pytest.raises(BadInputError):
            write_autograder(where, split, tmp_path / "a.zip", trust=False)
    assert list(tmp_path.iterdir()) == []


def test_a_submission_is_graded_in_a_room_by_the_graders_own_copy(
    autograder: Path, walled: Host
) -> None:
    assert walled.walled
    shutil.copyfile(solved_path(M2), autograder / "submission" / "M2_kv_bytes.ipynb")
    (autograder / "submission" / "essay.ipynb").write_text("{}")
    done = run(autograder)
    assert done.returncode == 0, done.stdout + done.stderr
    found = results(autograder)
    assert found.tests
    assert all(test.score == test.max_score for test in found.tests)
    assert sum(test.max_score or 0 for test in found.tests) == 15 + 3  # and the bonus
    assert found.output == (f"essay.ipynb is no milestone's notebook; it was not graded.\n{WALLED}")


def test_what_a_notebook_prints_is_not_in_its_result(
    autograder: Path, walled: Host, write_notebook: WriteNotebook
) -> None:
    assert walled.walled
    secret = "print('TRUTH' * 3)\nraise RuntimeError('TRUTH')"
    shutil.copy(write_notebook(HALF, secret), autograder / "submission")
    assert run(autograder).returncode == 0
    found = results(autograder)
    assert 0 < sum(test.score or 0 for test in found.tests or ()) < 15
    assert "TRUTH" not in json.dumps(found.model_dump())


def test_a_split_that_was_damaged_on_the_way_leaves_no_result(autograder: Path) -> None:
    shutil.copyfile(solved_path(M2), autograder / "submission" / f"{M2}.ipynb")
    victim = next((autograder / "source" / "split" / "truth").rglob("*.*"))
    victim.write_text("damaged")
    done = run(autograder)
    assert done.returncode == 3
    assert "has changed since the manifest was written" in done.stdout
    assert list((autograder / "results").iterdir()) == []


@contextmanager
def _no_boundary() -> Iterator[Host]:
    raise NoBoundaryError("unshare is not permitted")
    yield  # the type of a host that is never opened


@pytest.mark.parametrize("trust", [False, True])
def test_without_a_boundary_only_trusted_submissions_are_graded_and_it_is_said(
    trust: bool,
    autograder: Path,
    write_notebook: WriteNotebook,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("grader.hosts._open_warm", _no_boundary)
    shutil.copy(write_notebook(HALF), autograder / "submission")
    args = [str(autograder), *(["--trust-submissions"] if trust else [])]
    assert on_gradescope.main(args) == (0 if trust else 3)
    said = capsys.readouterr().out
    assert "unshare is not permitted" in said
    if trust:
        assert results(autograder).output == TRUSTED
    else:
        assert "make the zip with --trust-submissions" in said
        assert list((autograder / "results").iterdir()) == []


def test_a_submission_without_a_notebook_earns_nothing_and_is_told_what_to_hand_in(
    autograder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grader.hosts._open_warm", _no_boundary)
    assert on_gradescope.main([str(autograder), "--trust-submissions"]) == 0
    found = results(autograder)
    assert found.score == 0
    assert found.output is not None
    assert "No notebook was found; hand in any of m1_profile_runs.ipynb" in found.output


def test_a_check_that_broke_leaves_no_result(
    autograder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("grader.hosts._open_warm", _no_boundary)
    monkeypatch.setattr(on_gradescope, "grade", lambda *_, **__: graded("a", (5.0, None)).report)
    (autograder / "submission" / f"{M2}.ipynb").write_text("{}")
    assert on_gradescope.main([str(autograder), "--trust-submissions"]) == 3
    assert f"the grader broke on {M2}; no points are affected" in capsys.readouterr().out
    assert list((autograder / "results").iterdir()) == []


def test_what_is_hidden_compiled_or_a_link_is_not_in_the_zip(
    m2_hidden: Split, course: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "course"
    for name in RELEASED:
        shutil.copytree(course / name, copy / name)
    for name in RELEASED_FILES:
        shutil.copyfile(course / name, copy / name)
    for name in ("grader/__pycache__/x.pyc", "grader/.env", "milestones/.git/config"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text("secret")
    (copy / "grader" / "link.py").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("secret")
    write_autograder(copy, m2_hidden.folder, tmp_path / "a.zip", trust=False)
    with zipfile.ZipFile(tmp_path / "a.zip") as opened:
        assert not [n for n in opened.namelist() if opened.read(n) == b"secret"]


def test_notebooks_are_found_by_name_once_each_and_never_through_a_link(tmp_path: Path) -> None:
    for name in ("a/m2.ipynb", "m2_kv_bytes.ipynb", ".hidden/m5.ipynb", "deep/er/3.ipynb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "m7.ipynb").symlink_to("/etc/passwd")
    found, told = on_gradescope.notebooks(tmp_path)
    assert found == {
        M2: tmp_path / "m2_kv_bytes.ipynb",
        "m3_concurrency": tmp_path / "deep" / "er" / "3.ipynb",
    }
    assert told == ["m2_kv_bytes.ipynb is there more than once; the first was graded."]
