"""`%check` leaves a line in the history where `grader status` may tell of it, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader import history
from grader.history import Entry
from grader.live.check import subject_of
from grader.live.keep import keep
from grader.live.magic import LiveCheck
from grader.notebook import read_notebook
from tests.grader.livenotebook import SAVED_LONG_AGO, LiveNotebook

RIGHT = (
    "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n"
    "    return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8"
)
WRONG = RIGHT.replace("2 * ", "")


class Home:
    """A course with a live notebook of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.path = folder / "notebooks" / "m2_kv_bytes.ipynb"
        monkeypatch.setenv("JPY_SESSION_NAME", str(self.path))
        self.notebook = LiveNotebook(self.path)
        self.magic = LiveCheck(self.notebook.shell)

    def entries(self) -> list[Entry]:
        return list(history.read(self.folder).entries)


@pytest.fixture
def home(tmp_path: Path, course: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "data").symlink_to(course / "data", target_is_directory=True)
    return Home(tmp_path, monkeypatch)


def test_a_live_check_leaves_a_line_of_its_own_kind(home: Home) -> None:
    home.notebook.run(RIGHT)
    home.notebook.save(RIGHT)
    home.magic.check("")
    (entry,) = home.entries()
    assert (entry.by, entry.milestone, entry.points) == ("notebook", "m2_kv_bytes", 4.0)
    assert entry.code_sha256 == read_notebook(home.path).code_sha256


def test_work_that_is_not_saved_is_kept_as_the_code_of_no_file(home: Home) -> None:
    home.notebook.save(WRONG, at=SAVED_LONG_AGO)
    home.notebook.run(RIGHT)
    home.magic.check("")
    (entry,) = home.entries()
    assert (entry.code_sha256, entry.points) == ("", 4.0)


def test_what_a_fresh_kernel_is_known_to_lack_is_not_kept(home: Home) -> None:
    home.notebook.run(RIGHT)
    home.notebook.save("x = 1")  # after it was run: its cell is gone
    home.magic.check("")
    assert home.entries() == []


def test_with_a_fresh_run_beside_it_that_run_is_what_is_kept(home: Home) -> None:
    home.notebook.run(RIGHT)
    home.notebook.save("x = 1")
    keep(home.notebook.check(fresh=True), subject_of("", home.notebook.shell.user_ns))
    (entry,) = home.entries()
    assert (entry.by, entry.points) == ("fresh", 0.0)
    assert entry.code_sha256 == read_notebook(home.path).code_sha256


@pytest.mark.parametrize("name", ["m2_kv_bytes-Copy1.ipynb", "m3_concurrency.ipynb"])
def test_a_copy_and_another_milestones_notebook_are_not_the_courses_own(
    name: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.notebook.path = home.path.with_name(name)
    monkeypatch.setenv("JPY_SESSION_NAME", str(home.notebook.path))
    home.notebook.run(RIGHT)
    home.notebook.save(RIGHT)
    home.magic.check("2")
    assert home.entries() == []


def test_a_history_that_cannot_be_written_costs_a_sentence(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    (home.folder / history.FOLDER).write_text("a file of that name", encoding="utf-8")
    home.notebook.run(RIGHT)
    home.notebook.save(RIGHT)
    home.magic.check("")
    said = capsys.readouterr().out
    assert "this check is not in it" in said
