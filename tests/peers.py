"""One hand-in that several notebook graders can grade, and how each of them is run and read.

The hand-in is the solved milestone 3 without its plots. It reads no file and trains nothing, so
its own cells take a few milliseconds and what is timed is the grader; its imports stay, since
every hand-in has them. Its answers are whole numbers, so every grader can ask the same questions
and compare by equality. A plot costs each grader the same drawing, and would only blur the ratios.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat

import milestones
from milestones.spec import Files
from solutions.exam import named_mistakes, reference, write_manifest, write_questions
from solutions.lesson import ROOT, notebook_text, solved_notebook
from solutions.mistake import NamedMistake
from solutions.proof import prove

SLUG = "m3_concurrency"
SEED = (24).to_bytes(32, "big")
PEERS = ROOT / ".bench"  # `make` installs each peer into an environment of its own there
OURS = "grader class"
MISTAKE = "gib_for_gb"  # one function of two is wrong, so part of the points is still earned
NBGRADER_CELL = {"schema_version": 3, "grade": True, "locked": True, "solution": False}


@dataclass(frozen=True)
class Question:
    """A call, or a dict to read, and the right answer: of a dict, the part that is asked for."""

    function: str
    args: dict[str, Any]
    right: Any

    def answer(self, functions: Mapping[str, Any]) -> Any:
        """Return what these functions, or dicts, answer."""
        target = functions[self.function]
        return target(**self.args) if callable(target) else {k: target[k] for k in self.right}

    @property
    def source(self) -> str:
        """Return the question as a line of a list in Python."""
        return f"    ({self.function!r}, {self.args!r}, {self.right!r}),\n"


@dataclass(frozen=True)
class Check:
    """Questions that earn their points together, or none."""

    name: str
    points: float
    questions: tuple[Question, ...]

    def source(self, functions: str) -> str:
        """Return the check as Python; `functions` is an expression for the student's functions."""
        asked = "".join(question.source for question in self.questions)
        return (
            f"questions = [\n{asked}]\n"
            "for function, args, right in questions:\n"
            f"    answer = {functions}[function]\n"
            "    if callable(answer):\n"
            "        answer = answer(**args)\n"
            "    else:\n"
            "        answer = {key: answer[key] for key in right}\n"
            "    assert answer == right, (function, args)\n"
        )


@dataclass(frozen=True)
class Exam:
    """The split for `grader class`, and the same questions for the others."""

    split: Path
    checks: tuple[Check, ...]

    @property
    def points(self) -> float:
        """The points of a right hand-in."""
        return sum(check.points for check in self.checks)

    def points_with(self, mistake: NamedMistake) -> float:
        """Return the points that a hand-in with a mistake earns."""
        with reference(SLUG).with_edits(mistake.edits) as functions:
            return sum(
                check.points
                for check in self.checks
                if all(question.answer(functions) == question.right for question in check.questions)
            )


def write_exam(folder: Path) -> Exam:
    """Draw a hidden split of the one milestone and return it with its questions."""
    write_questions(folder, SEED, 0, slugs=(SLUG,))
    if faults := prove(SLUG, folder).faults:
        raise SystemExit(f"the split is not fair: {faults}")
    write_manifest(folder, "hidden", SEED, 0)
    milestone = milestones.load(SLUG)
    functions = reference(SLUG).namespace
    checks = []
    calls = milestone.calls(Files(folder / "questions"))
    for check in milestone.checks:
        asked = tuple(
            replace(question, right=question.answer(functions))
            for call in calls
            if call.topic in check.topics
            for question in [Question(call.function, dict(call.args), dict.fromkeys(check.reads))]
        )
        checks.append(Check(check.name, check.points, asked))
    return Exam(folder, tuple(checks))


def hand_in(exam: Exam, student: str, mistake: NamedMistake | None = None) -> str:
    """Return the text of a student's notebook, the same for every grader.

    It ends in the empty test cells that nbgrader hands out and fills in when it grades; to the
    others they are comments. The student's name is in a code cell, so that no two hand-ins have
    the same code and none can be answered from a cache.
    """
    return notebook_text(_notebook(exam, student, mistake, hidden_tests=False))


def wrong(exam: Exam, student: str) -> str:
    """Return the text of a notebook with the mistake."""
    return hand_in(exam, student, the_mistake())


def the_mistake() -> NamedMistake:
    """Return the mistake that every grader must see."""
    return next(mistake for mistake in named_mistakes(SLUG) if mistake.name == MISTAKE)


def _notebook(
    exam: Exam, student: str, mistake: NamedMistake | None, *, hidden_tests: bool
) -> nbformat.NotebookNode:
    notebook = solved_notebook(SLUG)
    notebook.cells = [cell for cell in notebook.cells if "plt.subplots" not in cell.source]
    for edit in mistake.edits if mistake else ():
        for cell in notebook.cells:
            if cell.source.startswith(f"def {edit.function}("):
                cell.source = edit.apply(cell.source)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(f"student = {student!r}", id="student"))
    for check in exam.checks:
        source = f"# {check.name}\n"
        if hidden_tests:
            tests = check.source("globals()")
            source += f"### BEGIN HIDDEN TESTS\n{tests}### END HIDDEN TESTS"
        cell = nbformat.v4.new_code_cell(source, id=check.name)
        grade = {"grade_id": check.name, "points": check.points, "cell_type": "code"}
        cell.metadata["nbgrader"] = {**NBGRADER_CELL, **grade}
        notebook.cells.append(cell)
    return notebook


# ---------------------------------------------------------------- the graders


@dataclass(frozen=True)
class Batch:
    """Hand-ins laid out for one grader: the commands that grade them all, then the points."""

    commands: Sequence[list[str]]
    cwd: Path
    points: Callable[[], dict[str, float]]  # of each student, once the commands have run


@dataclass(frozen=True)
class Grader:
    """One way to grade: its name in the table, its version, and how to lay a batch out for it."""

    name: str
    version: str
    lay_out: Callable[[Exam, Path, Mapping[str, str]], Batch]
    grades: bool = True  # else it only runs the notebook
    one_by_one: bool = False  # a command a notebook, so that a few of the class tell as much


def graders() -> tuple[Grader, ...]:
    """Return the graders, in the order in which they are timed."""
    if not (PEERS / ".ready").exists():
        raise SystemExit("The other autograders are not installed; run: make .bench/.ready")
    versions = {peer: _version(_python(peer), peer) for peer in ("nbgrader", "otter-grader")}
    return (
        Grader("nbgrader autograde", versions["nbgrader"], nbgrader),
        Grader("otter run", versions["otter-grader"], otter, one_by_one=True),
        Grader(
            "nbconvert --execute",
            _version(sys.executable, "nbconvert"),
            nbconvert,
            grades=False,
            one_by_one=True,
        ),
        Grader(OURS, _version(sys.executable, "kv-capacity"), grader_class),
    )


def _python(peer: str) -> str:
    return str(PEERS / peer / "bin" / "python")


def _module(peer: str, module: str) -> list[str]:
    """Return the start of a peer's command, run as in its activated environment."""
    path = f"PATH={PEERS / peer / 'bin'}:{os.environ['PATH']}"  # nbgrader calls `alembic` by name
    return ["env", path, _python(peer), "-m", module]


def _version(python: str, package: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    run = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def nbgrader(exam: Exam, folder: Path, hand_ins: Mapping[str, str]) -> Batch:
    """Lay out a course for nbgrader: one command grades all of its hand-ins, one by one."""
    source = folder / "source" / SLUG / f"{SLUG}.ipynb"
    source.parent.mkdir(parents=True)
    master = _notebook(exam, "", None, hidden_tests=True)
    source.write_text(notebook_text(master), encoding="utf-8")
    nbgrader = _module("nbgrader", "nbgrader")
    _prepare([*nbgrader, "generate_assignment", SLUG], folder)
    for student, text in hand_ins.items():
        path = folder / "submitted" / student / SLUG / f"{SLUG}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")

    def points() -> dict[str, float]:
        _prepare([*nbgrader, "export"], folder)
        with (folder / "grades.csv").open(encoding="utf-8", newline="") as table:
            return {row["student_id"]: float(row["score"]) for row in csv.DictReader(table)}

    return Batch([[*nbgrader, "autograde", SLUG]], folder, points)


def otter(exam: Exam, folder: Path, hand_ins: Mapping[str, str]) -> Batch:
    """Lay out otter's zip of tests: one command grades one hand-in."""
    archive = folder / "autograder.zip"
    with zipfile.ZipFile(archive, "w") as tests:
        tests.writestr("otter_config.json", json.dumps({"lang": "python"}))
        for check in exam.checks:
            body = check.source("env").replace("\n", "\n    ")
            tests.writestr(
                f"tests/{check.name}.py",
                "from otter.test_files import test_case\n\nOK_FORMAT = False\n"
                f"name = {check.name!r}\npoints = {check.points}\n\n\n"
                f"@test_case(hidden=True)\ndef test_{check.name}(env):\n    {body}",
            )
    otter_run = [*_module("otter-grader", "otter"), "run", "--no-logo"]
    otter_run += ["--autograder", str(archive)]
    commands = []
    for student, text in hand_ins.items():
        path = folder / student / f"{SLUG}.ipynb"
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        commands.append([*otter_run, "--output-dir", str(path.parent), str(path)])

    def points() -> dict[str, float]:
        earned = {}
        for student in hand_ins:
            results = json.loads((folder / student / "results.json").read_text(encoding="utf-8"))
            earned[student] = float(sum(test.get("score", 0) for test in results["tests"]))
        return earned

    return Batch(commands, folder, points)


def nbconvert(_exam: Exam, folder: Path, hand_ins: Mapping[str, str]) -> Batch:
    """Lay out notebooks to be run by a Jupyter kernel, which grades nothing."""
    execute = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute"]
    execute += ["--output-dir", str(folder / "executed")]
    commands = []
    for student, text in hand_ins.items():
        path = folder / f"{student}.ipynb"
        path.write_text(text, encoding="utf-8")
        commands.append([*execute, str(path)])
    return Batch(commands, folder, dict)


def grader_class(exam: Exam, folder: Path, hand_ins: Mapping[str, str]) -> Batch:
    """Lay out a class for our own grader: one command, two workers."""
    for student, text in hand_ins.items():
        path = folder / "submissions" / student / f"{SLUG}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
    out = folder / "out"
    command = [sys.executable, "-m", "grader", "class", str(folder / "submissions")]
    command += ["--split", str(exam.split), "--out", str(out), "--workers", "2"]

    def points() -> dict[str, float]:
        with (out / "grades.csv").open(encoding="utf-8", newline="") as table:
            rows = [row for row in csv.DictReader(table) if row["milestone"] == SLUG]
        return {row["student"]: float(row["points"]) for row in rows}

    return Batch([command], folder, points)


def _prepare(command: list[str], cwd: Path) -> None:
    """Run a command that is not timed."""
    run = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{run.stdout[-1000:]}{run.stderr[-2000:]}")


def private_home(folder: Path) -> None:
    """Let every command that follows see no settings and no kernels of this machine's user."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.environ["HOME"] = str(folder)
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    for name in [n for n in os.environ if n.startswith(("JUPYTER_CONFIG", "JUPYTER_PATH", "XDG_"))]:
        del os.environ[name]
