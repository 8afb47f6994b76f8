"""Asks a live notebook every call, in the notebook's own process: run in a Jupyter kernel."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grader.ask import Desk
from grader.calls import call_from_json
from grader.places import Places
from grader.trouble import Trouble

CALLS, ANSWERS = "calls.json", "answers.json"


def ask_all(namespace: Mapping[str, Any], folder: str, data: str, questions: str) -> None:
    """Put the calls of `folder` to the namespace and write what comes back beside them."""
    calls = json.loads((Path(folder) / CALLS).read_text(encoding="utf-8"))
    desk = Desk(Places(Path(data), Path(questions)))
    found: dict[str, dict[str, Any]] = {}
    for call in map(call_from_json, calls):
        answer = desk.ask(namespace, call)
        if isinstance(answer, Trouble):
            found[call.id] = {"trouble": [answer.kind, answer.error, answer.detail]}
        else:
            form, packed = answer
            found[call.id] = {"form": form, "bytes": base64.b64encode(packed).decode()}
    (Path(folder) / ANSWERS).write_text(json.dumps(found), encoding="utf-8")
