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
from collections.abc import Sequence
from pathlib import Path

import milestones
from grader import __version__
from grader.errors import BadInputError
from solutions.exam import building_beside
from solutions.lesson import ROOT
from solutions.render import blank_paths, solved_path
from solutions.verify import leaks

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
    """Make the student repository, prove it, and put it in place as DIR."""
    parser = argparse.ArgumentParser("python -m solutions release", description=__doc__)
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="a new folder, or a clone of the last release"
    )
    folder = parser.parse_args(argv).folder.resolve()
    refuse(folder)
    with building_beside(folder) as built:
        make(built)
        sentences = prove_release(built)
        put_in_place(built, folder)
    for sentence in sentences:
        print(sentence)
    print(f"{folder} is the student repository of version {__version__}.")
    return 0


def refuse(folder: Path) -> None:
    """Refuse a place where a release would cost something or end up in the next release.

    Raises:
        BadInputError: DIR lies in a tree that is copied, is a file, or holds what would be lost.
    """
    if any(folder.is_relative_to(ROOT / name) for name in KEPT):
        raise BadInputError(f"{folder}: lies in the repository that is released; name another DIR")
    if folder.is_file():
        raise BadInputError(f"{folder}: is a file; name a new folder, nothing was changed")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / ".git").exists():
        raise BadInputError(f"{folder}: is not empty; name a new folder, nothing was changed")
    tracked = git(folder, "ls-files", "-z").split("\0")
    if any(name.startswith("solutions/") for name in tracked):
        raise BadInputError(f"{folder}: holds solutions/; name a clone of the students' repository")
    if tracked != [""] and "milestones/__init__.py" not in tracked:
        raise BadInputError(f"{folder}: is a clone of something else than a students' repository")
    if git(folder, "status", "--porcelain", "--ignored"):
        raise BadInputError(
            f"{folder}: holds files or changes that are not committed there, see git status "
            "--ignored; commit or remove them, nothing was changed"
        )


def make(folder: Path) -> None:
    """Copy the student's part of the repository into a new folder: what git tracks of it.

    Raises:
        BadInputError: a solution's line stands in a student's file, or git cannot be asked.
    """
    files = tracked_files()
    folder.mkdir()
    for name in files:
        if not (ROOT / name).is_file():
            raise BadInputError(f"{name}: git tracks it, but it is not there; restore or commit it")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    for slug in milestones.all_slugs():  # a maintainer's own attempts stay at home
        shutil.copyfile(blank_paths(slug)[1], folder / "notebooks" / f"{slug}.ipynb")
    for stray in set((folder / "notebooks").iterdir()) - {
        folder / "notebooks" / f"{slug}.ipynb" for slug in milestones.all_slugs()
    }:
        stray.unlink()
    readme = NOT_RELEASED.sub("", (ROOT / "README.md").read_text(encoding="utf-8"))
    (folder / "README.md").write_text(readme, encoding="utf-8", newline="\n")
    copied = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    for sentence in leaks(folder, copied):
        raise BadInputError(sentence)


def tracked_files() -> list[str]:
    """Return the paths that a release copies: those that git tracks of what is kept.

    What merely lies around stays at home: half of a split with its truth, a seed, an attempt.

    Raises:
        BadInputError: the repository is no git checkout.
    """
    found = git(ROOT, "ls-files", "-z", "--", *KEPT).split("\0")[:-1]
    if not found:
        raise BadInputError(f"{ROOT}: git tracks nothing here; a release is made from a checkout")
    return found


def git(folder: Path, *args: str) -> str:
    """Return what git says about a folder.

    Raises:
        BadInputError: there is no git, or the folder is no checkout.
    """
    try:
        run = subprocess.run(
            ["git", *args], cwd=folder, capture_output=True, encoding="utf-8", check=False
        )
    except FileNotFoundError:
        raise BadInputError("a release asks git which files are tracked; install git") from None
    if run.returncode != 0:
        raise BadInputError(
            f"{folder}: is not a git checkout that git can read ({run.stderr.strip()[:200]}); "
            "a release is made from a clone, of the files that git tracks"
        )
    return run.stdout


def put_in_place(built: Path, folder: Path) -> None:
    """Move what was built to DIR; of a clone everything but `.git` is replaced, or nothing."""
    if not folder.exists():
        built.rename(folder)
        return
    old = built.parent / "replaced"
    old.mkdir()
    moves = [(path, old / path.name) for path in folder.iterdir() if path.name != ".git"]
    moves += [(path, folder / path.name) for path in built.iterdir()]
    try:
        for source, target in moves:
            source.rename(target)
    except BaseException:
        for source, target in reversed(moves):
            if target.exists() and not source.exists():
                target.rename(source)
        raise


def prove_release(folder: Path, slugs: Sequence[str] | None = None) -> list[str]:
    """Grade the blank and the solved notebooks with the released grader, where it lies.

    All of them are graded if `slugs` names none.

    Raises:
        BadInputError: they do not earn 0 and all points; the message gives what they earned.
    """
    slugs = milestones.all_slugs() if slugs is None else slugs
    with tempfile.TemporaryDirectory() as temporary:
        # Copies: a check of the course's own notebooks writes a history beside them.
        blanks = shutil.copytree(folder / "notebooks", Path(temporary) / "blank")
        blank = _points(folder, blanks, slugs)
        for slug in slugs:
            shutil.copyfile(solved_path(slug), Path(temporary) / f"{slug}.ipynb")
        solved = _points(folder, Path(temporary), slugs)
    points = sum(milestones.load(slug).points for slug in slugs)
    bonus = sum(milestones.load(slug).bonus for slug in slugs)
    if (blank, solved) != (0, points + bonus):
        raise BadInputError(
            f"{folder}: the blank notebooks earn {blank:g} and the solved ones {solved:g} there"
        )
    for clutter in list(folder.rglob("__pycache__")):
        shutil.rmtree(clutter)
    earned = f"{points:g} and all {bonus:g} of the bonus"
    return [f"Proved there: blank notebooks earn 0 points, solved ones {earned}."]


def _points(course: Path, notebooks: Path, slugs: Sequence[str]) -> float:
    """Return all points that notebooks earn with a course's own grader, bonus points included."""
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.json"
        command = ["-m", "grader", "check", *slugs,
                   "--notebooks", str(notebooks), "--json", str(report)]  # fmt: skip
        run = subprocess.run(
            [sys.executable, *command],
            cwd=course,
            env={**os.environ, "PYTHONPATH": str(course.resolve())},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if not report.exists():
            raise BadInputError(f"{course}: its grader made no report: {run.stderr[-500:]}")
        content = json.loads(report.read_text(encoding="utf-8"))
    checks = [check for milestone in content["milestones"] for check in milestone["checks"]]
    return float(sum(check["points"] for check in checks))
