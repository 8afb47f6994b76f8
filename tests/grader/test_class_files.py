"""Receipts hold or are told apart, and a second grading says what changed."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import milestones
from grader import class_cli
from grader.changes import changes, gone, open_before
from grader.class_cli import class_command
from grader.classroom import Graded, Reason
from grader.errors import BadInputError
from grader.handins import HandIn, file_stem
from grader.outputs import make_ready, refuse_inputs, write_class
from grader.receipts import Issuer, canonical, signing_key, verify
from grader.report import EXIT_INTERRUPTED, CheckReport, MilestoneReport, Outcome
from grader.split import Split

M2 = "m2_kv_bytes"
ROOT = Path(__file__).parents[2]
SPLIT = Split(ROOT / "data" / "public_split", "autumn", public=False)


def graded(student: str, outcome: Outcome = Outcome.PASSED, notebook: str = "aa") -> Graded:
    points = {Outcome.PASSED: 2.0, Outcome.FAILED: 0.0, Outcome.BROKEN: None}[outcome]
    check = CheckReport("known_shapes", "It knows.", outcome, points, 2.0)
    report = MilestoneReport(M2, "Bytes", notebook, (check,))
    reason = Reason.BROKEN if outcome is Outcome.BROKEN else Reason.GRADED
    return Graded(HandIn(student, M2), report, reason)


def write(found: list[Graded], out: Path) -> Path:
    make_ready(out)
    issuer = Issuer(signing_key(out / "signing.key"), "autumn", "c" * 64, walled=True)
    write_class(found, SPLIT, issuer, out)
    return out


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return write([graded("ann"), graded("Łukasz /x")], tmp_path / "out")


# ---------------------------------------------------------------- pages


def test_each_student_gets_a_page_and_the_class_one_that_leads_to_them(out: Path) -> None:
    pages = {path.name for path in (out / "feedback").iterdir()}
    assert pages == {f"{file_stem(name)}.html" for name in ("ann", "Łukasz /x")}
    overview = (out / "class.html").read_text()
    assert 'href="feedback/ann.html"' in overview


# ---------------------------------------------------------------- what a person marks


def test_what_a_person_marks_lies_in_a_document_and_goes_with_it(tmp_path: Path) -> None:
    told = "### Why\n\nBecause.\n"
    ann, bob = graded("ann"), graded("bob")
    ann = replace(ann, report=replace(ann.report, document=told))
    out = write([ann, bob], tmp_path / "out")
    folder = out / "documents" / M2
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"ann.md": told}
    assert told not in (out / "reports" / "ann" / f"{M2}.json").read_text()
    write([graded("ann"), bob], out)
    assert not list(folder.iterdir())


def test_the_report_of_a_lab_goes_with_its_notebook(tmp_path: Path) -> None:
    lab = milestones.BONUS_SLUGS[0]
    ann = graded("ann")
    theirs = replace(ann, hand_in=HandIn("ann", lab), report=replace(ann.report, milestone=lab))
    out = write([ann, theirs], tmp_path / "out")
    assert (out / "reports" / "ann" / f"{lab}.json").is_file()
    write([ann], out)
    assert [path.stem for path in (out / "reports" / "ann").iterdir()] == [M2]


def test_a_receipt_writes_every_number_of_points_alike(out: Path) -> None:
    body = json.loads((out / "receipts" / "ann.json").read_text(encoding="utf-8"))["body"]
    told = [one[key] for one in body["hand_ins"] for key in ("points", "bonus", "bonus_max")]
    assert [*map(str, told)] == ["2.0", "0.0", "0.0"]


# ---------------------------------------------------------------- what nobody graded


def test_notes_tell_whose_notebooks_bear_no_milestones_name(tmp_path: Path) -> None:
    files = tuple(f"{number}.ipynb" for number in range(7))
    ann = replace(graded("ann"), hand_in=HandIn("ann", M2, unnamed=files))
    out = write([ann, graded("bob")], tmp_path / "out")
    (row,) = csv.DictReader((out / "notes.csv").read_text(encoding="utf-8").splitlines())
    assert (row["student"], row["milestone"]) == ("ann", "")
    assert "0.ipynb" in row["note"]
    assert "and 2 more" in row["note"]
    assert "Rename" in row["note"]


@pytest.mark.parametrize("where", ["in", "in/out", "new/../in/a/b", "link/out"])
def test_results_are_never_written_among_what_is_read(where: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "in", target_is_directory=True)
    with pytest.raises(BadInputError, match=r"lies in the split .*name a folder elsewhere"):
        refuse_inputs(tmp_path / where, {"the split": tmp_path / "in"})


def test_results_beside_or_around_what_is_read_are_written(tmp_path: Path) -> None:
    for where in ("", "inside", "out"):
        refuse_inputs(tmp_path / where, {"the split": tmp_path / "in"})


@pytest.mark.parametrize("which", ["split", "class"])
def test_the_command_refuses_to_write_into_its_inputs(which: str, tmp_path: Path) -> None:
    blank = (ROOT / "notebooks" / f"{M2}.ipynb").read_bytes()
    (tmp_path / "class" / "ann").mkdir(parents=True)
    (tmp_path / "class" / "ann" / f"{M2}.ipynb").write_bytes(blank)
    shutil.copytree(ROOT / "data" / "public_split", tmp_path / "split")
    before = sorted(tmp_path.rglob("*"))
    run = CliRunner().invoke(
        class_command,
        [str(tmp_path / "class"), "--split", str(tmp_path / "split"), "--out",
         str(tmp_path / which / "out")],
    )  # fmt: skip
    assert isinstance(run.exception, BadInputError)
    assert "lies in the" in str(run.exception)
    assert sorted(tmp_path.rglob("*")) == before


# ---------------------------------------------------------------- receipts


def test_each_student_gets_a_receipt_that_holds(out: Path) -> None:
    receipts = sorted((out / "receipts").glob("*.json"))
    assert len(receipts) == 2
    for receipt in receipts:
        verified = verify(receipt, out / "receipts" / "public.pem")
        assert verified.known_key
        assert verified.body["split_commitment"] == "c" * 64
        assert verified.body["room"] is True
        (one,) = verified.body["hand_ins"]
        assert (one["milestone"], one["points"], one["notebook_sha256"]) == (M2, 2.0, "aa")
        assert one["checks"] == {"known_shapes": "PASSED"}
        assert {"grader", "python", "numpy", "lightgbm"} <= verified.body["versions"].keys()


def test_the_same_class_and_key_give_the_same_receipts(out: Path) -> None:
    before = {path: path.read_bytes() for path in (out / "receipts").iterdir()}
    write([graded("ann"), graded("Łukasz /x")], out)
    assert before == {path: path.read_bytes() for path in (out / "receipts").iterdir()}


def change_points(content: dict[str, Any]) -> None:
    content["body"]["hand_ins"][0]["points"] = 15


def change_name(content: dict[str, Any]) -> None:
    content["body"]["student"] = "bo"


def change_signature(content: dict[str, Any]) -> None:
    content["signature"] = "A" * 86 + "=="


def drop_a_check(content: dict[str, Any]) -> None:
    content["body"]["hand_ins"][0]["checks"] = {}


@pytest.mark.parametrize("change", [change_points, change_name, change_signature, drop_a_check])
def test_a_changed_receipt_is_told(change: Any, out: Path) -> None:
    path = out / "receipts" / "ann.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(BadInputError, match="was changed after it was signed"):
        verify(path)


def test_a_receipt_signed_by_a_student_is_not_the_courses(out: Path, tmp_path: Path) -> None:
    forger = Ed25519PrivateKey.generate()
    issuer = Issuer(forger, "autumn", "c" * 64, walled=True)
    path = tmp_path / "ann.json"
    path.write_text(issuer.receipt("ann", [graded("ann")]))
    assert not verify(path).known_key
    with pytest.raises(BadInputError, match="signed by another key"):
        verify(path, out / "receipts" / "public.pem")


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"body": {}, "public_key": "", "signature": ""}', "[" * 9_999]
)
def test_what_is_no_receipt_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    path.write_text(text)
    with pytest.raises(BadInputError, match="not a receipt"):
        verify(path)


def test_the_signing_key_is_kept_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "signing.key"
    first = signing_key(path)
    assert path.stat().st_mode & 0o077 == 0
    body = canonical({"a": 1})
    assert signing_key(path).sign(body) == first.sign(body)
    path.write_text("no key")
    with pytest.raises(BadInputError, match="no Ed25519 private key"):
        signing_key(path)


def test_verify_tells_a_notebook_that_was_not_the_one_graded(out: Path, tmp_path: Path) -> None:
    (tmp_path / f"{M2}.ipynb").write_text("another one")
    command = [sys.executable, "-m", "grader", "verify", str(out / "receipts" / "ann.json")]
    good = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (good.returncode, "2 of 2" in good.stdout) == (0, True)
    assert "anyone can sign with a key of their own" in good.stdout
    key = ["--key", str(out / "receipts" / "public.pem"), "--notebooks", str(tmp_path)]
    other = subprocess.run([*command, *key], capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert "is not the notebook that was graded" in other.stdout


# ---------------------------------------------------------------- interrupts


@pytest.mark.parametrize("where", ["find_hand_ins", "grade_class", "write_class", "unnamed"])
def test_whenever_a_class_is_interrupted_it_says_that_what_was_graded_is_kept(
    where: str, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_args: Any) -> None:
        raise KeyboardInterrupt

    team = class_cli.Team({}, 1, "", True, (), None, threading.Event())
    monkeypatch.setattr(class_cli, "_team", lambda *_args: nullcontext(team))
    monkeypatch.setattr(class_cli, "find_hand_ins", lambda *_args: [])
    monkeypatch.setattr(class_cli, where, interrupted)
    (out / "results").mkdir()
    args = [str(tmp_path / "in"), "--split", str(SPLIT.folder), "--out", str(out)]
    ran = CliRunner().invoke(class_command, args)
    assert ran.exit_code == EXIT_INTERRUPTED
    assert f"in {out} what was graded is kept; the same command goes on from there" in ran.stderr


# ---------------------------------------------------------------- changes


def test_a_second_grading_says_who_changed_and_by_how_much(out: Path) -> None:
    before = open_before(out)
    now = [graded("Łukasz /x", Outcome.FAILED), graded("ann"), graded("new")]
    assert list(changes(now, before)) == [
        ("Łukasz /x", M2, "2", "0", "-2", "known_shapes: PASSED -> FAILED")
    ]
    there = [one.hand_in for one in now]
    assert gone(there, before) == []
    assert gone(there[1:], before) == ["Łukasz /x"]


def test_another_notebook_is_a_change_and_a_broken_grade_is_no_number(out: Path) -> None:
    before = open_before(out)
    now = [graded("ann", notebook="bb"), graded("Łukasz /x", Outcome.BROKEN)]
    assert list(changes(now, before)) == [
        ("ann", M2, "2", "2", "+0", "another notebook"),
        ("Łukasz /x", M2, "2", "", "", "known_shapes: PASSED -> BROKEN"),
    ]


def test_a_check_that_was_not_there_is_named(out: Path) -> None:
    one = graded("ann")
    more = replace(one.report.checks[0], name="new_check")
    now = replace(one, report=replace(one.report, checks=(*one.report.checks, more)))
    ((*_, what),) = changes([now], open_before(out))
    assert what == "new_check: not there -> PASSED"


def test_rows_of_changes_come_as_hand_ins_do(out: Path) -> None:
    before = open_before(out)

    def one_by_one() -> Iterator[Graded]:
        yield graded("ann", notebook="bb")
        yield graded("Łukasz /x", Outcome.FAILED)
        pytest.fail("a class of thousands would be in memory")

    ((student, *_),) = islice(changes(one_by_one(), before), 1)
    assert student == "ann"


def test_a_folder_without_grades_cannot_be_compared_with(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="holds no grades"):
        open_before(tmp_path)
