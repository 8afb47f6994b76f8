"""What `grader check` leaves behind: the history, the page, and a browser that shows it."""

from __future__ import annotations

import shutil
import webbrowser
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from grader import check_cli, history
from grader.check_cli import check
from grader.notebook import read_notebook
from grader.report import CheckReport, MilestoneReport, Outcome
from milestones.spec import Milestone

NAME = "m2_kv_bytes"
Checks = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course's folder; a check of it finds one failure without running anything."""
    home = tmp_path / "course"
    shutil.copytree(course / "notebooks", home / "notebooks")
    (home / "data").symlink_to(course / "data", target_is_directory=True)
    monkeypatch.chdir(home)

    def grade(milestone: Milestone, path: Path, *_: object, **__: object) -> MilestoneReport:
        failed = CheckReport("one", "The first is right.", Outcome.FAILED, 1.0, 2.0, hint="Think.")
        return MilestoneReport(milestone.slug, "KV bytes", read_notebook(path).sha256, (failed,))

    monkeypatch.setattr(check_cli, "grade", grade)
    return home


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pages that were opened in the browser."""
    pages: list[str] = []

    def show(url: str) -> bool:
        pages.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", show)
    return pages


def run(*args: str, code: int = 1) -> Result:
    ran = CliRunner().invoke(check, args)
    assert ran.exit_code == code, ran.output
    return ran


def test_a_check_of_the_courses_own_notebooks_is_kept(home: Path) -> None:
    run("2")
    run("2", "--notebooks", str(home / "notebooks"))
    entries = history.read(home).entries
    mine = read_notebook(home / "notebooks" / f"{NAME}.ipynb")
    assert [(e.by, e.milestone, e.points, e.code_sha256) for e in entries] == [
        ("check", NAME, 1.0, mine.code_sha256)
    ] * 2


def test_a_check_of_other_notebooks_is_not_kept(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "notebooks", tmp_path / "others")
    run("2", "--notebooks", str(tmp_path / "others"))
    assert not (home / history.FOLDER).exists()


def test_a_history_that_cannot_be_written_costs_a_line_and_no_grade(home: Path) -> None:
    (home / history.FOLDER).write_text("a file of that name", encoding="utf-8")
    ran = run("2")
    assert "this check is not in it" in ran.stderr
    assert "The first is right." in ran.stdout


def test_open_shows_the_page_of_html(home: Path, opened: list[str]) -> None:
    page = home / "my report.html"
    run("2", "--html", str(page), "--open")
    assert opened == [page.as_uri()]
    assert "The first is right." in page.read_text(encoding="utf-8")


def test_open_alone_writes_a_page_where_git_leaves_it(home: Path, opened: list[str]) -> None:
    run("2", "--open")
    page = home / history.FOLDER / "report.html"
    assert opened == [page.as_uri()]
    assert "The first is right." in page.read_text(encoding="utf-8")


def test_html_without_open_opens_nothing(home: Path, opened: list[str]) -> None:
    run("2", "--html", str(home / "report.html"))
    assert opened == []


@pytest.mark.parametrize("how", ["none", "error"])
def test_without_a_browser_it_says_where_the_page_lies(
    how: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_url: str) -> bool:
        if how == "error":
            raise webbrowser.Error("could not locate runnable browser")
        return False

    monkeypatch.setattr(webbrowser, "open", fail)
    ran = run("2", "--open")
    assert str(home / history.FOLDER / "report.html") in ran.stderr
