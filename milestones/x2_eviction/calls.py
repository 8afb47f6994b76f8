"""The calls of lab x2: which entries to keep, one step of attention, and sequences decoded.

Models, scores and vectors travel as a `Tree`: float64 arrays, a fresh copy for each call. The
models are small drawn ones, so that no answer depends on the weights of the language model.
"""

from typing import Any

from milestones.spec import Call, Files, Tree
from milestones.understanding import understanding_calls

FOLDER = "questions/x2_eviction"
ATTEND = ("q", "keys", "values", "positions")
DECODED = ("whole", "streamed", "hitters", "gone")
"""The topics whose sequences are decoded."""


def calls(questions: Files) -> list[Call]:
    """Return the calls, in order, from the split's questions."""
    asked = questions.json("x2_eviction/questions.json")
    found = [
        Call(f"recent/{i}", "sinks_and_recent", args, returns="array")
        for i, args in enumerate(asked["recent"])
    ]
    found += [
        Call(f"attend/{name}", "attend", _step(name, case), returns="array_and_kept")
        for name, case in asked["attend"].items()
    ]
    for topic, function, array in (
        ("received", "attention_received", "weights"),
        ("heavy", "heavy_and_recent", "scores"),
    ):
        for name, other in asked[topic].items():
            args = {array: Tree(f"{FOLDER}/{topic}.json", (name,)), **other}
            found.append(Call(f"{topic}/{name}", function, args, returns="array"))
    found += [
        Call(f"{topic}/{name}", "decode", _decode(case), returns="array_and_kept")
        for topic in DECODED
        for name, case in asked[topic].items()
    ]
    return found + understanding_calls("x2_eviction", questions)


def _step(name: str, case: dict[str, Any]) -> dict[str, Any]:
    arrays = {array: Tree(f"{FOLDER}/attend.json", (name, array)) for array in ATTEND}
    return {**arrays, **case}


def _decode(case: dict[str, Any]) -> dict[str, Any]:
    other = {name: value for name, value in case.items() if name != "model"}
    return {"lm": Tree(f"{FOLDER}/models.json", (case["model"],)), **other}
