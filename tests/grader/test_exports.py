"""What is handed to other tools: their own format, no formula, and nothing unknown as a zero.

Canvas and Moodle cannot be had here: `CanvasReader` and `moodle_read` do what the source of their
importers does with a file, as far as it decides whether and whose points come in.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml
from click.testing import CliRunner
from junitparser import JUnitXml
from pydantic import BaseModel, ConfigDict, model_validator

from grader.classroom import Graded
from grader.errors import BadInputError
from grader.gradebook import exports
from grader.gradebook.book import Book, open_book, override, read_class
from grader.gradebook.exports import Term
from grader.gradebook.github import result, workflow
from grader.gradebook.roster import Roster, read_roster
from grader.gradebook.rules import Due, Late, MilestoneTable, Rules, rules_of
from grader.gradebook.standings import standings, strangers
from grader.gradebook_cli import FORMATS, gradebook
from grader.present import as_json
from grader.report import Outcome, Report
from tests.grader.gradebook import M2, M7, MONDAY, a_class, graded, missing, write

CANVAS = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Essay (11),m2 (17),Milestone 7 (18),Final Score\n"
    ",,,,,Manual Posting,,,\n"
    "    Points Possible,,,,,10,15,15,(read only)\n"
    '"Able, Ann",501,S1,ann,Group A,9,,,50\n'
    '"Ångström, Bjørn",502,S2,bjorn@example.org,Group B,,,,\n'
    '"王, 小明",503,S3,ming,"A, B",,,,\n'
    '"=""=cmd()""",504,S4,evil,Group B,,,,\n'
    '"Student, Test",599,,,Group A,,,,\n'
)
MOODLE = (
    "First name,Surname,ID number,Email address,Course total\n"
    "Ann,Able,1,ann@example.org,-\n"
    "Bjørn,Ångström,2,bjorn@example.org,-\n"
    "Ann,Able,3,other.ann@example.org,-\n"
    "小明,王,4,=ming@example.org,-\n"
)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with open_book(tmp_path / "book.sqlite", create=True) as opened:
        yield opened


def term(book: Book, rules: Rules | None = None, roster: Roster | None = None) -> Term:
    record, ruling = read_class(book), rules or Rules()
    return Term(record, ruling, standings(record, ruling), roster)


def roster(folder: Path, text: str) -> Roster:
    (folder / "roster.csv").write_text(text, encoding="utf-8-sig")
    return read_roster(folder / "roster.csv")


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def half(student: str, slug: str = M2) -> Graded:
    return graded(student, (5.0, 2.5, 0.0), slug=slug)


def is_formula(cell: str) -> bool:
    return cell.startswith(("=", "+", "-", "@", "\t", "\r"))


# ---------------------------------------------------------------- what holds for every table


@pytest.mark.parametrize("form", ["as_csv", "as_canvas", "as_moodle", "as_nbgrader"])
def test_no_cell_of_any_table_is_a_formula_and_every_row_has_every_column(
    form: str, book: Book, tmp_path: Path
) -> None:
    names = [
        "=1+1",
        "+1",
        "-1",
        "@SUM(1)",
        "\t=1",
        "\r=1",
        "a,b\n=1",
        'q"=1',
        "ann",
        "小明",
        "\x0b=1",
        "x\r=1",
    ]
    write(book, [(half(name), MONDAY) for name in names])
    override(book, "ann", M2, Decimal(1), author="=evil()", reason="=1+1")
    for people in (None, roster(tmp_path, CANVAS), roster(tmp_path, MOODLE)):
        text = getattr(exports, form)(term(book, roster=people)).text
        table = list(csv.reader(io.StringIO(text, newline="")))
        assert len({len(row) for row in table}) == 1
        assert not [cell for row in table for cell in row if is_formula(cell)]
        assert not set(text) & {"\r", "\t", "\x0b"}, "some tools begin a cell or a row there"


@pytest.mark.parametrize("form", ["as_csv", "as_canvas", "as_moodle", "as_nbgrader"])
def test_what_is_not_known_yet_is_empty_and_what_was_not_handed_in_is_zero(
    form: str, book: Book
) -> None:
    write(book, [(graded("ann", (5.0, None, 5.0)), MONDAY), (missing("zoe"), None)])
    found = rows(getattr(exports, form)(term(book)).text)
    column = {"as_csv": "points", "as_nbgrader": "score"}.get(form, M2)
    who = {"as_canvas": "Student", "as_moodle": "Email address", "as_csv": "student"}
    by_name = {row[who.get(form, "student_id")]: row for row in reversed(found)}
    assert by_name["ann"][column] == ""
    assert float(by_name["zoe"][column]) == 0


def test_a_row_says_how_its_points_came_about(book: Book) -> None:
    write(book, [(half("Bjørn 小明"), MONDAY + timedelta(days=1, seconds=1))])
    rules = Rules(
        late=Late(share_per_day=Decimal("0.1")),
        deadlines=((M2, Due(MONDAY, ZoneInfo("UTC"))),),
    )
    first, total = rows(exports.as_csv(term(book, rules)).text)
    assert first == {
        "student": "Bjørn 小明", "milestone": M2, "points": "6", "points_max": "15",
        "before_penalty": "7.5", "days_late": "2", "attempt": "1", "attempts": "1",
        "handed_in_at": "2026-10-06T12:00:01Z", "reason": "graded",
        "explanation": "due 2026-10-05 12:00:00 UTC: 2 days late; 7.5 of 15; "
        "2 days late: -20 % = 6",
    }  # fmt: skip
    assert (total["milestone"], total["points"], total["points_max"]) == ("total", "6", "15")


def test_the_same_book_gives_the_same_text(book: Book, tmp_path: Path) -> None:
    write(book, a_class())
    with open_book(tmp_path / "other.sqlite", create=True) as other:
        write(other, reversed(a_class()))
        for form in (exports.as_csv, exports.as_canvas, exports.as_moodle, exports.junit):
            assert form(term(book)) == form(term(other))


# ---------------------------------------------------------------- Canvas


class CanvasReader:
    """What GradebookImporter (instructure/canvas-lms, lib/gradebook_importer.rb) takes in."""

    def __init__(self, text: str) -> None:
        header, *lines = csv.reader(io.StringIO(text))
        assert len(header) > 3
        assert "Student" in header[0]
        assert "ID" in header[1]
        columns = 3
        if re.search(r"SIS\s+Login\s+ID", header[2]):
            columns += 1
        elif re.search(r"SIS\s+User\s+ID", header[2]) and re.search(r"SIS\s+Login", header[3]):
            columns += 2 + bool(re.search(r"Integration\s+ID", header[4]))
            columns += bool(re.search(r"Root\s+Account", header[columns - 1]))
        assert "Section" in header[columns - 1], "the header row is refused"
        self.assignments: dict[str, str | None] = {}
        places = {}
        for place, name in enumerate(header[columns:], start=columns):
            titled = re.fullmatch(r"(.*)\s\((\d+)\)", name)
            title, number = (titled[1], titled[2]) if titled else (name, None)
            self.assignments[title] = number
            places[title] = place
        self.possible: dict[str, str] = {}
        self.grades: dict[tuple[str, str], dict[str, str]] = {}
        for line in lines:
            if "Points Possible" in line[0]:
                self.possible = {title: line[place] for title, place in places.items()}
                continue
            if all(re.fullmatch(r"\s*(Muted|Manual Posting.*)?\s*", cell) for cell in line):
                continue
            self.grades[line[1], line[0]] = {t: line[place].strip() for t, place in places.items()}


def test_canvas_finds_its_students_and_assignments_again(book: Book, tmp_path: Path) -> None:
    students = ["ann", "ångströmbjørn (502)", "王, 小明", "nobody"]
    write(book, [(half(name, slug), MONDAY) for name in students for slug in (M2, M7)])
    exported = exports.as_canvas(term(book, roster=roster(tmp_path, CANVAS)))
    read = CanvasReader(exported.text)
    assert read.assignments == {"m2": "17", "Milestone 7": "18"}
    assert read.possible == {"m2": "15", "Milestone 7": "15"}
    grades = {"m2": "7.5", "Milestone 7": "7.5"}
    assert read.grades == {
        ("501", "Able, Ann"): grades,
        ("502", "Ångström, Bjørn"): grades,
        ("503", "王, 小明"): grades,
    }
    assert exported.remarks == ("nobody: is nobody in the roster; left out",)


@pytest.mark.parametrize(
    "columns",
    [
        "Student,ID,Section",
        "Student,ID,SIS Login ID,Section",
        "Student,ID,SIS User ID,SIS Login ID,Integration ID,Section",
        "Student,ID,SIS User ID,SIS Login ID,Integration ID,Root Account,Section",
    ],
)
def test_the_columns_that_canvas_exported_are_repeated_whichever_they_are(
    columns: str, book: Book, tmp_path: Path
) -> None:
    write(book, [(half("Ann Able"), MONDAY)])
    cells = {"Student": '"Able, Ann"', "ID": "501"}
    row = ",".join(cells.get(name, name) for name in columns.split(","))
    people = roster(tmp_path, f"{columns},m2 (17)\n{row},\n")
    exported = exports.as_canvas(term(book, roster=people))
    assert exported.text.startswith(f"{columns},m2 (17)\n")
    assert CanvasReader(exported.text).grades == {("501", "Able, Ann"): {"m2": "7.5"}}


def test_canvas_reads_a_gradebook_without_a_roster_by_name(book: Book) -> None:
    write(book, [(half("Ann Able"), MONDAY)])
    exported = exports.as_canvas(term(book))
    read = CanvasReader(exported.text)
    assert read.assignments == {M2: None}
    assert read.grades == {("", "Ann Able"): {M2: "7.5"}}
    assert "without --roster" in exported.remarks[0]


def test_a_name_that_canvas_guards_against_formulas_is_guarded_here(
    book: Book, tmp_path: Path
) -> None:
    write(book, [(half("evil"), MONDAY)])
    exported = exports.as_canvas(term(book, roster=roster(tmp_path, CANVAS)))
    ((number, name),) = CanvasReader(exported.text).grades
    assert (number, name[0]) == ("504", "'"), "Canvas still finds the student, by ID"
    assert "1 students have a cell that a spreadsheet would run" in exported.remarks[0]


# ---------------------------------------------------------------- Moodle


def moodle_read(text: str, users: set[str]) -> dict[str, dict[str, float | None]]:
    """What gradeimport_csv_load_data (moodle/moodle, grade/import/csv) takes in.

    The first column is mapped to the user, the others to grade items. The first user who is not
    known, or a value that is no number, aborts the whole import.
    """
    header, *lines = csv.reader(io.StringIO(text))
    found: dict[str, dict[str, float | None]] = {}
    for line in lines:
        assert len(line) == len(header), "csvweirdcolumns"
        if len(line) <= 1:
            continue
        assert line[0] in users, "usermappingerrorusernotfound"
        found[line[0]] = {
            item: None if value in ("", "-") else float(value)
            for item, value in zip(header[1:], line[1:], strict=True)
        }
    return found


def test_moodle_finds_every_user_of_the_table(book: Book, tmp_path: Path) -> None:
    write(
        book,
        [
            (half("Bjørn Ångström (77)"), MONDAY),
            (graded("other.ann@example.org", (5.0, None, 5.0)), MONDAY),
            (half("Ann Able"), MONDAY),
            (half("nobody"), MONDAY),
        ],
    )
    exported = exports.as_moodle(term(book, roster=roster(tmp_path, MOODLE)))
    users = {"ann@example.org", "bjorn@example.org", "other.ann@example.org"}
    assert moodle_read(exported.text, users) == {
        "bjorn@example.org": {M2: 7.5, "total": 7.5},
        "other.ann@example.org": {M2: None, "total": None},
    }
    assert exported.remarks[:2] == (
        "Ann Able: may be several people in the roster; left out",
        "nobody: is nobody in the roster; left out",
    )


def test_who_has_no_address_is_left_out_of_moodles_table_and_named(
    book: Book, tmp_path: Path
) -> None:
    write(book, [(half("7"), MONDAY), (half("8"), MONDAY)])
    people = roster(tmp_path, "Surname,ID number,Email address\nA,7,\nB,8,b@example.org\n")
    exported = exports.as_moodle(term(book, roster=people))
    assert set(moodle_read(exported.text, {"b@example.org"})) == {"b@example.org"}
    assert exported.remarks[0] == "7: has no Email address in the roster; left out"


def test_an_address_that_is_a_formula_is_guarded_and_told(book: Book, tmp_path: Path) -> None:
    write(book, [(half("小明 王"), MONDAY)])
    exported = exports.as_moodle(term(book, roster=roster(tmp_path, MOODLE)))
    assert [row["Email address"] for row in rows(exported.text)] == ["'=ming@example.org"]
    assert "enter their points by hand" in exported.remarks[0]


# ---------------------------------------------------------------- nbgrader

NBGRADER = """
import sys
from datetime import datetime
from nbgrader.api import Gradebook
from nbgrader.plugins import CsvExportPlugin

with Gradebook("sqlite:///" + sys.argv[1]) as book:
    book.add_assignment("m2_kv_bytes", duedate=datetime(2026, 10, 5, 12))
    book.add_notebook("nb", "m2_kv_bytes")
    book.add_grade_cell("cell", "nb", "m2_kv_bytes", max_score=15, cell_type="code")
    book.add_student("ann", first_name="Ann", last_name="Able", email="ann@example.org")
    book.add_student("zoe")
    book.add_submission("m2_kv_bytes", "ann", timestamp=datetime(2026, 10, 6, 12))
    notebook = book.find_submission_notebook("nb", "m2_kv_bytes", "ann")
    book.find_grade("cell", "nb", "m2_kv_bytes", "ann").auto_score = 7.5
    notebook.late_submission_penalty = 0.75
    book.db.commit()
    exporter = CsvExportPlugin()
    exporter.to = sys.argv[2]
    exporter.export(book)
"""


def test_nbgrader_itself_writes_the_same_rows(book: Book, tmp_path: Path, course: Path) -> None:
    binaries = course / ".bench" / "nbgrader" / "bin"
    if not (binaries / "nbgrader").exists():
        pytest.skip("needs nbgrader in .bench/ (make bench puts it there)")
    theirs = tmp_path / "theirs.csv"
    subprocess.run(
        [binaries / "python", "-W", "ignore", "-c", NBGRADER, tmp_path / "theirs.db", theirs],
        env={**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"},
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip
    write(book, [(half("ann"), MONDAY + timedelta(days=1)), (missing("zoe"), None)])
    rules = Rules(
        late=Late(share_per_day=Decimal("0.1")),
        deadlines=((M2, Due(MONDAY, ZoneInfo("UTC"))),),
    )
    people = roster(
        tmp_path, "Username,First name,Surname,Email address\nann,Ann,Able,ann@example.org\n"
    )
    ours = exports.as_nbgrader(term(book, rules, people)).text
    their_header, *their_rows = theirs.read_text(encoding="utf-8").splitlines()
    header, *our_rows = ours.splitlines()
    assert header == their_header
    assert sorted(our_rows) == sorted(their_rows)


# ---------------------------------------------------------------- JUnit


def test_junit_has_a_suite_a_student_and_the_outcomes_of_the_attempt_that_counts(
    book: Book,
) -> None:
    write(book, [(graded("ann", (5.0, 0.0, None), hint="a \x07 <b>"), MONDAY)])
    (suite,) = JUnitXml.fromstring(exports.junit(term(book)).text.encode())
    assert suite.name == f"ann.{M2}"
    kinds = [[type(one).__name__ for one in case.result] for case in suite]
    assert kinds == [[], ["Failure"], ["Error"]]


# ---------------------------------------------------------------- Gradescope


class GradescopeTest(BaseModel):
    """A test of results.json, as Gradescope's specification of autograders has it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    score: float | None = None
    max_score: float | None = None
    status: str | None = None
    name: str | None = None
    name_format: str | None = None
    number: str | None = None
    output: str | None = None
    output_format: str | None = None
    tags: list[str] | None = None
    visibility: str | None = None
    extra_data: dict[str, object] | None = None


class GradescopeResults(BaseModel):
    """results.json, as Gradescope's specification of autograders has it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    score: float | None = None
    execution_time: float | None = None
    output: str | None = None
    output_format: str | None = None
    test_output_format: str | None = None
    test_name_format: str | None = None
    visibility: str | None = None
    stdout_visibility: str | None = None
    extra_data: dict[str, object] | None = None
    tests: list[GradescopeTest] | None = None
    leaderboard: list[object] | None = None

    @model_validator(mode="after")
    def _has_a_score(self) -> GradescopeResults:
        on_tests = bool(self.tests) and all(t.score is not None for t in self.tests or ())
        assert self.score is not None or on_tests, "a score is required, here or on each test"
        visibilities = {"hidden", "after_due_date", "after_published", "visible", None}
        assert {self.visibility, self.stdout_visibility} <= visibilities
        for test in self.tests or ():
            assert test.visibility in visibilities
            assert test.status in ("passed", "failed", None)
            assert test.output_format in ("text", "html", "simple_format", "md", "ansi", None)
        return self


def test_a_results_json_is_what_gradescope_takes_and_tells_final_points(book: Book) -> None:
    write(book, [(half("ann"), MONDAY), (half("../../etc/passwd"), MONDAY)])
    override(book, "ann", M2, Decimal(9), author="T", reason="seen")
    files, remarks = exports.results_files(term(book))
    assert remarks == []
    assert all(".." not in Path(name).parts for name in files)
    found = GradescopeResults.model_validate_json(files["ann/results.json"])
    assert found.score == 9
    assert found.output == f"{M2}: 9 of 15 (set to 9 of 15 by T: seen)"
    assert found.tests is not None
    assert [(t.number, t.score, t.max_score, t.status) for t in found.tests] == [
        ("1.1", 5.0, 5.0, "passed"),
        ("1.2", 2.5, 5.0, "passed"),
        ("1.3", 0.0, 5.0, "failed"),
    ]


def test_whose_points_are_not_known_has_no_results_json(book: Book) -> None:
    write(book, [(graded("ann", (5.0, None, 5.0)), MONDAY)])
    files, remarks = exports.results_files(term(book))
    assert files == {}
    assert remarks == [f"ann: not known yet: {M2}; left out"]
    override(book, "ann", M2, Decimal(9), author="T", reason="seen")
    files, _ = exports.results_files(term(book))
    assert GradescopeResults.model_validate_json(files["ann/results.json"]).score == 9


# ---------------------------------------------------------------- GitHub Classroom


def test_the_workflow_is_one_of_github_actions(tmp_path: Path) -> None:
    file = tmp_path / "classroom.yml"
    run = CliRunner().invoke(gradebook, ["github-workflow", "--out", str(file)])
    assert run.exit_code == 0, run.output
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema",
             "vendor.github-workflows"]  # fmt: skip
    assert subprocess.run([*check, file], capture_output=True, check=False).returncode == 0
    file.write_text(file.read_text().replace("runs-on", "run-on"))
    assert subprocess.run([*check, file], capture_output=True, check=False).returncode == 1


def test_every_result_that_the_reporter_asks_for_is_given_it() -> None:
    text = workflow([("m1_profile_runs", "A"), (M2, "B: c")])
    (runners,) = re.findall(r"runners: (.+)", text)
    for runner in runners.split(","):
        # parseRunnerResults of classroom-resources/autograding-grading-reporter, src/main.js
        given = f"{runner.strip().upper()}_RESULTS: ${{{{ steps.{runner}.outputs.result }}}}"
        assert given in text
        assert f"id: {runner}\n" in text
        assert f"grader gradebook github-result {runner}.json" in text


def test_the_reporter_adds_up_the_points_of_every_check(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    report = half("ann").report
    half_way = replace(report.checks[1], outcome=Outcome.FAILED)  # between its bar and the next
    report = replace(report, checks=(report.checks[0], half_way, report.checks[2]))
    file.write_text(as_json(Report("public", True, (report,))))
    run = CliRunner().invoke(gradebook, ["github-result", str(file)])
    name, _, encoded = run.output.strip().partition("=")
    assert name == "result"
    given = json.loads(base64.b64decode(encoded))
    # NotifyClassroom of the same action, src/notify-classroom.js
    assert given["max_score"] == 15
    assert sum(test["score"] for test in given["tests"]) == 7.5
    assert [test["status"] for test in given["tests"]] == ["pass", "fail", "fail"]
    assert given["status"] == "fail"


def test_a_step_of_the_workflow_runs_as_it_is_written(tmp_path: Path, course: Path) -> None:
    shutil.copytree(course / "data", tmp_path / "data")
    (tmp_path / "notebooks").mkdir()
    blank = course / "milestones" / M2 / "blank.ipynb"
    shutil.copyfile(blank, tmp_path / "notebooks" / f"{M2}.ipynb")
    shim = tmp_path / "bin" / "grader"
    shim.parent.mkdir()
    shim.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="{course}"\nif [ "$1" = gradebook ]; then shift; '
        f'exec "{sys.executable}" -m grader.gradebook_cli "$@"; fi\n'
        f'exec "{sys.executable}" -m grader "$@"\n'
    )
    shim.chmod(0o755)
    content = yaml.safe_load(workflow([(M2, "KV bytes")]))
    (step,) = [s for s in content["jobs"]["run-autograding-tests"]["steps"] if s.get("id") == M2]
    output = tmp_path / "output"
    run = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]],  # as GitHub's runner does
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "GITHUB_OUTPUT": str(output),
             "PATH": f"{shim.parent}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    name, _, encoded = output.read_text().strip().partition("=")
    given = json.loads(base64.b64decode(encoded))
    assert (name, given["status"], given["max_score"]) == ("result", "fail", 15)
    assert sum(test["score"] for test in given["tests"]) == 0, "the blank notebook earns nothing"


def test_a_check_that_broke_gives_the_reporter_nothing(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(as_json(Report("public", True, (graded("ann", (5.0, None)).report,))))
    with pytest.raises(BadInputError, match="the grader broke on check_1"):
        result(file)
    file.write_text("{}")
    with pytest.raises(BadInputError, match="is no report"):
        result(file)


# ---------------------------------------------------------------- the commands


def invoke(*args: object) -> tuple[int, str]:
    run = CliRunner().invoke(gradebook, [str(arg) for arg in args])
    if isinstance(run.exception, BadInputError):
        return 2, str(run.exception)
    assert run.exception is None or isinstance(run.exception, SystemExit), run.exception
    return run.exit_code, run.output


def test_a_term_by_commands(book: Book, tmp_path: Path) -> None:
    write(book, [(half("ann"), MONDAY), (graded("ann", notebook="2"), MONDAY + timedelta(days=9))])
    where = tmp_path / "book.sqlite"
    rules = tmp_path / "rules.toml"
    code, text = invoke("rules", "--example")
    assert code == 0
    rules.write_text(text)
    code, text = invoke("rules", rules)
    assert (code, text.splitlines()[-1]) == (0, "ann: m7_planner until 2026-12-15 23:59:59 CET")
    code, text = invoke("override", where, "ann", "2", "--points", "12.5", "--author", "T",
                        "--reason", "seen")  # fmt: skip
    assert (code, text) == (0, f"ann {M2}: as graded -> 12.5\n")
    code, text = invoke("history", where)
    assert "override: as graded -> 12.5  (T: seen)" in text
    code, text = invoke("explain", where, "ann", "--rules", rules)
    assert text.splitlines()[:2] == [f"{M2}: 12.5 of 15", "    set to 12.5 of 15 by T: seen"]
    for form in ("csv", "canvas", "moodle", "junit", "nbgrader", "gradescope"):
        out = tmp_path / f"out-{form}"
        code, text = invoke("export", where, "--format", form, "--rules", rules, "--out", out)
        assert code == 0, text
        assert out.exists()
    assert rows((tmp_path / "out-csv").read_text())[0]["points"] == "12.5"
    copy = tmp_path / "copy.sqlite"
    assert invoke("copy", where, copy)[0] == 0
    assert invoke("explain", copy, "ann", "--rules", rules)[1].startswith(f"{M2}: 12.5")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("override", "BOOK", "ann", "2", "--points", "1"), "Missing option"),
        (
            ("override", "BOOK", "ann", "2", "--points", "x", "--author", "T", "--reason", "r"),
            "'x' is no number",
        ),
        (
            ("override", "BOOK", "ann", "2", "--author", "T", "--reason", "r"),
            "give --points, or --withdraw",
        ),
        (("explain", "BOOK", "bob"), "there is no student 'bob'"),
        (("export", "nowhere.sqlite", "--format", "csv", "--out", "x"), "no such gradebook"),
        (("export", "BOOK", "--format", "csv", "--out", "no/such/x"), "folder does not exist"),
        (("export", "BOOK", "--format", "csv", "--out", "BOOK"), "name another file"),
        (("rules",), "give a FILE to check, or --example"),
    ],
)
def test_a_command_given_wrongly_says_so(
    args: tuple[str, ...], said: str, book: Book, tmp_path: Path
) -> None:
    write(book, [(half("ann"), MONDAY)])
    where = str(tmp_path / "book.sqlite")
    code, text = invoke(*(where if arg == "BOOK" else arg for arg in args))
    assert code == 2
    assert said in text
    assert read_class(book).students == ("ann",)


def test_an_export_never_replaces_what_it_reads(book: Book, tmp_path: Path) -> None:
    write(book, [(half("ann"), MONDAY)])
    where, rules, link = (tmp_path / name for name in ("book.sqlite", "rules.toml", "link.csv"))
    rules.write_text(invoke("rules", "--example")[1])
    link.symlink_to(where)
    for out in (where, rules, link):
        before = out.read_bytes()
        code, text = invoke("export", where, "--format", "csv", "--rules", rules, "--out", out)
        assert (code, "nothing was changed" in text) == (2, True)
        assert out.read_bytes() == before


def test_an_extension_for_somebody_unknown_is_told(book: Book) -> None:
    write(book, [(half("ann"), MONDAY)])
    content = {"extension": [{"student": "anne", "until": datetime(2026, 10, 9, tzinfo=UTC)}]}
    assert strangers(read_class(book), rules_of(content, "rules.toml")) == ["anne"]


def test_a_roster_that_is_none_is_refused(tmp_path: Path) -> None:
    for text in ("", "Student,ID\n", "a,b\n1,2\n"):
        with pytest.raises(BadInputError, match=r"names nobody|is no CSV"):
            roster(tmp_path, text)


def test_one_person_is_not_two_students(book: Book, tmp_path: Path) -> None:
    write(book, [(half("ann"), MONDAY), (half("Ann Able"), MONDAY)])
    exported = exports.as_canvas(term(book, roster=roster(tmp_path, CANVAS)))
    assert exported.remarks == ("ann: is the same person as Ann Able; left out",)


def test_weights_and_extra_credit_reach_the_total(book: Book) -> None:
    write(book, [(half("ann"), MONDAY), (graded("ann", (5.0,) * 3, slug=M7), MONDAY)])
    override(book, "ann", M7, Decimal(18), author="T", reason="bonus")
    rules = Rules(
        tables=((M2, MilestoneTable(weight=40)), (M7, MilestoneTable(weight=60)))  # type: ignore[arg-type]
    )
    (standing,) = standings(read_class(book), replace(rules))
    assert (standing.total.points, standing.total.points_max) == (Decimal(92), Decimal(100))


def test_the_page_on_exports_names_every_format_and_command(course: Path) -> None:
    page = (course / "docs" / "exports.md").read_text(encoding="utf-8")
    for name in FORMATS:
        assert f"| `{name}`" in page, name
    for name, command in gradebook.commands.items():
        assert command.hidden or f"grader gradebook {name} " in page, name
