"""`%check` says, at once, where the live kernel and the saved notebook part, and only there."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from grader.live.definitions import definitions_of
from grader.notebook import read_notebook
from grader.report import Outcome
from solutions.render import blank_paths
from tests.grader.livenotebook import SAVED_JUST_NOW, SAVED_LONG_AGO, LiveNotebook

FACTOR = "FACTOR = 2"
USES_FACTOR = (
    "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n"
    "    return FACTOR * n_layers * n_kv_heads * head_dim * kv_bits // 8"
)
PLAIN = USES_FACTOR.replace("FACTOR", "2")
WRONG = USES_FACTOR.replace("FACTOR", "3")


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveNotebook:
    path = tmp_path / "m2_kv_bytes.ipynb"
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    return LiveNotebook(path)


def notes(notebook: LiveNotebook) -> list[tuple[str, str]]:
    return [(note.kind, note.name) for note in notebook.check().notes]


def test_a_notebook_run_from_the_top_and_saved_has_no_notes(notebook: LiveNotebook) -> None:
    cells = (
        "%time import math",
        FACTOR,
        USES_FACTOR,
        "kv_bytes_per_token(1, 1, 1, 8)",
    )
    notebook.run(*cells)
    notebook.save(*cells)
    live = notebook.check()
    assert live.compared
    assert live.notes == ()


def test_a_variable_deleted_from_the_notebook_but_alive_in_the_kernel_is_told(
    notebook: LiveNotebook,
) -> None:
    notebook.run(FACTOR, USES_FACTOR)
    notebook.save(USES_FACTOR)
    live = notebook.check()
    assert [(note.kind, note.name) for note in live.notes] == [("deleted", "FACTOR")]
    assert "no cell of the saved notebook defines it" in live.notes[0].text
    known = next(check for check in live.report.checks if check.name == "known_shapes")
    assert known.outcome is Outcome.PASSED  # here: that is why it must be said


@pytest.mark.parametrize("edited", [WRONG, PLAIN])
def test_a_cell_edited_and_not_run_again_is_told(notebook: LiveNotebook, edited: str) -> None:
    notebook.run(FACTOR, USES_FACTOR)
    notebook.save(FACTOR, edited)
    assert notes(notebook) == [("edited", "kv_bytes_per_token")]
    notebook.run(edited)
    assert notes(notebook) == []


def test_a_constant_edited_and_not_run_again_is_told(notebook: LiveNotebook) -> None:
    notebook.run(FACTOR, USES_FACTOR)
    notebook.save("FACTOR = 3", USES_FACTOR)
    assert notes(notebook) == [("edited", "FACTOR")]


def test_a_file_that_was_not_saved_since_is_told_once_for_all_names(
    notebook: LiveNotebook,
) -> None:
    notebook.save(WRONG, at=SAVED_LONG_AGO)
    notebook.run(FACTOR, USES_FACTOR)
    live = notebook.check()
    assert [note.kind for note in live.notes] == ["unsaved"]
    assert "`kv_bytes_per_token`, `FACTOR` were changed" in live.notes[0].text
    notebook.save(FACTOR, USES_FACTOR)
    assert notes(notebook) == []


def test_cells_run_out_of_order_are_told(notebook: LiveNotebook) -> None:
    notebook.run("FACTOR = 3", USES_FACTOR, FACTOR)
    notebook.save(FACTOR, USES_FACTOR, "FACTOR = 3")
    live = notebook.check()
    assert [(note.kind, note.name) for note in live.notes] == [("order", "FACTOR")]
    assert "the cell `FACTOR = 2` was run after the cell `FACTOR = 3`" in live.notes[0].text
    notebook.run("FACTOR = 3")
    assert notes(notebook) == []


def test_a_later_cell_that_was_not_run_is_told(notebook: LiveNotebook) -> None:
    notebook.run(FACTOR, USES_FACTOR)
    notebook.save(FACTOR, USES_FACTOR, "FACTOR = 3")
    assert notes(notebook) == [("order", "FACTOR")]


def test_a_value_made_by_older_code_is_told(notebook: LiveNotebook) -> None:
    older, newer = "def two():\n    return 1", "def two():\n    return 2"
    made = "FACTOR = two()"
    notebook.run(older, made, newer, USES_FACTOR)
    notebook.save(newer, made, USES_FACTOR)
    assert notes(notebook) == [("stale", "FACTOR")]
    notebook.run(made)
    assert notes(notebook) == []


def test_a_name_defined_only_further_down_is_told(notebook: LiveNotebook) -> None:
    notebook.run("BASE = 2", "FACTOR = BASE", USES_FACTOR)
    notebook.save("FACTOR = BASE", "BASE = 2", USES_FACTOR)
    assert notes(notebook) == [("later", "FACTOR")]


def test_a_function_that_only_the_file_defines_is_told(notebook: LiveNotebook) -> None:
    cell = "def kv_bytes_for_runs(runs):\n    return []"
    blank = [cell.source for cell in read_notebook(blank_paths("m2_kv_bytes")[0]).cells]
    mine = ("def kv_bytes_per_token(", "def kv_bytes_for_runs(")
    notebook.run(PLAIN)
    notebook.save(PLAIN, cell, *(source for source in blank if not source.startswith(mine)))
    assert notes(notebook) == [("not_run", "kv_bytes_for_runs")]


def test_a_file_older_than_the_kernel_is_unsaved_whenever_its_cells_were_run(
    notebook: LiveNotebook,
) -> None:
    notebook.save(WRONG, at=SAVED_LONG_AGO)
    notebook.run(PLAIN)
    later = LiveNotebook.of(notebook)  # `%load_ext grader` after the cells were run
    assert notes(later) == [("unsaved", "kv_bytes_per_token")]


def test_where_no_time_is_known_both_ways_out_are_told(notebook: LiveNotebook) -> None:
    notebook.run(PLAIN)
    later = LiveNotebook.of(notebook)
    notebook.save(WRONG, at=psutil.Process().create_time() + 0.001)
    (note,) = later.check().notes
    assert note.kind == "edited"
    assert "Save it (Ctrl-S), or if you changed the cell `def kv_bytes_per_token(…)`" in note.text


@pytest.mark.parametrize(
    "saved",
    [
        (USES_FACTOR + "  # 2: keys and values", FACTOR),  # a comment, and another place
        (USES_FACTOR.replace(":\n", ':\n    """Say it."""\n', 1), FACTOR),
        (f"{FACTOR}\n{USES_FACTOR}",),
        ("from math import *", USES_FACTOR),  # any name may come of it
        ("%run helpers.py", USES_FACTOR),
        ("exec('FACTOR = 2')", USES_FACTOR),
        ("this is ( no Python", FACTOR, USES_FACTOR),
        (FACTOR, USES_FACTOR, "unused = 1", "print(undefined_elsewhere)"),
    ],
)
def test_what_makes_no_difference_or_cannot_be_known_is_not_told(
    notebook: LiveNotebook, saved: tuple[str, ...]
) -> None:
    notebook.run(FACTOR, USES_FACTOR)
    notebook.save(*saved)
    assert notes(notebook) == []


@pytest.mark.parametrize(
    "cell",
    ["unrelated = 1", "def helper():\n    return FACTOR_2", "%%time\nunrelated = 1"],
)
def test_what_no_asked_function_builds_on_is_not_told(notebook: LiveNotebook, cell: str) -> None:
    notebook.run(cell, PLAIN)
    notebook.save(PLAIN)
    assert notes(notebook) == []


def test_a_file_that_is_no_notebook_is_told(notebook: LiveNotebook) -> None:
    notebook.run(PLAIN)
    notebook.path.write_text("<html>", encoding="utf-8")
    live = notebook.check()
    assert [note.kind for note in live.notes] == ["unreadable"]
    assert "web page" in live.notes[0].text


def test_without_a_file_it_is_said_that_nothing_was_compared(
    notebook: LiveNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME")
    notebook.run(FACTOR, USES_FACTOR)
    live = notebook.check("2")
    assert not live.compared
    assert any("could not be found" in sentence for sentence in live.said)


def test_a_clean_run_shows_what_the_live_kernel_hides(notebook: LiveNotebook) -> None:
    notebook.run(FACTOR, USES_FACTOR)
    notebook.save(USES_FACTOR, "1 / 0", at=SAVED_JUST_NOW)
    live = notebook.check(fresh=True)
    assert live.fresh is not None
    lost = {pair.live.name: pair for pair in live.fresh.differences(live.report) if pair.lost}
    assert set(lost) == {"known_shapes", "other_shapes"}
    assert "NameError" in lost["known_shapes"].fresh.hint
    assert [cell.cell for cell in live.fresh.report.cells] == [1]


def test_a_clean_run_of_the_cells_as_run_agrees_where_nothing_is_hidden(
    notebook: LiveNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JPY_SESSION_NAME")
    notebook.run(FACTOR, USES_FACTOR)
    live = notebook.check("2", fresh=True)
    assert live.fresh is not None
    assert live.fresh.differences(live.report) == ()
    assert live.fresh.report.cells == ()


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("a = 1\nb: int = 2\n(c, *d), e = f()", {"a", "b", "c", "d", "e"}),
        ("import x.y, z as w\nfrom v import u as t", {"x", "w", "t"}),
        ("for i in []:\n    j = 1\nwith o() as k:\n    pass", {"i", "j", "k"}),
        ("def f(a, b=1):\n    c = 2\nclass K:\n    d = 1", {"f", "K"}),
        ("[p for p in []]; (q := 1); {r for s in t if (m := s)}", {"q", "m"}),
        ("n['a'] = 1\no.b.c = 2\nx += 1", {"n", "o", "x"}),
        (
            "match a:\n    case [b, *c]:\n        pass\n    case {'x': d}:\n        e = 1",
            set("bcde"),
        ),
        ("async def g(): pass\nawait g()", {"g"}),
        ("lambda: (h := 1)", set()),
    ],
)
def test_what_a_cell_defines_is_what_python_would_bind(cell: str, names: set[str]) -> None:
    assert set(definitions_of(cell).definitions) == names
