"""The calls of lab x3: counts, single layers, caches that travel back, and whole models.

Models, vectors and caches travel as a `Tree`, so they are float64 arrays and every call has copies
of its own. A cache is a plain array, so what the student's code put into it can be looked at, and
one that nobody's code has made can be put to it.
"""

from __future__ import annotations

from typing import Any

from milestones.spec import Call, Files, Result, Tree
from milestones.understanding import understanding_calls

SLUG = "x3_latent_attention"
MODELS = f"questions/{SLUG}/models.json"
LAYERS = f"questions/{SLUG}/layers.json"
CASES = f"questions/{SLUG}/cases.json"
ASKED = f"{SLUG}/asked.json"


def calls(questions: Files) -> list[Call]:
    """Return the calls, in order, from the split's questions."""
    asked = questions.json(ASKED)
    found = _counted("values", "kv_values_per_token", asked["values"])
    found += [
        Call(
            f"rope/{name}",
            "rope",
            {part: _case("rope", name, part) for part in ("x", "positions")},
            "array",
        )
        for name in asked["rope"]
    ]
    found += [
        Call(
            f"whole/{name}",
            "attention_unabsorbed",
            {"layer": _layer(model), "x": _case("whole", name)},
            "array",
        )
        for name, model in asked["whole"].items()
    ]
    for name, case in asked["cache"].items():
        found += _extended(name, case)
    for topic in ("absorbed", "huge"):
        for name, model in asked[topic].items():
            args = {"layer": _layer(model)}
            args |= {part: _case(topic, name, part) for part in ("cache", "x_t")}
            found.append(Call(f"{topic}/{name}", "absorbed_attention", args, "array"))
    for name, case in asked["logits"].items():
        args = {"params": _model(case["models"][0]), "tokens": case["tokens"]}
        found.append(Call(f"logits/{name}/all", "full_logits", args, "array"))
        found += _decoded(f"logits/{name}", case)
    for name, case in asked["swapped"].items():
        found += _decoded(f"swapped/{name}", case)
    found += [
        Call(
            f"between/{i}",
            "score_matrix",
            {"layer": _layer(case["model"]), "head": case["head"], "distance": case["distance"]},
            "array",
        )
        for i, case in enumerate(asked["between"])
    ]
    found += _counted("work", "multiplications", asked["work"])
    return found + understanding_calls(SLUG, questions)


def _counted(topic: str, function: str, asked: list[dict[str, Any]]) -> list[Call]:
    return [Call(f"{topic}/{i}", function, args) for i, args in enumerate(asked)]


def _model(name: str) -> Tree:
    return Tree(MODELS, (name,))


def _layer(name: str) -> Tree:
    return Tree(LAYERS, (name,))


def _case(*pick: str) -> Tree:
    return Tree(CASES, pick)


def _extended(name: str, case: dict[str, Any]) -> list[Call]:
    """Return the calls of one cache: new, then longer by a token each, all of them looked at."""
    new = Call(f"cache/{name}/new", "new_latent_cache", {"params": _model(case["model"])}, "array")
    made = [new]
    passed_on = Result(new.id, item=0)  # the first layer's
    for t in range(case["n_tokens"]):
        args = {
            "layer": _layer(case["model"]),
            "cache": passed_on,
            "x_t": _case("cache", name, f"x_{t}"),
        }
        made.append(Call(f"cache/{name}/{t}", "extend_cache", args, "array"))
        passed_on = Result(made[-1].id)
    return made


def _decoded(prefix: str, case: dict[str, Any]) -> list[Call]:
    """Return the calls of one sequence: new caches, then one step a token.

    `case["models"]` names the parameters of each step: they may change on the way.
    """
    new = Call(f"{prefix}/new", "new_latent_cache", {"params": _model(case["models"][0])}, "kept")
    made = [new]
    passed_on = Result(new.id)
    for t, (model, token) in enumerate(zip(case["models"], case["tokens"], strict=True)):
        args = {"params": _model(model), "caches": passed_on, "token": token}
        made.append(Call(f"{prefix}/{t}", "decode_step", args, "array_and_kept"))
        passed_on = Result(made[-1].id, item=1)
    return made
