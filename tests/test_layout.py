"""One folder per trust level, imports run one way, and the student's part works on its own."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import milestones

ORDER = ("milestones", "grader", "solutions", "tests")  # each may import those before it
ALLOWED_IN_MILESTONES = {"numpy", "pandas", "milestones"}


def imported(path: Path) -> Iterator[str]:
    """Yield the top-level name of every import in a file, wherever it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides where it points"
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("tree", ORDER)
def test_imports_run_one_way(tree: str, course: Path) -> None:
    later = set(ORDER[ORDER.index(tree) + 1 :])
    for path in (course / tree).rglob("*.py"):
        assert not later & set(imported(path)), f"{path} imports a tree it must not know"


def test_milestones_import_numpy_and_pandas_at_most(course: Path) -> None:
    for path in (course / "milestones").rglob("*.py"):
        beyond = set(imported(path)) - sys.stdlib_module_names - ALLOWED_IN_MILESTONES
        assert not beyond, f"{path} imports {beyond}"


def test_data_and_notebooks_hold_no_code(course: Path) -> None:
    for tree in ("data", "notebooks"):
        assert not list((course / tree).rglob("*.py"))


def test_the_grader_knows_no_milestone_by_name_but_serve(course: Path) -> None:
    names = re.compile("|".join((*milestones.all_slugs(), r"\b[mx][1-7]\b")))
    knowing = {
        path.name for path in (course / "grader").glob("*.py") if names.search(path.read_text())
    }
    assert knowing <= {"cli.py"}
    text = (course / "grader" / "cli.py").read_text()
    assert set(names.findall(text)) <= {"m7"}  # in the help of `grader serve`
    slugs = re.compile("|".join(milestones.all_slugs()))
    for path in (course / "grader").rglob("*.py"):
        if path.parent.name != "serve":
            assert not slugs.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_a_milestone_is_the_same_name_in_every_tree(slug: str, course: Path) -> None:
    for path in (
        f"milestones/{slug}/__init__.py",
        f"milestones/{slug}/handout.md",
        f"milestones/{slug}/blank.ipynb",
        f"notebooks/{slug}.ipynb",
        f"solutions/{slug}/lesson.py",
        f"solutions/{slug}/oracle.py",
        f"solutions/{slug}/mistakes.py",
        f"solutions/solved/{slug}.ipynb",
    ):
        assert (course / path).is_file(), path
    assert milestones.load(slug).slug == slug


@pytest.mark.parametrize(("name", "slug"), [("5", 4), ("m5", 4), ("M5", 4), ("m5_roofline", 4)])
def test_a_milestone_answers_to_its_number_its_short_name_and_its_slug(
    name: str, slug: int
) -> None:
    assert milestones.slug_of(name) == milestones.SLUGS[slug]


@pytest.mark.parametrize("name", ["0", "8", "m", "", "roofline", "m55"])
def test_any_other_name_is_refused(name: str) -> None:
    with pytest.raises(milestones.UnknownMilestoneError, match="1 to 7"):
        milestones.slug_of(name)


def test_the_course_has_a_hundred_points() -> None:
    points = [milestones.load(slug).points for slug in milestones.SLUGS]
    assert points == [10, 15, 15, 15, 15, 15, 15]


@pytest.mark.parametrize("slug", milestones.BONUS_SLUGS)
def test_a_lab_is_worth_bonus_points_alone(slug: str) -> None:
    lab = milestones.load(slug)
    assert (lab.points, lab.bonus) == (0, 5)


def test_what_is_committed_names_no_machine_and_no_registry(course: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=course, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("needs a git checkout to know what is committed")
    home = re.compile(r"(^|[^A-Za-z0-9_.])/(work|root|home/[a-z]+)/")
    hosts = re.compile("pypi[.]org|python" + "hosted|deb[.]debian|npmjs[.]")
    for name in filter(None, listed.stdout.split("\0")):
        path = course / name
        if not path.is_file() or path.suffix in (".npz", ".png"):
            continue
        text = path.read_text(encoding="utf-8")
        assert not home.search(text), f"{name} holds a path of one machine"
        assert not hosts.search(text), f"{name} names the host of a registry"
