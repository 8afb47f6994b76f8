"""`%check` in a real Jupyter kernel, by nbconvert and by hand, and inside a graded run."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbconvert.preprocessors import ExecutePreprocessor

from grader.host import Host
from grader.limits import Limits
from grader.notebook import Cell
from grader.places import Places
from grader.room import open_room

RIGHT = (
    "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n"
    "    return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8"
)
PATIENCE_S = 120  # for a kernel on a busy machine; no test waits that long unless it fails


@pytest.fixture
def quiet_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, course: Path) -> Path:
    """A home and a working folder of its own, and this very grader on the path."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONPATH", str(course))
    for name in ("JPY_SESSION_NAME", "KV_CAPACITY_GRADED_RUN"):
        monkeypatch.delenv(name, raising=False)
    work = tmp_path / "notebooks"
    work.mkdir()
    return work


def executed(work: Path, *cells: str, name: str = "m2_kv_bytes") -> list[Any]:
    """Save a notebook, run it as nbconvert does, and return the outputs of each cell."""
    made = [nbformat.v4.new_code_cell(cell, id=f"cell-{i}") for i, cell in enumerate(cells)]
    notebook = nbformat.v4.new_notebook(cells=made)
    (work / f"{name}.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kernel client's own libraries
        ExecutePreprocessor(timeout=PATIENCE_S).preprocess(
            notebook, {"metadata": {"path": str(work)}}
        )
    return [cell.outputs for cell in notebook.cells]


def test_check_in_a_notebook_run_by_nbconvert_shows_html_and_text(quiet_home: Path) -> None:
    outputs = executed(quiet_home, "%load_ext grader", RIGHT, "%check", "after = 1")
    assert outputs[0] == []
    (shown,) = outputs[2]
    assert shown.output_type == "display_data"
    assert set(shown.data) == {"text/html", "text/plain"}
    assert "4 of 15 points" in shown.data["text/plain"]
    assert "<script" not in shown.data["text/html"]
    # the file beside it was found, and agrees
    for said in ("saved notebook differ", "could not be found"):
        assert said not in " ".join(shown.data["text/plain"].split())


def test_the_function_check_does_what_the_magic_does(quiet_home: Path) -> None:
    outputs = executed(quiet_home, RIGHT, "from grader import check\ncheck(2)", name="any")
    (shown,) = outputs[1]
    assert "4 of 15 points" in shown.data["text/plain"]


def test_a_clean_run_takes_the_place_of_the_first_display(quiet_home: Path) -> None:
    outputs = executed(quiet_home, "%load_ext grader", RIGHT, "hidden = 2", "%check --fresh")
    (shown,) = outputs[3]
    text = " ".join(shown.data["text/plain"].split())
    assert "From a fresh kernel (m2_kv_bytes.ipynb as it is saved): 4 of 15 points" in text
    assert "Every check ends there as it does here." in text


def test_bad_usage_is_told_in_a_sentence(quiet_home: Path) -> None:
    outputs = executed(quiet_home, "%load_ext grader", "%check 9", "%check --frob", "%check 2 3")
    assert "there is no milestone" in outputs[1][0].data["text/plain"]
    for (said,) in outputs[2:]:
        assert "unrecognized arguments" in said.data["text/plain"]
        assert "type `%check`, `%check 2`" in said.data["text/plain"]


class Kernel:
    """A kernel that is talked to by hand."""

    def __init__(self, work: Path) -> None:
        self.manager: Any = KernelManager()
        self.manager.start_kernel(cwd=str(work), env=dict(os.environ))
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE_S)

    def start(self, code: str) -> str:
        return str(self.client.execute(code))

    def finish(self, started: str) -> tuple[str, dict[str, Any]]:
        """Return all that a cell printed or displayed as text, and its reply."""
        said = []
        while True:
            message = self.client.get_iopub_msg(timeout=PATIENCE_S)
            if message["parent_header"].get("msg_id") != started:
                continue
            content = message["content"]
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                break
            said.append(content.get("text") or content.get("data", {}).get("text/plain", ""))
        while (reply := self.client.get_shell_msg(timeout=PATIENCE_S))["parent_header"][
            "msg_id"
        ] != started:
            pass
        return "".join(said), reply["content"]

    def run(self, code: str) -> str:
        said, reply = self.finish(self.start(code))
        assert reply["status"] == "ok", reply
        return said


@pytest.fixture
def kernel(quiet_home: Path) -> Iterator[Kernel]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = Kernel(quiet_home)
        yield found
        found.client.stop_channels()
        found.manager.shutdown_kernel(now=True)


def test_an_endless_call_is_stopped_by_the_stop_button(kernel: Kernel, tmp_path: Path) -> None:
    marker = tmp_path / "asked"
    kernel.run("%load_ext grader")
    kernel.run(
        "LOG = []\n"
        "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n"
        "    LOG.append(n_layers)\n"
        f"    open({str(marker)!r}, 'w').close()\n"
        "    while True:\n"
        "        pass"
    )
    started = kernel.start("%check 2")
    deadline = time.monotonic() + PATIENCE_S
    while not marker.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    kernel.manager.interrupt_kernel()
    said, reply = kernel.finish(started)
    assert reply["status"] == "ok"
    assert "stopped while `kv_bytes_per_token` was being asked" in " ".join(said.split())
    assert "Traceback" not in said
    assert kernel.run("print(LOG)") == "[]\n"
    kernel.run(RIGHT)
    assert "4 of 15 points" in kernel.run("%check 2")


def test_the_answer_of_a_check_is_no_variable_and_its_cell_raises_nothing(kernel: Kernel) -> None:
    kernel.run("%load_ext grader")
    before = kernel.run("print(sorted(globals()))")
    kernel.run("%check 2")
    after = kernel.run("print(sorted(globals()))")
    grown = set(after.split("'")) - set(before.split("'"))
    assert all(name.startswith("_i") or name in (", ", "[", "]\n") for name in grown)
    with pytest.raises(queue.Empty):
        kernel.client.get_stdin_msg(timeout=0)


# ---------------------------------------------------------------- inside the graded run


@pytest.mark.parametrize(
    "cells",
    [
        ("%load_ext grader", "%check", "%check 2 --fresh"),
        ("from grader import check", "check()", "check(2, fresh=True)"),
        ("%reload_ext grader", "%check nonsense"),
    ],
)
def test_inside_a_room_it_quietly_does_nothing(
    cells: tuple[str, ...], host: Host, course: Path
) -> None:
    places = Places(course / "data", course / "data" / "public_split" / "questions")
    with open_room(places, Limits(), host=host) as room:
        for index, cell in enumerate(cells):
            assert room.run_cell(Cell(index, cell)) is None
        shown = (
            "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as said:\n"
            f"    get_ipython().run_cell({cells[-1]!r})\n"
            "assert said.getvalue().startswith('%check: not inside the graded run'), said"
        )
        assert room.run_cell(Cell(9, shown)) is None
        assert (
            room.run_cell(Cell(10, "import sys\nassert 'grader.live' not in sys.modules")) is None
        )


def test_loading_it_costs_a_class_nothing() -> None:
    code = (
        "import sys, grader\n"
        "heavy = {'numpy', 'IPython', 'milestones', 'rich', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-S", "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_outside_a_notebook_the_function_says_what_to_use_instead() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "from grader import check; check(2)"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "outside one use the command `grader check`" in run.stdout
