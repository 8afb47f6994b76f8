"""`python -m solutions release DIR`: the student repository, made and then proved where it lies."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import milestones
from grader import __version__
from grader.errors import BadInputError
from solutions.lesson import ROOT
from solutions.render import blank_paths, solved_path
from solutions.verify import COURSE_POINTS, leaks

KEPT = (
    "milestones",
    "grader",
    "data",
    "notebooks",
    "pyproject.toml",
    "constraints.txt",
    "LICENSE",
    "CHANGELOG.md",
    "docs",
    ".gitignore",
    ".gitattributes",
)
NOT_RELEASED = re.compile("<!-- not in a release -->\n.*?<!-- end -->\n+", re.DOTALL)


def main(argv: list[str]) -> int:
    """Make the student repository in DIR and prove it there."""
    parser = argparse.ArgumentParser("python -m solutions release", description=__doc__)
    parser.add_argument("folder", metavar="DIR", type=Path)
    args = parser.parse_args(argv)
    make(args.folder)
    for sentence in prove_release(args.folder):
        print(sentence)
    print(f"{args.folder} is the student repository of version {__version__}.")
    return 0


def make(folder: Path) -> None:
    """Copy the student's part of the repository into a new or empty folder.

    Raises:
        BadInputError: the folder holds something, or a solution's line stands in a student's file.
    """
    if folder.exists() and any(folder.iterdir()):
        raise BadInputError(f"{folder}: is not empty; name a new folder, nothing was changed")
    for sentence in leaks():
        raise BadInputError(sentence)
    folder.mkdir(parents=True, exist_ok=True)
    clutter = shutil.ignore_patterns("__pycache__", ".*_cache", ".ipynb_checkpoints")
    for name in KEPT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=clutter)
        else:
            shutil.copy2(source, folder / name)
    for slug in milestones.SLUGS:  # a maintainer's own attempts stay at home
        shutil.copyfile(blank_paths(slug)[1], folder / "notebooks" / f"{slug}.ipynb")
    for stray in set((folder / "notebooks").iterdir()) - {
        folder / "notebooks" / f"{slug}.ipynb" for slug in milestones.SLUGS
    }:
        stray.unlink()
    readme = NOT_RELEASED.sub("", (ROOT / "README.md").read_text(encoding="utf-8"))
    (folder / "README.md").write_text(readme, encoding="utf-8", newline="\n")


def prove_release(folder: Path) -> list[str]:
    """Grade the blank and the solved notebooks with the released grader, where it lies.

    Raises:
        BadInputError: they do not earn 0 and all points; the message gives what they earned.
    """
    blank = _points(folder, folder / "notebooks")
    with tempfile.TemporaryDirectory() as temporary:
        for slug in milestones.SLUGS:
            shutil.copyfile(solved_path(slug), Path(temporary) / f"{slug}.ipynb")
        solved = _points(folder, Path(temporary))
    if (blank, solved) != (0, COURSE_POINTS):
        raise BadInputError(
            f"{folder}: the blank notebooks earn {blank:g} and the solved ones {solved:g} there"
        )
    for clutter in list(folder.rglob("__pycache__")):
        shutil.rmtree(clutter)
    return [f"Proved there: blank notebooks earn 0 points, solved ones {COURSE_POINTS}."]


def _points(course: Path, notebooks: Path) -> float:
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.json"
        command = ["-m", "grader", "check", "--notebooks", str(notebooks), "--json", str(report)]
        run = subprocess.run(
            [sys.executable, *command],
            cwd=course,
            env={**os.environ, "PYTHONPATH": str(course.resolve())},
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.exists():
            raise BadInputError(f"{course}: its grader made no report: {run.stderr[-500:]}")
        content = json.loads(report.read_text(encoding="utf-8"))
    return float(sum(milestone["points"] for milestone in content["milestones"]))
