"""`grader class`: one row a hand-in, the same grade wherever and beside whatever it is graded."""

from __future__ import annotations

import csv
import gc
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pandas as pd
import psutil
import pytest
from scipy.stats import spearmanr

import milestones
from grader import classroom, scratch
from grader.bait import LEFT_AT, Bait, leave_bait
from grader.classroom import AHEAD, Course, Graded, GradedClass, Reason, grade_class
from grader.cold import COLD
from grader.errors import BadInputError
from grader.explain import reader
from grader.grade import grade
from grader.handins import HandIn, find_hand_ins
from grader.host import Body, Host, HostError, Start
from grader.layouts import readable
from grader.limits import Limits
from grader.outputs import make_ready, spreadsheet_safe, write_class
from grader.perform import Job, Transcript, perform
from grader.places import Places
from grader.present import as_json
from grader.receipts import Issuer, signing_key
from grader.report import MilestoneReport, Outcome, Report
from grader.results import Results
from grader.split import Split, open_split
from milestones.runs import LABELS
from milestones.spec import Answer, Answers
from solutions.lesson import ROOT
from solutions.render import solved_path
from tests.conftest import WriteNotebook
from tests.grader.test_scratch import open_files

M2 = "m2_kv_bytes"
PUBLIC = ROOT / "data" / "public_split"
RIGHT = (
    "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n"
    "    return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8"
)


@pytest.fixture
def hand_in(tmp_path: Path, write_notebook: WriteNotebook) -> WriteNotebook:
    """Hand in a notebook of code cells as a student's; return the folder of all hand-ins."""

    def hand(*cells: str, name: str = "ann") -> Path:
        folder = tmp_path / "submissions" / name
        folder.mkdir(parents=True, exist_ok=True)
        write_notebook(*cells).rename(folder / f"{M2}.ipynb")
        return folder.parent

    return hand


def course_of(split: Split, host: Host, kept: Path, bait: Bait | None = None) -> Course:
    """What a class is graded with, its results kept in a folder."""
    baited = None if bait is None else bait.folder
    places = Places(ROOT / "data", split.folder / "questions", None, baited)
    do = partial(perform, start=Start(places, Limits()), host=host, cancelled=threading.Event())
    results = Results(kept / "results", {"split": split.split_id, "walled": host.walled})
    tables = dict.fromkeys(milestones.SLUGS, reader(places))
    return Course(split, dict.fromkeys(milestones.SLUGS, do), results, bait, tables)


def graded(
    folder: Path, course: Course, workers: int = 2, slugs: tuple[str, ...] = (M2,)
) -> GradedClass:
    return grade_class(find_hand_ins(folder, slugs), course, workers)


def written(found: Sequence[Graded], split: Split, out: Path) -> Path:
    """Write the files of a graded class, and return where."""
    make_ready(out)
    issuer = Issuer(signing_key(out / "signing.key"), split.split_id, "0" * 64, walled=True)
    write_class(found, split, issuer, out)
    return out


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "grades.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def json_of(report: object, split: Split) -> str:
    return as_json(Report(split.split_id, split.public, (report,)))  # type: ignore[arg-type]


# ---------------------------------------------------------------- one row each


def test_every_hand_in_ends_in_one_row_with_one_reason(
    hand_in: WriteNotebook, m2_hidden: Split, walled: Host, tmp_path: Path
) -> None:
    folder = hand_in(RIGHT, name="right")
    hand_in("import os\nos._exit(0)", name="stopped")
    hand_in("1 / 0", name="zero")
    (folder / "none").mkdir()
    (folder / "page").mkdir()
    (folder / "page" / f"{M2}.ipynb").write_text("<!DOCTYPE html>")
    (folder / "linked").mkdir()
    (folder / "linked" / f"{M2}.ipynb").symlink_to(folder / "right" / f"{M2}.ipynb")
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe" / f"{M2}.ipynb")
    (folder / "tree" / f"{M2}.ipynb").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "notes.txt").touch()
    (folder / "elsewhere").symlink_to(folder / "right")

    found = graded(folder, course_of(m2_hidden, walled, tmp_path))
    written(found, m2_hidden, tmp_path / "out")
    assert {row["student"]: (row["points"], row["reason"]) for row in rows(tmp_path / "out")} == {
        "right": ("4", "graded"),
        "stopped": ("0", "ended"),
        "zero": ("0", "graded"),
        "none": ("0", "missing"),
        "page": ("0", "unreadable"),
        "linked": ("0", "unreadable"),
        "pipe": ("0", "unreadable"),
        "tree": ("0", "unreadable"),
    }
    assert {row["points_max"] for row in rows(tmp_path / "out")} == {"15"}


def test_a_graded_class_keeps_no_report_in_memory(
    hand_in: WriteNotebook, m2_hidden: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ref[MilestoneReport]] = []
    grade_one = classroom._grade_one

    def watched(*args: Any) -> Graded:
        one = grade_one(*args)
        made.append(ref(one.report))
        return one

    monkeypatch.setattr(classroom, "_grade_one", watched)
    folder = hand_in("x = 1", name="ann")
    for name in ("bob", "cy"):
        (folder / name).mkdir()
        (folder / name / f"{M2}.ipynb").write_text("<!-- no notebook -->")
    found = graded(folder, course_of(m2_hidden, COLD, tmp_path))
    gc.collect()
    assert len(made) == 3
    assert [one() for one in made] == [None] * 3
    assert [one.reason for one in found] == [Reason.GRADED, Reason.UNREADABLE, Reason.UNREADABLE]
    assert found.reasons() == {Reason.GRADED: 1, Reason.UNREADABLE: 2}
    assert [one.hand_in.student for one in found[1:]] == ["bob", "cy"]
    assert found[-1] == found[2]
    with pytest.raises(IndexError):
        found[3]


def test_only_a_few_hand_ins_are_under_way_at_a_time(m2_hidden: Split, tmp_path: Path) -> None:
    done: list[HandIn] = []
    begun: set[int] = set()

    class Watched(list[HandIn]):
        def __getitem__(self, number: Any) -> Any:
            begun.add(number)
            assert len(begun) <= len(done) + AHEAD * 2, "begun before those before it were done"
            return super().__getitem__(number)

    hand_ins = Watched(HandIn(f"student {number}", M2) for number in range(50))
    grade_class(hand_ins, course_of(m2_hidden, COLD, tmp_path), 2, done.append)
    assert len(done) == 50


@pytest.mark.parametrize("workers", [1, 4])
def test_no_room_for_temporary_files_is_a_sentence(
    workers: int, m2_hidden: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "SETTINGS", "PRAGMA journal_mode = OFF; PRAGMA max_page_count=3;")
    hand_ins = [HandIn(f"student {number}", M2) for number in range(50)]
    with pytest.raises(BadInputError, match=r"\(database or disk is full\).*TMPDIR"):
        grade_class(hand_ins, course_of(m2_hidden, COLD, tmp_path), workers)


def test_what_a_class_kept_on_disk_goes_with_it(m2_hidden: Split, tmp_path: Path) -> None:
    hand_ins = [HandIn(f"student {number}", M2) for number in range(3_000)]
    before = open_files()
    found = grade_class(hand_ins, course_of(m2_hidden, COLD, tmp_path), 1)
    assert len(found) == 3_000
    assert len(open_files() - before) == 1
    del found
    gc.collect()
    assert open_files() <= before


def test_a_fault_of_ours_is_a_row_without_points(
    hand_in: WriteNotebook, m2_hidden: Split, walled: Host, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(m2_hidden.folder, damaged)
    (damaged / "truth" / M2 / "mistakes.json").unlink()
    split = Split(damaged, "damaged", public=False)
    found = graded(hand_in(RIGHT), course_of(split, walled, tmp_path))
    written(found, split, tmp_path / "out")
    (row,) = rows(tmp_path / "out")
    assert (row["points"], row["reason"]) == ("", "broken")


@pytest.mark.parametrize("fault", [HostError, RuntimeError])
def test_a_fault_of_ours_can_be_written_whatever_it_says(
    fault: type[Exception], hand_in: WriteNotebook, m2_hidden: Split, tmp_path: Path
) -> None:
    def fails(_job: Job) -> list[Transcript]:
        raise fault("a name that is no text: \udcff\n\x1b[2J")

    course = replace(course_of(m2_hidden, COLD, tmp_path), perform={M2: fails})
    found = graded(hand_in(RIGHT), course)
    written(found, m2_hidden, tmp_path / "out")
    assert [row["reason"] for row in rows(tmp_path / "out")] == ["broken"]
    assert "no text: ??" in found[0].report.checks[0].hint


class _Failing:
    """A host that has no room for one notebook in two."""

    walled = True
    shown: tuple[str, ...] = ()

    def __init__(self, host: Host) -> None:
        self._host, self._asked = host, 0

    def start(self, start: Start) -> Body:
        self._asked += 1
        if self._asked % 2:
            raise HostError("no room")
        return self._host.start(start)


def test_a_room_that_cannot_be_had_breaks_one_hand_in_and_not_the_class(
    hand_in: WriteNotebook, m2_hidden: Split, walled: Host, tmp_path: Path
) -> None:
    for name in "abcd":
        folder = hand_in(f"{RIGHT}  # {name}", name=name)
    found = graded(folder, course_of(m2_hidden, _Failing(walled), tmp_path), workers=1)
    assert [one.reason for one in found] == [Reason.BROKEN, Reason.GRADED] * 2


@pytest.mark.parametrize(
    "name",
    ["=cmd()", "+1", "-1", "@sum", "<b>bold", "..x", "a b", "Łukasz", "x" * 200, 'say "hi"',
     "comma, name", "new\nline", "$(id)", "[red]", "%s{}", "'quoted"],
)  # fmt: skip
def test_a_name_is_only_a_name(
    name: str, hand_in: WriteNotebook, m2_hidden: Split, walled: Host, tmp_path: Path
) -> None:
    found = graded(hand_in(RIGHT, name=name), course_of(m2_hidden, walled, tmp_path))
    out = tmp_path / "out"
    written(found, m2_hidden, out)
    (row,) = rows(out)
    assert row["student"] == spreadsheet_safe(readable(name))
    assert not row["student"].startswith(("=", "+", "-", "@"))
    assert row["points"] == "4"
    (report,) = (out / "reports").rglob("*.json")
    assert report.parent.parent == out / "reports", "nothing is written beside the reports"


@pytest.mark.parametrize("what", ["absent", "empty", "a file"])
def test_a_folder_without_hand_ins_is_told_in_one_sentence(what: str, tmp_path: Path) -> None:
    folder = tmp_path / "submissions"
    if what == "empty":
        folder.mkdir()
    if what == "a file":
        folder.touch()
    with pytest.raises(BadInputError, match=r"hand-ins|neither a folder nor a zip"):
        find_hand_ins(folder, (M2,))


# ---------------------------------------------------------------- the same grade anywhere


CLASS = {
    "right": (RIGHT,),
    "wrong": (RIGHT.replace("2 *", "4 *"),),
    "raises": ("1 / 0", "open('/course/data/none')", RIGHT),
    "stopped": ("import os\nos._exit(4)",),
    "random": (
        "import random\nimport numpy as np",
        "def kv_bytes_per_token(**shape): return random.random() + np.random.rand()",
    ),
    "folder": ("import os\nraise ValueError(os.getcwd())",),
    "message": ("def kv_bytes_per_token(**s): raise ValueError(object())",),
}


def test_a_grade_is_the_same_alone_or_in_a_class_first_or_last_warm_or_cold(
    hand_in: WriteNotebook, m2_split: Split, course: Path, walled: Host, tmp_path: Path
) -> None:
    for name, cells in CLASS.items():
        folder = hand_in(*cells, name=name)
    hand_ins = find_hand_ins(folder, (M2,))

    def reports(order: list[HandIn], workers: int) -> dict[str, str]:
        kept = tmp_path / f"kept by {workers}"  # each grades afresh
        done = grade_class(order, course_of(m2_split, walled, kept), workers)
        return {one.hand_in.student: json_of(one.report, m2_split) for one in done}

    def alone(one: HandIn, host: Host) -> str:
        milestone = milestones.load(M2)
        return json_of(
            grade(
                milestone,
                folder / one.student / f"{M2}.ipynb",
                m2_split,
                course / "data",
                host=host,
            ),
            m2_split,
        )

    one_worker = reports(hand_ins, 1)
    assert reports(hand_ins[::-1], 2) == one_worker
    for one in hand_ins:
        assert alone(one, walled) == one_worker[one.student], one.student
        assert alone(one, COLD) == one_worker[one.student], one.student
    assert len(set(one_worker.values())) == len(CLASS), "each grade is another, or nothing is shown"


@pytest.fixture
def hogs() -> Iterator[None]:
    """Keep every core busy with twice as many processes as there are cores."""
    count = 2 * (os.cpu_count() or 1)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    yield
    for process in busy:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def solved_class(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("solved") / "submissions"
    (folder / "ann").mkdir(parents=True)
    for slug in milestones.SLUGS:
        shutil.copy(solved_path(slug), folder / "ann")
    return folder


@pytest.mark.usefixtures("hogs")
def test_every_core_busy_elsewhere_changes_no_outcome(
    solved_class: Path, course: Path, walled: Host, tmp_path: Path
) -> None:
    split = open_split(course / "data" / "public_split")
    found = graded(
        solved_class,
        course_of(split, walled, tmp_path),
        slugs=milestones.SLUGS,
    )
    assert {one.hand_in.slug: one.reason for one in found} == dict.fromkeys(
        milestones.SLUGS, Reason.GRADED
    )
    for one in found:
        assert one.report.points == one.report.points_max, one.hand_in.slug


# ---------------------------------------------------------------- the trap


@pytest.fixture
def bait(m2_hidden: Split, course: Path, tmp_path: Path) -> Bait:
    left = leave_bait(m2_hidden, course / "data", tmp_path / "bait")
    assert left is not None
    return left


@pytest.mark.parametrize("place", LEFT_AT)
@pytest.mark.parametrize(
    "use", ["labels", "labels * 3 + 1", "labels + 0.5 * runs.n_layers", "1 / labels"]
)
def test_predictions_that_follow_a_label_file_left_as_a_trap_fail_with_a_note(
    place: str, use: str, hand_in: WriteNotebook, m2_hidden: Split, walled: Host,
    bait: Bait, tmp_path: Path,
) -> None:  # fmt: skip
    thief = (
        "import pandas as pd\n"
        f"left = pd.read_csv('../{place}', dtype={{'run_id': str}}).set_index('run_id')\n"
        "def kv_bytes_for_runs(runs):\n"
        f"    labels = left.loc[runs.run_id, 'decode_step_ms'].to_numpy()\n    return {use}"
    )
    found = graded(
        hand_in(RIGHT, thief),
        course_of(m2_hidden, walled, tmp_path, bait),
    )
    (one,) = found
    assert one.reason is Reason.TRAP
    checks = {check.name: check for check in one.report.checks}
    assert checks["every_run"].outcome is Outcome.FAILED
    assert "left in the room as a trap" in checks["every_run"].hint
    assert checks["known_shapes"].outcome is Outcome.PASSED, "what was not stolen counts"
    written(found, m2_hidden, tmp_path / "out")
    assert "talk to the student" in (tmp_path / "out" / "notes.csv").read_text()


def test_no_solved_notebook_is_taken_for_a_thief(
    solved_class: Path, course: Path, walled: Host, tmp_path: Path
) -> None:
    split = open_split(course / "data" / "public_split")
    left = leave_bait(split, course / "data", tmp_path / "bait")
    slugs = ("m2_kv_bytes", "m5_roofline", "m6_memory_traffic")
    found = graded(
        solved_class,
        course_of(split, walled, tmp_path, left),
        slugs=slugs,
    )
    assert [one.reason for one in found] == [Reason.GRADED] * 3
    assert all(one.report.points == one.report.points_max for one in found)


def test_the_trap_tells_nothing_of_a_run(course: Path, tmp_path: Path) -> None:
    split = open_split(course / "data" / "public_split")
    left = leave_bait(split, course / "data", tmp_path)
    assert left is not None
    truth = pd.read_csv(split.folder / "truth" / "runs.csv")[list(LABELS)].to_numpy()
    for bait_column, true_column in zip(left.labels.T, truth.T, strict=True):
        # of 4,000 independent rows, a correlation of 0.1 is six standard deviations
        assert abs(spearmanr(bait_column, true_column).statistic) < 0.1
        assert np.mean(bait_column == true_column) < 0.01


def test_a_lookup_that_finds_almost_nothing_accuses_nobody(bait: Bait) -> None:
    call = milestones.load("m6_memory_traffic").calls(open_split(PUBLIC).questions)
    asked = next(one for one in call if one.id == "predictions")
    for seed in range(50):
        few = np.full(len(bait.labels), np.nan)
        rows = np.random.default_rng(seed).choice(len(few), 5, replace=False)
        few[rows] = np.arange(5)
        follows = bait.taken_by(Answers({asked.id: Answer(asked, few)}, None))
        assert follows == []
    stolen = bait.labels[:, 0].copy()
    stolen[: len(stolen) // 2] = np.nan
    assert bait.taken_by(Answers({asked.id: Answer(asked, stolen)}, None)) == [asked]


# ---------------------------------------------------------------- the command


def test_the_command_writes_grades_reports_and_notes(
    hand_in: WriteNotebook, m2_hidden: Split, course: Path, walled: Host, tmp_path: Path
) -> None:
    assert walled.walled
    folder, out = hand_in(RIGHT), tmp_path / "results" / "autumn"
    command = [sys.executable, "-m", "grader", "class", str(folder), "--split",
               str(m2_hidden.folder), "--out", str(out), "--workers", "1"]  # fmt: skip
    run = subprocess.run(command, cwd=course, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "boundary around it" in run.stderr
    assert len(rows(out)) == len(milestones.SLUGS)
    report = json.loads((out / "reports" / "ann" / f"{M2}.json").read_text())
    assert report["milestones"][0]["points"] == 4
    assert not list(out.rglob("*unfinished*"))


def test_an_interrupted_class_leaves_no_process_and_no_grades(
    hand_in: WriteNotebook, m2_hidden: Split, course: Path, walled: Host, tmp_path: Path
) -> None:
    assert walled.walled
    mark = tmp_path.name
    folder, out = hand_in(f"import time  # {mark}\ntime.sleep(600)"), tmp_path / "out"
    command = [sys.executable, "-m", "grader", "class", str(folder), "--split",
               str(m2_hidden.folder), "--out", str(out)]  # fmt: skip
    process = subprocess.Popen(command, cwd=course, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    while "graded 1 of" not in process.stderr.readline():  # the missing ones are done at once
        assert process.poll() is None
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    process.terminate()
    assert process.wait(timeout=60) == 130
    said = process.stderr.read()
    assert "interrupted" in said
    assert "what was graded is kept; the same command goes on" in said
    process.stderr.close()
    psutil.wait_procs(family, timeout=30)
    assert not [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    assert not (out / "grades.csv").exists()
