"""`python -m solutions render`: the notebooks, the blanks and the solved copies from one source."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import nbformat
from nbconvert.preprocessors import ExecutePreprocessor

import milestones
from grader.errors import BadInputError
from solutions.lesson import ROOT, notebook_text, solved_notebook, student_notebook

CELL_TIMEOUT_S = 600  # wall seconds for one cell of ours on a slow machine


def blank_paths(slug: str) -> tuple[Path, Path]:
    """Return where a blank notebook lies: for the student, and kept for `grader reset`."""
    return (
        ROOT / "notebooks" / f"{slug}.ipynb",
        ROOT / "milestones" / slug / "blank.ipynb",
    )


def solved_path(slug: str) -> Path:
    """Return where a solved notebook lies."""
    return ROOT / "solutions" / "solved" / f"{slug}.ipynb"


def drift(slug: str) -> list[str]:
    """Return a sentence for each committed notebook that differs from what its source gives."""
    blank, solved = made(slug)
    found = [
        f"{path.relative_to(ROOT)} differs from its source; run: python -m solutions render {slug}"
        for path in blank_paths(slug)
        if not path.exists() or path.read_bytes() != notebook_text(blank).encode()
    ]
    path = solved_path(slug)
    if _committed_sources(path) != _sources(solved):
        found.append(
            f"{path.relative_to(ROOT)} differs from its source; "
            f"run: python -m solutions render --execute {slug}"
        )
    return found


def made(slug: str) -> tuple[nbformat.NotebookNode, nbformat.NotebookNode]:
    """Return the blank and the solved notebook that a lesson gives.

    Raises:
        BadInputError: the lesson is no lesson; the message says where.
    """
    try:
        return student_notebook(slug), solved_notebook(slug)
    except SyntaxError as error:
        line = (error.text or "").strip()
        problem = f"{error.msg}, in an exercise cell, at {line!r}"
    except ValueError as error:
        problem = str(error)
    raise BadInputError(f"solutions/{slug}/lesson.py: {problem}")


def _committed_sources(path: Path) -> list[tuple[str, str, str]] | None:
    """Return the sources of a notebook that lies there; None where none can be read."""
    try:
        return _sources(nbformat.read(path, 4))
    except (OSError, ValueError, KeyError, AttributeError, nbformat.ValidationError):
        return None


def _sources(notebook: nbformat.NotebookNode) -> list[tuple[str, str, str]]:
    return [(cell.id, cell.cell_type, cell.source) for cell in notebook.cells]


def execute(slug: str) -> nbformat.NotebookNode:
    """Return the solved notebook with the outputs of a real Jupyter kernel."""
    notebook = solved_notebook(slug)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kernel client's own libraries
        ExecutePreprocessor(timeout=CELL_TIMEOUT_S, record_timing=False).preprocess(
            notebook, {"metadata": {"path": str(ROOT / "notebooks")}}
        )
    notebook.metadata.pop("language_info", None)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def main(argv: list[str]) -> int:
    """Write, execute or check the notebooks."""
    parser = argparse.ArgumentParser("python -m solutions render", description=__doc__)
    parser.add_argument("milestone", nargs="*", help="5, m5 or the slug; all when none is given")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 on drift")
    parser.add_argument("--execute", action="store_true", help="run the solved notebooks too")
    args = parser.parse_args(argv)
    slugs = [milestones.slug_of(name) for name in args.milestone] or list(milestones.all_slugs())
    if args.check:
        found = [sentence for slug in slugs for sentence in drift(slug)]
        print("\n".join(found) or "Every notebook is what its source gives.")
        return 1 if found else 0
    for slug in slugs:
        text = notebook_text(made(slug)[0])
        for path in blank_paths(slug):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        if args.execute:
            print(f"{slug}: running the solved notebook", file=sys.stderr)
            path = solved_path(slug)
            path.parent.mkdir(exist_ok=True)
            path.write_text(notebook_text(execute(slug)), encoding="utf-8", newline="\n")
        print(f"{slug}: written")
    return 0
