"""What the tests share: a small split, and notebooks made of a few cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest

from grader.cold import COLD
from grader.errors import BadInputError
from grader.host import Host
from grader.hosts import walled_host
from grader.split import Split, open_split
from solutions.exam import write_manifest, write_questions
from solutions.lesson import ROOT
from solutions.proof import prove

SEED = (7).to_bytes(32, "big")

WriteNotebook = Callable[..., Path]


@pytest.fixture(scope="session")
def course() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def walled() -> Iterator[Host]:
    """Rooms with an operating-system boundary, forked from one warm process."""
    try:
        with walled_host() as found:
            yield found
    except BadInputError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["cold", "walled"])
def host(request: pytest.FixtureRequest) -> Host:
    """Every way there is to start a room, in turn."""
    found: Host = COLD if request.param == "cold" else request.getfixturevalue("walled")
    return found


@pytest.fixture
def any_host(request: pytest.FixtureRequest) -> Host:
    """The quickest way to start a room here, for what does not hang on the way."""
    try:
        found: Host = request.getfixturevalue("walled")
    except pytest.skip.Exception:
        return COLD
    return found


def _m2_split(folder: Path, kind: str) -> Split:
    write_questions(folder, SEED, 0, slugs=("m2_kv_bytes",))
    assert prove("m2_kv_bytes", folder).faults == ()
    write_manifest(folder, kind, SEED, 0)
    return open_split(folder)


@pytest.fixture(scope="session")
def m2_split(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A split of milestone 2 alone, that reports as the public one does."""
    return _m2_split(tmp_path_factory.mktemp("public") / "split", "public")


@pytest.fixture(scope="session")
def m2_hidden(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A split of milestone 2 alone, that reports as a hidden one does."""
    return _m2_split(tmp_path_factory.mktemp("hidden") / "split", "hidden")


@pytest.fixture
def write_notebook(tmp_path: Path) -> WriteNotebook:
    """Write a notebook of code cells and return its path."""

    def write(*cells: str, name: str = "m2_kv_bytes") -> Path:
        notebook = nbformat.v4.new_notebook(
            cells=[
                nbformat.v4.new_code_cell(source, id=f"cell-{i}") for i, source in enumerate(cells)
            ]
        )
        path = tmp_path / f"{name}.ipynb"
        path.write_text(nbformat.writes(notebook), encoding="utf-8")
        return path

    return write
