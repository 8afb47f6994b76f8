"""A notebook answers in a room what it answers in a real Jupyter kernel."""

from __future__ import annotations

import base64
import json
import warnings
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbconvert.preprocessors import ExecutePreprocessor

import milestones
from grader.calls import call_to_json
from grader.notebook import read_notebook
from grader.places import Places
from grader.room import Limits, open_room
from grader.split import open_split
from grader.wire import unpack
from solutions.render import solved_path

ASK = """
import base64, json
from pathlib import Path
from grader.ask import Desk
from grader.calls import call_from_json
from grader.places import Places

desk, found = Desk(Places(Path({data!r}), Path({questions!r}))), {{}}
for call in map(call_from_json, json.loads(Path({calls!r}).read_text())):
    form, packed = desk.ask(globals(), call)
    found[call.id] = form, base64.b64encode(packed).decode()
Path({answers!r}).write_text(json.dumps(found))
"""


@pytest.mark.parametrize("slug", ["m2_kv_bytes", "m4_cache_equivalence"])
def test_a_room_and_a_jupyter_kernel_give_the_same_answers(
    slug: str, course: Path, tmp_path: Path
) -> None:
    split = open_split(course / "data" / "public_split")
    calls = milestones.load(slug).calls(split.questions)
    notebook = read_notebook(solved_path(slug))

    places = Places(course / "data", split.folder / "questions")
    with open_room(places, Limits()) as room:
        assert [room.run_cell(cell) for cell in notebook.cells] == [None] * len(notebook.cells)
        in_room = {call.id: room.ask(call) for call in calls}

    (tmp_path / "calls.json").write_text(json.dumps([call_to_json(call) for call in calls]))
    asking = ASK.format(
        data=str(places.data),
        questions=str(places.questions),
        calls=str(tmp_path / "calls.json"),
        answers=str(tmp_path / "answers.json"),
    )
    whole = nbformat.read(solved_path(slug), as_version=4)
    whole.cells.append(nbformat.v4.new_code_cell(asking))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the kernel client's own libraries
        ExecutePreprocessor(timeout=600).preprocess(
            whole, {"metadata": {"path": str(course / "notebooks")}}
        )
    in_kernel = json.loads((tmp_path / "answers.json").read_text())

    assert in_kernel.keys() == in_room.keys()
    for call_id, (form, packed) in in_kernel.items():
        answer = in_room[call_id]
        assert answer.problem is None
        expected = unpack(form, base64.b64decode(packed))
        if isinstance(expected, np.ndarray):
            # the kernel may use more threads, so a product may be summed in another order
            np.testing.assert_allclose(answer.value, expected, rtol=1e-9, atol=1e-12)
        else:
            assert answer.value == expected
