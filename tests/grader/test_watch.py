"""`grader check --watch`: who is graded when, what is shown, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from grader.report import CheckReport, MilestoneReport, Outcome
from grader.since import since
from grader.split import Split
from grader.watch import Graded, Grader, Wanted
from grader.watch_show import show_since
from solutions.lesson import ROOT

CHECK = CheckReport("one", "The first is right.", Outcome.FAILED, 0.0, 2.0)
FIGURE = replace(CHECK, name="two", figure=0.1123, bar=0.09, figure_name="MAPE")


def report(*checks: CheckReport, slug: str = "a") -> MilestoneReport:
    return MilestoneReport(slug, slug.upper(), "", checks)


# ---------------------------------------------------------------- who is graded when


class Stage:
    """Stands in for grading: each grading waits until it is let go, or cancelled."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.begun: dict[str, threading.Semaphore] = {}
        self.let_go: dict[str, threading.Event] = {}
        self.quiet = threading.Semaphore(0)
        self.grader = Grader(self.grade, self, self.idle)

    def grade(self, slug: str, cancelled: threading.Event) -> MilestoneReport:
        self.said.append(f"begin {slug}")
        self.begun.setdefault(slug, threading.Semaphore(0)).release()
        go = self.let_go.setdefault(slug, threading.Event())
        while not cancelled.is_set() and not go.wait(0.01):
            pass
        return report(slug=slug)

    def graded(self, graded: Graded) -> None:
        self.said.append(f"graded {graded.report.milestone}")

    def overtaken(self, slug: str) -> None:
        self.said.append(f"overtaken {slug}")

    def same_code(self, slug: str) -> None:
        self.said.append(f"same {slug}")

    def idle(self) -> None:
        self.quiet.release()

    def want(self, slug: str, *, on_save: bool = True, grade: bool = True) -> None:
        self.grader.want(Wanted(slug, on_save, grade))

    def wait_for(self, slug: str) -> None:
        assert self.begun.setdefault(slug, threading.Semaphore(0)).acquire(timeout=60)

    def go(self, *slugs: str) -> None:
        for slug in slugs:
            self.let_go.setdefault(slug, threading.Event()).set()

    def until_quiet(self) -> list[str]:
        assert self.quiet.acquire(timeout=60)
        return self.said


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.grader.close()


def test_all_are_graded_in_order_and_then_it_is_quiet(stage: Stage) -> None:
    for slug in "abc":
        stage.want(slug, on_save=False)
    stage.go(*"abc")
    stage.grader.start()
    assert stage.until_quiet() == [
        "begin a", "graded a", "begin b", "graded b", "begin c", "graded c",
    ]  # fmt: skip
    assert list(stage.grader.last) == ["a", "b", "c"]


def test_a_newer_save_ends_what_is_graded_and_its_answer_is_dropped(stage: Stage) -> None:
    stage.want("a")
    stage.grader.start()
    stage.wait_for("a")
    stage.want("a")
    stage.wait_for("a")
    stage.go("a")
    assert stage.until_quiet() == ["begin a", "overtaken a", "begin a", "graded a"]


def test_a_save_does_not_wait_for_milestones_that_nobody_saved(stage: Stage) -> None:
    for slug in "ab":
        stage.want(slug, on_save=False)
    stage.grader.start()
    stage.wait_for("a")
    stage.want("c")
    stage.go(*"abc")
    said = stage.until_quiet()
    assert said.index("graded c") < said.index("graded a")
    assert said.index("graded c") < said.index("graded b")
    assert "overtaken a" not in said  # nobody saved it


def test_a_save_waits_for_the_save_before_it(stage: Stage) -> None:
    stage.want("a")
    stage.grader.start()
    stage.wait_for("a")
    stage.want("b")
    stage.go("a", "b")
    assert stage.until_quiet() == ["begin a", "graded a", "begin b", "graded b"]


def test_many_saves_of_one_notebook_are_graded_once(stage: Stage) -> None:
    stage.want("a")
    stage.grader.start()
    stage.wait_for("a")
    for _ in range(5):
        stage.want("b")
    stage.go("a", "b")
    assert stage.until_quiet().count("begin b") == 1


def test_a_save_of_the_same_code_is_told_and_grades_nothing(stage: Stage) -> None:
    stage.want("a", grade=False)
    stage.grader.start()
    assert stage.until_quiet() == ["same a"]


def test_a_save_of_the_same_code_cancels_nothing(stage: Stage) -> None:
    stage.want("a")
    stage.grader.start()
    stage.wait_for("a")
    stage.want("a", grade=False)
    stage.go("a")
    assert stage.until_quiet() == ["begin a", "graded a"]


def test_its_end_cancels_what_is_graded_and_keeps_the_last_state(stage: Stage) -> None:
    stage.want("a")
    stage.want("b")
    stage.go("a")
    stage.grader.start()
    stage.wait_for("b")
    stage.grader.close()
    assert list(stage.grader.last) == ["a"]
    assert "graded b" not in stage.said


def test_a_fault_in_the_grading_thread_is_told_to_the_one_that_waits() -> None:
    def broken(_slug: str, _cancelled: threading.Event) -> MilestoneReport:
        raise RuntimeError("no room")

    stage = Stage()
    grader = Grader(broken, stage, stage.idle)
    grader.want(Wanted("a", on_save=True))
    grader.start()
    grader._thread.join()
    with pytest.raises(RuntimeError, match="no room"):
        grader.raise_its_fault()


# ---------------------------------------------------------------- what is otherwise than before


def test_what_is_newly_passed_newly_failed_and_moved_is_told() -> None:
    passed = replace(CHECK, outcome=Outcome.PASSED, points=2.0)
    before = report(CHECK, FIGURE, replace(passed, name="three", sentence="The third is right."))
    now = report(
        passed, replace(FIGURE, figure=0.0951), replace(CHECK, name="three", sentence="Third.")
    )
    found = since(before, now)
    assert [check.name for check in found.newly_passed] == ["one"]
    assert [check.name for check in found.newly_failed] == ["three"]
    assert [(moved.before, moved.now.figure) for moved in found.moved] == [(0.1123, 0.0951)]
    assert shown(before, now).splitlines() == [
        "  Since the last time:",
        "    + newly passed: The first is right.",
        "    - newly failed: Third.",
        "    ~ MAPE: 0.1123 -> 0.0951 (bar 0.09)",
    ]


def test_the_same_outcomes_are_told_as_the_same() -> None:
    waits = replace(CHECK, outcome=Outcome.SKIPPED)
    assert since(report(CHECK), report(waits)).nothing  # neither of them is passed
    assert shown(report(CHECK), report(CHECK)) == "  Every outcome is as it was before.\n"


def test_a_figure_that_moves_less_than_is_shown_has_not_moved() -> None:
    assert since(report(FIGURE), report(replace(FIGURE, figure=0.11231))).nothing


def test_a_check_that_only_one_of_two_versions_has_is_not_compared() -> None:
    new = replace(CHECK, name="new", outcome=Outcome.PASSED)
    assert since(report(CHECK), report(CHECK, new)).nothing


def shown(before: MilestoneReport, now: MilestoneReport) -> str:
    console = Console(width=80, highlight=False, no_color=True)
    with console.capture() as capture:
        show_since(since(before, now), "2", console)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    return "\n".join(line for line in lines if line) + "\n"


# ---------------------------------------------------------------- the command


NAME = "m2_kv_bytes.ipynb"
WRONG = "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits): return 3"
PATIENCE_S = 300  # of a busy machine; nothing here is judged by a clock


@pytest.fixture
def home(tmp_path: Path, course: Path) -> Path:
    """A course's folder with a solved notebook; the data are the repository's."""
    home = tmp_path / "course"
    (home / "notebooks").mkdir(parents=True)
    (home / "data").symlink_to(course / "data", target_is_directory=True)
    shutil.copy(course / "solutions" / "solved" / NAME, home / "notebooks" / NAME)
    return home


class Terminal:
    """The command in a subprocess, on a pseudo-terminal or on pipes; all that it has said."""

    def __init__(self, home: Path, split: Path, *args: str, tty: bool) -> None:
        command = [sys.executable, "-m", "grader", "check", "--watch", "--split", str(split)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"}
        self.text = ""
        self._at = 0
        if tty:
            import pty

            self._end, its = pty.openpty()
        else:
            self._end, its = os.pipe()
        self.process = subprocess.Popen(
            [*command, *args],
            cwd=home,
            env=environment,
            stdin=its if tty else subprocess.DEVNULL,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
        os.close(its)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._end, 65_536)
            except OSError:  # how Linux tells that the other side of a terminal is closed
                return
            if not piece:
                return
            self.text += piece.decode("utf-8", "replace")

    def expect(self, words: str) -> None:
        """Wait until it has said something since the last time."""
        self.wait_for(lambda: words in self.text[self._at :])
        self._at = self.text.index(words, self._at) + len(words)

    def wait_for(self, happened: Callable[[], bool]) -> None:
        """Wait until it has, while the command runs."""
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert time.monotonic() < deadline, self.text
            assert self.process.poll() is None, self.text
            time.sleep(0.02)

    def interrupt(self) -> int:
        import signal

        self.process.send_signal(signal.SIGINT)
        code: int = self.process.wait(timeout=PATIENCE_S)
        assert "Traceback" not in self.text, self.text
        return code


Start = Callable[..., Terminal]


@pytest.fixture
def start(home: Path, m2_split: Split) -> Iterator[Start]:
    started: list[Terminal] = []

    def begin(*args: str, tty: bool = True) -> Terminal:
        started.append(Terminal(home, m2_split.folder, *args, tty=tty))
        return started[-1]

    yield begin
    for terminal in started:
        if terminal.process.poll() is None:
            terminal.process.kill()
            terminal.process.wait()


def with_last_cell(path: Path, source: str) -> str:
    content = json.loads(path.read_text(encoding="utf-8"))
    content["cells"] = [
        *content["cells"],
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "id": "last",
         "execution_count": None},
    ]  # fmt: skip
    return json.dumps(content)


on_posix = pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")


@on_posix
def test_on_a_terminal_a_save_is_graded_what_changed_is_shown_and_ctrl_c_tells_the_last_state(
    start: Start, home: Path
) -> None:
    notebook = home / "notebooks" / NAME
    solved = notebook.read_text(encoding="utf-8")
    terminal = start("2")
    terminal.expect("15 of 15 points")
    beside = notebook.with_name(".m2.tmp")  # as an editor saves: written beside, renamed
    beside.write_text(with_last_cell(notebook, WRONG), encoding="utf-8")
    beside.replace(notebook)
    terminal.expect("newly failed")
    notebook.write_text(solved, encoding="utf-8")
    terminal.expect("newly passed")
    children = psutil.Process(terminal.process.pid).children(recursive=True)
    assert terminal.interrupt() == 0
    for child in children:
        child.wait(timeout=PATIENCE_S)
    lines = (home / ".grader" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["by"] for line in lines] == ["watch"] * 3


@on_posix
def test_without_a_terminal_it_works_the_same_and_says_it_in_plain_text(
    start: Start, home: Path
) -> None:
    notebook = home / "notebooks" / NAME
    report = home / "report.json"
    terminal = start("2", "--json", str(report), tty=False)
    terminal.expect("15 of 15 points")
    notebook.unlink()
    terminal.expect("there is no such notebook")
    solved = (ROOT / "solutions" / "solved" / NAME).read_text(encoding="utf-8")
    notebook.write_text(solved[:1_000], encoding="utf-8")  # half of it, and then the rest
    notebook.write_text(solved, encoding="utf-8")
    terminal.expect("Every outcome is as it was before")
    asleep = home / "asleep"  # "grading" is said before the file is read: the cell itself must tell
    sleeper = f"import pathlib, time; pathlib.Path({str(asleep)!r}).touch(); time.sleep(3600)"
    notebook.write_text(with_last_cell(notebook, sleeper), encoding="utf-8")
    terminal.wait_for(asleep.exists)
    notebook.write_text(solved.replace("\n", "\r\n"), encoding="utf-8", newline="")
    terminal.expect("saved again while it was graded")
    terminal.expect("15 of 15 points")
    notebook.write_text(with_last_cell(notebook, WRONG), encoding="utf-8")
    terminal.expect("newly failed")
    assert terminal.interrupt() == 1
    assert "\x1b" not in terminal.text
    assert json.loads(report.read_text(encoding="utf-8"))["milestones"][0]["points"] < 15


@on_posix
def test_the_folder_may_go_and_come_back(start: Start, home: Path) -> None:
    terminal = start("2", tty=False)
    terminal.expect("15 of 15 points")
    (home / "notebooks").rename(home / "elsewhere")
    terminal.expect("there is no such notebook")
    (home / "elsewhere").rename(home / "notebooks")
    terminal.expect("15 of 15 points")
    (home / "notebooks" / NAME).write_text("<html>", encoding="utf-8")
    terminal.expect("web page")
    assert terminal.interrupt() == 2


@on_posix
def test_ctrl_c_before_anything_was_graded_says_so(start: Start, home: Path) -> None:
    notebook = home / "notebooks" / NAME
    notebook.write_text(with_last_cell(notebook, "import time; time.sleep(3600)"), encoding="utf-8")
    terminal = start("2", tty=False)
    terminal.expect("grading m2_kv_bytes")
    assert terminal.interrupt() == 130
    assert "nothing was graded" in terminal.text
