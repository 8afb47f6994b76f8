"""The calls of lab x1: numbers through each format, bytes, and the small model's own cache.

Arrays travel as a `Tree`, so they are float64 and every call has a copy of its own. Codes and
tokens travel as plain JSON, so they stay whole numbers.
"""

from typing import Any

from milestones.spec import Call, Files, Result, Tree
from milestones.understanding import understanding_calls

ARRAYS = "questions/x1_quantized_cache/arrays.json"


def calls(questions: Files) -> list[Call]:
    """Return the calls, in order, from the split's questions."""
    asked = questions.json("x1_quantized_cache/questions.json")
    texts = asked["texts"]
    found = []
    for name, args in asked["ints"].items():
        codes = Call(f"ints/{name}", "to_int", _with_x("ints", name, args), "array_and_kept")
        back = {"codes": Result(codes.id, item=0), "scale": Result(codes.id, item=1)}
        found += [codes, Call(f"back/{name}", "from_int", back, "array")]
    for kind, codes_of_kind in asked["codes"].items():
        args = {"codes": codes_of_kind, "kind": kind}
        decoded = Call(f"decoded/{kind}", "from_fp8", args, "array")
        again = {"x": Result(decoded.id), "kind": kind}
        found += [decoded, Call(f"again/{kind}", "to_fp8", again, "array")]
    found += [
        Call(f"{topic}/{kind}", "to_fp8", _with_x(topic, f"values_{kind}", {"kind": kind}), "array")
        for topic in ("rounded", "edges")
        for kind in asked["codes"]
    ]
    for topic, function in (("groups", "through_groups"), ("profiles", "profile")):
        found += [
            Call(f"{topic}/{name}", function, _with_x(topic, name, args), "array")
            for name, args in asked[topic].items()
        ]
    found += [
        Call(f"seen/{name}", "as_seen", _with_x("seen", "x", {"scheme": scheme}), "array")
        for name, scheme in asked["seen"].items()
    ]
    found += [Call(f"bytes/{i}", "cache_bytes", args) for i, args in enumerate(asked["bytes"])]
    found += [
        Call(f"perplexity/{name}", "perplexity", {"pieces": texts, **schemes})
        for name, schemes in asked["perplexity"].items()
    ]
    found += [
        Call(f"model/{i}", "profile_lm", args, "array") for i, args in enumerate(asked["model"])
    ]
    return found + understanding_calls("x1_quantized_cache", questions)


def _with_x(topic: str, name: str, args: dict[str, Any]) -> dict[str, Any]:
    return {"x": Tree(ARRAYS, (topic, name)), **args}
