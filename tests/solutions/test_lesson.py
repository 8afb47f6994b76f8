"""One source, two notebooks: what the student's copy keeps and what it loses."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import nbformat
import pytest

import milestones
from grader.errors import BadInputError
from solutions import lesson, render
from solutions.lesson import (
    Reference,
    _stub,
    notebook_text,
    read_lesson,
    student_notebook,
)
from solutions.mistake import Edit
from solutions.render import drift
from solutions.verify import leaks, solution_lines

FUNCTION = '''def area(width: float, height: float) -> float:
    """Return the area.

    Args:
        width: in metres.
    """
    secret = width * height  # never shown
    return secret'''


def test_a_stub_keeps_signature_and_docstring_and_loses_the_body() -> None:
    stub = _stub(FUNCTION)
    assert stub.startswith(FUNCTION.partition("    secret")[0])
    assert "secret" not in stub
    function = ast.parse(stub).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert [type(node) for node in function.body] == [ast.Expr, ast.Raise]


def test_a_stub_of_a_dict_keeps_its_keys_and_loses_their_values() -> None:
    stub = _stub('plan: dict = {\n    "gpu": "H100-80GB",\n    "n_gpus": 12,\n}')
    namespace: dict[str, object] = {}
    exec(stub, namespace)
    assert namespace["plan"] == {"gpu": None, "n_gpus": None}


@pytest.mark.parametrize(
    "source",
    ["x = 1", "def f():\n    return 1", "def f():\n    'doc'\n\ndef g():\n    'doc'", "import os"],
)
def test_what_is_no_single_documented_definition_is_no_exercise(source: str) -> None:
    with pytest.raises(ValueError, match="exercise"):
        _stub(source)


def test_a_stub_of_a_text_keeps_headings_and_prompts() -> None:
    plan = (
        "## The plan\n\n> Which GPU,\n> and why?\n\nThe H200, because.\n\n> What else?\n\nNothing."
    )
    namespace: dict[str, object] = {}
    exec(_stub(f'plan: str = r"""\n{plan}\n"""'), namespace)
    assert namespace["plan"] == ("\n## The plan\n\n> Which GPU,\n> and why?\n\n> What else?\n")


def lesson_of(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a lesson of a course of its own; return its slug."""
    folder = tmp_path / "solutions" / "m2_kv_bytes"
    folder.mkdir(parents=True)
    (folder / "lesson.py").write_text(text)
    monkeypatch.setattr(lesson, "ROOT", tmp_path)
    monkeypatch.setattr(render, "ROOT", tmp_path)
    return folder.name


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ('# %% tags=["questions"]\nanswer = "The H200, because it is the fastest"', "code"),
        ('# %% [markdown] tags=["exercise"]\n# The H200', "markdown"),
    ],
)
def test_a_cell_whose_tag_would_not_cut_its_solution_is_refused(
    cell: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slug = lesson_of(cell, tmp_path, monkeypatch)
    with pytest.raises(ValueError, match=f"a {kind} cell is tagged"):
        read_lesson(slug)


def test_a_lesson_with_a_syntax_error_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slug = lesson_of('# %% tags=["exercise"]\ndef f(:\n    pass', tmp_path, monkeypatch)
    with pytest.raises(BadInputError, match=r"solutions/m2_kv_bytes/lesson\.py: .*'def f\(:'"):
        drift(slug)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"cells": []}', "\xff"])
def test_a_broken_solved_notebook_is_drift(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slug = lesson_of("# %% [markdown]\n# text", tmp_path, monkeypatch)
    path = render.solved_path(slug)
    path.parent.mkdir()
    path.write_bytes(content.encode("latin-1"))
    assert drift(slug)[-1].startswith(f"solutions/solved/{slug}.ipynb differs from its source")


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_committed_notebooks_are_what_their_source_gives(slug: str) -> None:
    assert drift(slug) == []


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_notebooks_are_valid_and_carry_no_outputfor_students(slug: str) -> None:
    notebook = nbformat.reads(notebook_text(student_notebook(slug)), as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_solved_notebooks_ran_to_the_end_without_an_error(slug: str) -> None:
    from solutions.render import solved_path

    notebook = json.loads(solved_path(slug).read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    kinds = [output["output_type"] for cell in code for output in cell["outputs"]]
    assert "error" not in kinds
    assert any("image/png" in o.get("data", {}) for cell in code for o in cell["outputs"])


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_every_function_a_milestone_names_is_an_exercise_of_its_lesson(slug: str) -> None:
    exercises = {cell.name for cell in read_lesson(slug) if cell.kind == "exercise"}
    assert set(milestones.load(slug).functions) <= exercises


def test_no_line_of_a_solution_stands_in_a_students_tree() -> None:
    assert list(leaks()) == []


def test_the_search_for_leaks_has_lines_to_look_for() -> None:
    assert all(len(solution_lines(slug)) >= 3 for slug in milestones.all_slugs())


def test_an_edit_that_lost_touch_with_the_lesson_is_an_error() -> None:
    with pytest.raises(ValueError, match="no longer holds"):
        Edit("area", "height * height", "1").apply(FUNCTION)


def test_edits_are_undone_when_they_have_been_judged() -> None:
    reference = Reference("m2_kv_bytes")
    shape = (80, 8, 128, 16)
    right = reference.namespace["kv_bytes_per_token"](*shape)
    with reference.with_edits([Edit("kv_bytes_per_token", "2 * n_layers", "n_layers")]) as wrong:
        assert wrong["kv_bytes_per_token"](*shape) == right / 2
    assert reference.namespace["kv_bytes_per_token"](*shape) == right


def test_only_an_edit_that_no_other_answer_can_feel_is_judged_alone() -> None:
    reference = Reference("m3_concurrency")
    stated = Edit("understanding", '"requests_of_32k": 13', '"requests_of_32k": 14')
    closing = Edit("gpus_needed", "math.ceil", "math.floor")
    read_by_others = Edit("kv_bytes_per_token", "2 * n_layers", "n_layers")
    graded = Edit("max_context_len", "token_bytes * n_requests", "token_bytes")
    names = ("gpus_needed", "understanding")
    assert reference.changed_alone([stated], names) == {"understanding"}
    assert reference.changed_alone([closing], names) == {"gpus_needed"}
    for other in (read_by_others, graded):
        assert reference.changed_alone([other], names) == frozenset()
        assert reference.changed_alone([stated, other], names) == frozenset()
