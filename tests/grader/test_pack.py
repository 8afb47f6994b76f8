"""`grader pack`: what it takes, what it refuses and why, and that a course reads it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner

import milestones
from grader import history, pack
from grader.defined import defined_in
from grader.errors import BadInputError
from grader.handins import find_hand_ins
from grader.history import Entry, PastCheck
from grader.notebook import MAX_BYTES, Cell, Notebook, read_notebook
from grader.pack_cli import pack_command, prove_it_reads, student_name
from grader.report import CheckReport, MilestoneReport, Outcome
from solutions.lesson import ROOT

M2, M3 = "m2_kv_bytes", "m3_concurrency"
SOLVED = ROOT / "solutions" / "solved"


@pytest.fixture
def home(tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course's folder with every notebook blank, but m2 and m3 solved."""
    home = tmp_path / "course"
    (home / "notebooks").mkdir(parents=True)
    for slug in milestones.SLUGS:
        blank = course / "milestones" / slug / "blank.ipynb"
        shutil.copy(blank, home / "notebooks" / f"{slug}.ipynb")
    for slug in (M2, M3):
        shutil.copy(SOLVED / f"{slug}.ipynb", home / "notebooks")
    (home / "data").symlink_to(course / "data", target_is_directory=True)
    monkeypatch.chdir(home)
    monkeypatch.setenv("COLUMNS", "200")
    return home


def packs(home: Path, *args: str, code: int = 0, student: str = "ann") -> str:
    """Pack in this process, and return what was said."""
    assert Path.cwd() == home
    ran = CliRunner().invoke(pack_command, ["--student", student, *args])
    refused = isinstance(ran.exception, BadInputError)  # `grader.cli.main` ends it with exit code 2
    assert refused == (code == 2), ran.exception
    assert refused or ran.exit_code == code, ran.output
    return f"{ran.output}{ran.exception or ''}"


def write(folder: Path, slug: str, *sources: str) -> Path:
    cells = [nbformat.v4.new_code_cell(s, id=f"c{i}") for i, s in enumerate(sources)]
    path = folder / f"{slug}.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")
    return path


def defining(slug: str) -> str:
    return "\n".join(f"{name} = None" for name in milestones.load(slug).functions)


# ---------------------------------------------------------------- what a course reads


@pytest.mark.parametrize("how", ["as-it-is", "unpacked", "the-zip-alone", "canvas"])
def test_a_course_reads_the_very_bytes_under_the_students_name(home: Path, how: str) -> None:
    packs(home, student="Ännie O. Lee")
    made = home / "Ännie O. Lee.zip"
    hand_ins = home / "hand-ins"
    hand_ins.mkdir()
    student = "Ännie O. Lee"
    if how == "unpacked":
        with zipfile.ZipFile(made) as archive:
            archive.extractall(hand_ins)
    elif how == "canvas":
        student = "leeannie (7001)"
        shutil.copy(made, hand_ins / "leeannie_LATE_7001_90001_work.zip")
    else:
        shutil.copy(made, hand_ins)
    where = hand_ins / made.name if how == "the-zip-alone" else hand_ins
    found = {
        (one.student, one.slug): one.read()
        for one in find_hand_ins(where, milestones.SLUGS)
        if not one.missing
    }
    expected = {
        (student, slug): (home / "notebooks" / f"{slug}.ipynb").read_bytes() for slug in (M2, M3)
    }
    assert found == expected


def test_the_same_notebooks_give_the_same_bytes(home: Path) -> None:
    packs(home, "--out", "one.zip")
    for path in (home / "notebooks").iterdir():
        os.utime(path, (1_000_000_000, 1_000_000_000))
    packs(home, "--out", "two.zip")
    assert (home / "one.zip").read_bytes() == (home / "two.zip").read_bytes()


def test_the_manifest_says_what_is_in_it_and_what_the_last_check_found(home: Path) -> None:
    mine = read_notebook(home / "notebooks" / f"{M2}.ipynb")
    failed = CheckReport("one", "The first is right.", Outcome.FAILED, 1.5, 2.0)
    report = MilestoneReport(M2, "KV bytes", mine.sha256, (failed,))
    history.append(home, "s", report, mine.code_sha256, "check", datetime(2026, 11, 30, tzinfo=UTC))
    told = packs(home)
    assert "1.5 of 2 points in its last check; failing: The first is right." in told
    assert "not checked yet: grader check 3" in told
    assert "m1_profile_runs (still blank)" in told
    with zipfile.ZipFile(home / "ann.zip") as archive:
        assert archive.namelist() == [f"ann/{M2}.ipynb", f"ann/{M3}.ipynb", "ann/manifest.json"]
        manifest = json.loads(archive.read("ann/manifest.json"))
    assert (manifest["schema"], manifest["student"]) == (1, "ann")
    assert manifest["split_id"].startswith("public-")
    assert manifest["notebooks"][M2]["sha256"] == mine.sha256
    assert manifest["notebooks"][M2]["last_check"] == {
        "points": 1.5, "points_max": 2.0, "bonus": 0.0, "bonus_max": 0.0,
        "at": "2026-11-30T00:00:00+00:00", "of_this_code": True,
    }  # fmt: skip
    assert manifest["notebooks"][M3]["last_check"] is None


def test_a_notebook_that_changed_since_its_last_check_is_told(home: Path) -> None:
    passed = CheckReport("one", "The first is right.", Outcome.PASSED, 2.0, 2.0)
    report = MilestoneReport(M2, "KV bytes", "", (passed,))
    history.append(home, "s", report, "older code", "check", datetime.now(UTC))
    assert "changed since its last check: grader check 2" in packs(home)


def test_the_last_check_of_a_lab_is_told_by_its_bonus() -> None:
    lab = milestones.BONUS_SLUGS[0]
    mine = read_notebook(ROOT / "notebooks" / f"{lab}.ipynb")
    one = pack.Packed(lab, b"", mine)
    rung = PastCheck("rung", "A rung.", Outcome.FAILED, 2.0, 5.0, True, "", None, None, "", False)
    failed = Entry(
        datetime.now(UTC), "check", "s", "0", lab, mine.sha256, mine.code_sha256, (rung,)
    )
    told = "2 of 5 bonus in its last check; failing: A rung."
    assert pack.told_of_last_check(one, failed) == told
    full = replace(failed, checks=(replace(rung, outcome=Outcome.PASSED, points=5.0),))
    assert pack.told_of_last_check(one, full) == "5 of 5 bonus in its last check"


def test_only_what_is_named_is_packed(home: Path) -> None:
    packs(home, "3")
    with zipfile.ZipFile(home / "ann.zip") as archive:
        assert archive.namelist() == [f"ann/{M3}.ipynb", "ann/manifest.json"]


# ---------------------------------------------------------------- what it refuses


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def conflict(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    path.write_text(f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> theirs\n", encoding="utf-8")


def too_large(path: Path) -> None:
    with path.open("ab") as file:
        file.truncate(MAX_BYTES + 1)


def no_code(path: Path) -> None:
    cells = [nbformat.v4.new_markdown_cell("# All words", id="a")]
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")


def another(path: Path) -> None:
    shutil.copy(SOLVED / "m4_cache_equivalence.ipynb", path)


def broken_cell(path: Path) -> None:
    write(path.parent, path.stem, f"{defining(path.stem)}\nif True print(1)")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (cut, "its JSON is broken or cut short"),
        (conflict, "merge-conflict markers"),
        (too_large, "too large for a notebook"),
        (no_code, "has no cell of code"),
        (another, "but names of m4_cache_equivalence; is it that notebook under another name?"),
        (broken_cell, "defines none of"),
        (folder, "is a folder"),
        (lambda path: path.write_text("<!DOCTYPE html><html>"), "looks like a web page"),
        (lambda path: path.write_text("{}"), "is JSON but not a notebook"),
        (lambda path: path.write_text(""), "it is empty"),
        (lambda path: path.rename(path.with_name(f"{M2} (1).ipynb")), f"the name {M2}.ipynb"),
        (lambda path: path.rename(path.with_name("M2.ipynb")), f"the name {M2}.ipynb"),
        (lambda path: path.rename(path.with_name("m2-kv-bytes.ipynb")), f"the name {M2}.ipynb"),
    ],
)
def test_what_a_grader_could_not_read_is_refused_with_the_reason(
    harm: object, why: str, home: Path
) -> None:
    assert callable(harm)
    harm(home / "notebooks" / f"{M2}.ipynb")
    told = packs(home, code=2)
    assert why in told
    assert M2 in told
    assert not list(home.glob("*.zip*"))


def test_all_that_is_wrong_is_said_at_once(home: Path) -> None:
    conflict(home / "notebooks" / f"{M2}.ipynb")
    no_code(home / "notebooks" / f"{M3}.ipynb")
    told = packs(home, code=2)
    assert "merge-conflict" in told
    assert "no cell of code" in told


def test_a_blank_or_missing_notebook_that_was_named_is_refused(home: Path) -> None:
    assert "is the blank notebook" in packs(home, "1", code=2)
    (home / "notebooks" / f"{M2}.ipynb").unlink()
    assert "there is no such notebook" in packs(home, "2", code=2)


def test_a_refusal_ends_the_command_with_exit_code_2(home: Path) -> None:
    no_code(home / "notebooks" / f"{M2}.ipynb")
    run = subprocess.run(
        [sys.executable, "-m", "grader", "pack", "--student", "ann"],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 2
    assert run.stderr.startswith("grader: nothing was packed:\n  ")
    assert run.stdout == ""


def test_with_nothing_begun_there_is_nothing_to_pack(home: Path) -> None:
    for slug in (M2, M3):
        (home / "notebooks" / f"{slug}.ipynb").unlink()
    assert "nothing to hand in yet" in packs(home, code=2)


def test_a_copy_that_reset_kept_is_in_nobodys_way(home: Path) -> None:
    mine = home / "notebooks" / f"{M2}.ipynb"
    shutil.copy(mine, mine.with_name(f"{M2}.2026-11-30-140302.ipynb"))
    shutil.copy(mine, mine.with_name("scratch.ipynb"))
    packs(home)
    with zipfile.ZipFile(home / "ann.zip") as archive:
        assert len(archive.namelist()) == 3


def test_another_file_of_that_name_is_not_overwritten_but_an_earlier_pack_is(home: Path) -> None:
    packs(home)
    packs(home, "2")
    with zipfile.ZipFile(home / "ann.zip") as archive:
        assert len(archive.namelist()) == 2
    for content in (b"PK no zip", b""):
        (home / "ann.zip").write_bytes(content)
        assert "was not made by `grader pack`" in packs(home, code=2)
        assert (home / "ann.zip").read_bytes() == content
    with zipfile.ZipFile(home / "ann.zip", "w") as archive:
        archive.writestr("photos/manifest.json", "[]")
    assert "was not made by `grader pack`" in packs(home, code=2)


# ---------------------------------------------------------------- what it warns of


def test_a_function_that_is_missing_is_a_warning_and_no_refusal(home: Path) -> None:
    write(home / "notebooks", M3, "def max_concurrent_requests(**shape):\n    return 3")
    assert "`max_context_len` is defined in no cell; its checks will fail" in packs(home)


def test_a_module_beside_the_notebook_is_not_handed_in_and_that_is_told(home: Path) -> None:
    (home / "notebooks" / "helpers.py").write_text("x = 1\n", encoding="utf-8")
    write(home / "notebooks", M3, f"import helpers, numpy\n{defining(M3)}")
    told = packs(home)
    assert "imports helpers.py, which is not handed in; put its code into a cell" in told
    assert "numpy" not in told


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["Ann Lee", "ann.lee@example.edu", "Žofie", "a" * 80])
def test_a_name_that_a_file_can_have_is_taken(name: str, tmp_path: Path) -> None:
    assert student_name(f" {name} ", tmp_path) == (name, "")


@pytest.mark.parametrize(
    "name", ["a/b", "..", ".hidden", "a\\b", "a\nb", "con:", "100 %", "a" * 81, "x\x1b[2J", "a."]
)
def test_a_name_that_no_file_should_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="a hand-in is a file of that name"):
        student_name(name, tmp_path)


def test_without_a_name_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for scope in ("GLOBAL", "SYSTEM"):
        monkeypatch.setenv(f"GIT_CONFIG_{scope}", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(BadInputError, match="--student NAME"):
        student_name(None, tmp_path)
    with pytest.raises(BadInputError, match="--student NAME"):
        student_name("  ", tmp_path)
    monkeypatch.setenv("PATH", "")  # and on a machine without git
    with pytest.raises(BadInputError, match="--student NAME"):
        student_name(None, tmp_path)


def test_the_name_is_gits_where_none_is_given(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "config", "user.name", "Ann Lee"], cwd=tmp_path, check=True)
    assert student_name(None, tmp_path) == ("Ann Lee", ", the name in your git configuration")


def test_a_name_that_a_course_would_read_as_anothers_is_refused(home: Path) -> None:
    told = packs(home, code=2, student="bo_7_assignsubmission_file_")
    assert "a course would read this as handed in by bo (7)" in told
    assert not list(home.glob("*.zip"))


def test_a_zip_that_lost_a_notebook_would_be_seen(home: Path) -> None:
    chosen = pack.choose(home / "notebooks").packed
    whole = pack.bundle(chosen, "ann", "s", {})
    prove_it_reads(whole, "ann", chosen)
    for content in (pack.bundle(chosen[:1], "ann", "s", {}), pack.bundle((), "ann", "s", {})):
        with pytest.raises(BadInputError, match="a course would read this"):
            prove_it_reads(content, "ann", chosen)
    changed = (replace(chosen[0], raw=b"{}"), *chosen[1:])
    with pytest.raises(BadInputError, match="a course would read this"):
        prove_it_reads(pack.bundle(changed, "ann", "s", {}), "ann", chosen)


@pytest.mark.parametrize(
    ("stem", "slug"),
    [
        ("m2_kv_bytes", M2), ("M2_KV_Bytes (1)", M2), ("m2", M2), ("m2-kv", M2), ("M2 final", M2),
        ("m2_kv_bytes-Copy1", M2), ("m22", None), ("kv_bytes", None), ("scratch", None), ("", None),
    ],
)  # fmt: skip
def test_a_name_means_a_milestone_or_none(stem: str, slug: str | None) -> None:
    assert pack.meant_by(stem) == slug


# ---------------------------------------------------------------- what a notebook defines


@pytest.mark.parametrize(
    ("source", "defines"),
    [
        ("def f(): pass", True),
        ("async def f(): pass", True),
        ("f = lambda: 0", True),
        ("from helpers import g as f", True),
        ("try:\n    def f(): pass\nexcept ValueError: pass", True),
        ("%time def_ = 1\ndef f(): pass", True),
        ("%%time\ndef f(): pass", True),
        ("from helpers import *", True),
        ("exec('def f(): pass')", True),
        ("%run helpers.py", True),
        ("!ls\nf = 1", True),
        ("def f(: pass", False),
        ("# def f(): pass", False),
        ("def g():\n    def f(): pass", False),
        ("class G:\n    def f(self): pass", False),
        ("f()", False),
        ("%matplotlib inline", False),
        ("[f for f in range(3)]", False),
    ],
)
def test_a_notebook_may_define_a_name_as_far_as_reading_it_tells(
    source: str, defines: bool
) -> None:
    assert defined_in(Notebook("", (Cell(0, source),))).may_have("f") is defines
