"""`python -m solutions picture`: the README's picture of a report, from a real grading."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import nbformat
from rich.console import Console

import milestones
from grader.grade import grade
from grader.present import print_report
from grader.report import Report
from grader.split import open_split
from solutions.exam import named_mistakes
from solutions.lesson import ROOT, solved_notebook

SLUG, MISTAKE = "m2_kv_bytes", "query_heads_for_kv_heads"
TARGET = ROOT / "docs" / "report.svg"


def main(argv: list[str]) -> int:
    """Grade the solved notebook with one known mistake in it, and save what the terminal shows."""
    argparse.ArgumentParser("python -m solutions picture", description=__doc__).parse_args(argv)
    notebook = solved_notebook(SLUG)
    (mistake,) = (m for m in named_mistakes(SLUG) if m.name == MISTAKE)
    for edit in mistake.edits:
        for cell in notebook.cells:
            if cell.source.startswith(f"def {edit.function}("):
                cell.source = edit.apply(cell.source)
    split = open_split(ROOT / "data" / "public_split")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{SLUG}.ipynb"
        path.write_text(nbformat.writes(notebook), encoding="utf-8")
        report = grade(milestones.load(SLUG), path, split, ROOT / "data")
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(
            record=True, width=100, file=nowhere, force_terminal=True, highlight=False
        )
        print_report(Report(split.split_id, split.public, (report,)), console)
        TARGET.parent.mkdir(exist_ok=True)
        console.save_svg(str(TARGET), title="grader check 2", font_aspect_ratio=0.61)
    print(f"{TARGET.relative_to(ROOT)}: written")
    return 0
