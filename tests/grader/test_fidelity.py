"""A notebook answers in a room what it answers in a real Jupyter kernel, and raises where it does.

Where the two rightly differ, that is written down here as data, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat
import numpy as np
import pytest

import milestones
from grader.host import Host
from grader.places import Places
from grader.split import Split, open_split
from milestones.spec import Answer
from solutions.render import solved_path
from tests.few_trees import fit_few_trees
from tests.grader.fuzz import LONG, RUN_IN_THE_SUITE, in_the_suite
from tests.grader.kernel import Run, in_kernel, in_room
from tests.grader.odd import read_odd

# The odd notebooks where a kernel could plausibly be something else than a room; the others
# differ in what their functions do, which is Python's affair in both.
PLAUSIBLE = (
    "asks_the_reader",
    "asyncio_nested",
    "asyncio_run",
    "autoreload",
    "background_thread",
    "bash_cell",
    "breakpoint_left_in",
    "changes_directory",
    "deletes_names",
    "endless_recursion",
    "errors_caught_by_magics",
    "exceptions_of_its_own",
    "fifty_figures",
    "figures_end_with_their_cell",
    "folder_beside_notebooks",
    "future_import",
    "futures",
    "help_and_history",
    "home_folder",
    "is_it_main",
    "joblib_processes",
    "leaves_early",
    "local_server",
    "logs",
    "matplotlib_widget",
    "module_reads_beside_itself",
    "numpy_raises",
    "other_start_methods",
    "pip_no_network",
    "prints_100_mb",
    "process_pools",
    "redefines_builtins",
    "rich_display",
    "runs_python",
    "says_exit",
    "shell_commands",
    "signals",
    "star_imports",
    "stored_variables",
    "streams_replaced",
    "syntax_error",
    "tasks_across_cells",
    "time_magics",
    "top_level_await",
    "tqdm_bars",
    "warnings_are_errors",
    "widgets",
    "working_folder_removed",
    "writes_above_itself",
    "writes_beside_itself",
    "writes_to_descriptors",
)


@dataclass(frozen=True)
class Difference:
    """Where a kernel rightly does something else than a room, and why.

    `raised` are the cells that raise in the kernel, `problem` is what the kernel says to the calls
    that the room can answer; each is None where there is no difference.
    """

    why: str
    raised: Mapping[int, str] | None = None
    problem: str | None = None


DIFFERENCES = {
    "asks_the_reader": Difference(
        "nobody answers: standard input of a room is at its end, and a kernel whose front end "
        "takes no input says so by an error of its own",
        raised={1: "StdinNotImplementedError", 2: "StdinNotImplementedError"},
    ),
    "asyncio_run": Difference(
        "a kernel answers from within its event loop, where asyncio.run refuses to start another; "
        "a room asks its questions while no loop runs, so the function is right there",
        problem="`kv_bytes_per_token` raised RuntimeError on a question",
    ),
    "exceptions_of_its_own": Difference(
        "a kernel counts a value that fails to print itself as an error without a name; for a "
        "room the cell has done its work",
        raised={1: "ExceptionGroup", 2: "RuntimeError", 3: "BaseException", 4: "NoneType"},
    ),
    "writes_above_itself": Difference(
        "a kernel runs with its owner's rights; a room keeps the course's data as they are, so "
        "that every cell and every question meets the data that are graded",
        raised={},
    ),
}
assert DIFFERENCES.keys() <= set(PLAUSIBLE)


@pytest.fixture
def quiet_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a kernel a home folder of its own, and a room's number of threads.

    With more threads a sum of floats may come out in another order, which is no affair of
    notebooks; two fits side by side spin against each other.
    """
    home = tmp_path / "home"
    home.mkdir()
    for name, value in {
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "OMP_THREAD_LIMIT": "1",
        "OMP_WAIT_POLICY": "passive",
        "OPENBLAS_NUM_THREADS": "1",
    }.items():
        monkeypatch.setenv(name, value)


def assert_same_answer(room: Answer, kernel: Answer) -> None:
    assert room.problem == kernel.problem
    if isinstance(kernel.value, np.ndarray):
        np.testing.assert_allclose(room.value, kernel.value, rtol=1e-12, atol=0.0, strict=True)
    else:
        assert (type(room.value), room.value) == (type(kernel.value), kernel.value)


def run_both(path: Path, slug: str, split: Split, data: Path, host: Host) -> tuple[Run, Run]:
    calls = milestones.load(slug).calls(split.questions)
    places = Places(data, split.folder / "questions")
    room = in_room(path, calls, places, host)
    kernel = in_kernel(path, calls, places, path.parent / "kernel")
    assert room.answers.keys() == kernel.answers.keys() == {call.id for call in calls}
    return room, kernel


@pytest.mark.usefixtures("quiet_home")
@pytest.mark.parametrize("slug", RUN_IN_THE_SUITE)
def test_a_solved_notebook_answers_in_a_room_as_in_a_jupyter_kernel(
    slug: str, course: Path, walled: Host, tmp_path: Path
) -> None:
    notebook = nbformat.read(solved_path(slug), as_version=4)
    if not LONG:
        fit_few_trees(notebook)
    path = tmp_path / f"{slug}.ipynb"
    nbformat.write(notebook, path)
    split = open_split(course / "data" / "public_split")
    room, kernel = run_both(path, slug, split, course / "data", walled)
    assert (room.raised, kernel.raised) == ({}, {})
    for call_id, answer in kernel.answers.items():
        assert answer.problem is None
        assert_same_answer(room.answers[call_id], answer)


@pytest.mark.usefixtures("quiet_home")
@pytest.mark.parametrize("name", in_the_suite(PLAUSIBLE, one_in=5))
def test_an_odd_notebook_answers_and_raises_in_a_room_as_in_a_jupyter_kernel(
    name: str, course: Path, m2_split: Split, walled: Host, tmp_path: Path
) -> None:
    path = read_odd(name).write(tmp_path)
    room, kernel = run_both(path, "m2_kv_bytes", m2_split, course / "data", walled)
    differs = DIFFERENCES.get(name, Difference(""))
    assert kernel.raised == (room.raised if differs.raised is None else differs.raised)
    for call_id, answer in kernel.answers.items():
        if differs.problem and room.answers[call_id].problem is None:
            assert answer.problem is not None
            assert answer.problem.summary == differs.problem
        else:
            assert_same_answer(room.answers[call_id], answer)
