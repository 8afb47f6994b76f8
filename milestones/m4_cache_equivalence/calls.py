"""The calls of milestone 4: whole sequences, and chains of decode steps that pass a cache on.

A model travels as a `Tree`, so its weights become float64 arrays and every call has a copy of its
own. Tokens travel as plain JSON, so they stay a list of ints, good for indexing.
"""

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any

from milestones.spec import Call, Files, Result, Tree
from milestones.understanding import understanding_calls

MODELS = "questions/m4_cache_equivalence/models.json"
WHOLE = ("whole", "order", "large", "grouped")
"""The topics that ask `full_logits`; `large` and `grouped` also decode."""
CHAINS = ("large", "grouped", "steps", "swapped")
"""The topics whose sequences are decoded one after the other."""


def calls(questions: Files) -> list[Call]:
    """Return the calls, in order, from the split's questions."""
    asked = questions.json("m4_cache_equivalence/questions.json")
    found = [
        Call(f"{topic}/{name}/all", "full_logits", _whole(case), returns="array")
        for topic in WHOLE
        for name, case in asked[topic].items()
    ]
    for topic in CHAINS:
        for name, case in asked[topic].items():
            found += _decode(f"{topic}/{name}", case)
    found += _apart(asked["apart"])
    found += [
        Call(f"counts/{i}", "count_key_projections", args) for i, args in enumerate(asked["counts"])
    ]
    return found + understanding_calls("m4_cache_equivalence", questions)


def _model(name: str) -> Tree:
    return Tree(MODELS, (name,))


def _whole(case: dict[str, Any]) -> dict[str, Any]:
    return {"params": _model(case["models"][0]), "tokens": case["tokens"]}


def _decode(prefix: str, case: dict[str, Any]) -> list[Call]:
    """Return the calls of one chain: a new cache, then one step a token.

    `case["models"]` names the parameters of each step: they may change on the way.
    """
    cache = Call(f"{prefix}/new", "new_cache", {"params": _model(case["models"][0])}, "kept")
    made = [cache]
    passed_on = Result(cache.id)
    for t, (model, token) in enumerate(zip(case["models"], case["tokens"], strict=True)):
        args = {"params": _model(model), "cache": passed_on, "token": token}
        made.append(Call(f"{prefix}/{t}", "decode_step", args, "array_and_kept"))
        passed_on = Result(made[-1].id, item=1)
    return made


def _apart(cases: Sequence[dict[str, Any]]) -> list[Call]:
    """Return two chains decoded in turn, then a third that starts when they have ended."""
    first, second, third = (_decode(f"apart/{i}", case) for i, case in enumerate(cases))
    in_turn = chain.from_iterable(zip_longest(first, second))
    return [call for call in in_turn if call is not None] + third
