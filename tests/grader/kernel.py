"""The same notebook, asked the same calls, in a real Jupyter kernel and in a room."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.preprocessors import ExecutePreprocessor

from grader.calls import call_to_json
from grader.host import Host
from grader.limits import Limits
from grader.notebook import read_notebook
from grader.places import Places, lay_out_course
from grader.room import open_room
from grader.trouble import Trouble, problem
from grader.wire import unpack
from milestones.spec import Answer, Call
from solutions.lesson import ROOT
from tests.grader.asking import ANSWERS, CALLS

CELL_TIMEOUT_S = 600  # wall seconds for one cell of ours on a slow machine
# One line, since a notebook may have taken any name of Python's own for itself.
ASK = (
    "__import__('sys').path.append({root!r}); __import__({module!r}, fromlist=['']).ask_all({all})"
)


@dataclass(frozen=True)
class Run:
    """What one run of a notebook came to: the cells that raised, by error, and the answers."""

    raised: dict[int, str]
    answers: dict[str, Answer]


def in_room(path: Path, calls: Sequence[Call], places: Places, host: Host) -> Run:
    """Run a notebook file in a room and ask it."""
    raised: dict[int, str] = {}
    with open_room(places, Limits(), host=host) as room:
        for cell in read_notebook(path).cells:
            error = room.run_cell(cell)
            if error is not None:
                raised[cell.index] = error.partition(":")[0]
        return Run(raised, {call.id: room.ask(call) for call in calls})


def in_kernel(path: Path, calls: Sequence[Call], places: Places, folder: Path) -> Run:
    """Run a notebook file in a Jupyter kernel, in a work folder below `folder`, and ask it."""
    work = folder / "course" / "notebooks"
    work.mkdir(parents=True)
    lay_out_course(places, work.parent)
    (folder / CALLS).write_text(json.dumps([call_to_json(call) for call in calls]))
    notebook = nbformat.read(path, as_version=4)
    own = len(notebook.cells)
    where = [str(folder), str(places.data.resolve()), str(places.questions.resolve())]
    arguments = ", ".join(["globals()", *map(repr, where)])
    asking = ASK.format(root=str(ROOT), module="tests.grader.asking", all=arguments)
    notebook.cells.append(nbformat.v4.new_code_cell(asking))
    raised: dict[int, str] = {}

    def note(cell_index: int, execute_reply: Mapping[str, Any], **_: object) -> None:
        raised[cell_index] = execute_reply["content"]["ename"]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kernel client's own libraries
        ExecutePreprocessor(
            timeout=CELL_TIMEOUT_S, allow_errors=True, on_cell_error=note
        ).preprocess(notebook, {"metadata": {"path": str(work)}})
    assert own not in raised, notebook.cells[own].outputs
    found = json.loads((folder / ANSWERS).read_text(encoding="utf-8"))
    return Run(raised, {call.id: _answer(call, found[call.id]) for call in calls})


def _answer(call: Call, found: dict[str, str]) -> Answer:
    if "trouble" in found:
        return Answer(call, problem=problem(call, Trouble(*found["trouble"])))
    return Answer(call, unpack(found["form"], base64.b64decode(found["bytes"])))
