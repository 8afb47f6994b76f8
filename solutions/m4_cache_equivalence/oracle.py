"""Draws milestone 4's questions: small random transformers, token sequences and decode chains.

Weights are drawn with the variance 1 / fan-in that keeps every sum of order 1, so that rounding
stays far below the bound of the checks, and rounded to four decimals: a file of them is short, a
person can read it, and nothing is lost on the way to the student.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from milestones.m4_cache_equivalence.calls import CHAINS, WHOLE
from solutions.draft import Draft, Source
from solutions.m4_cache_equivalence.transformer import Params, chain, first_scores

MAX_LEN = 9  # tokens a drawn model has positions for; one chain fills them all
DECIMALS = 4
MOVED = 1e-3  # what a changed token must do to some logit; the check asks for 1e-6
OVERFLOWS = 800.0  # exp overflows float64 above 709.8
VANISHES = 800.0  # and is 0 below -745.2
LARGE_SCALE = 36.0  # of queries and of keys: scores of 36 * 36, some 1,300
Case = dict[str, Any]
"""`models`, the name of the parameters of each step, and `tokens`."""


def draw(source: Source) -> Draft:
    """Draw the questions of one split and their answers."""
    rng = source.rng
    models = _models(rng)
    models["large"], large = _large(rng)
    questions: dict[str, Any] = {
        "whole": {
            "one_layer": _case(rng, models, "one_layer", MAX_LEN),
            "one_token": _case(rng, models, "multi_head", 1),
            "multi_head": _case(rng, models, "multi_head", 7),
            "multi_query": _case(rng, models, "multi_query", 5),
        },
        "order": _order(rng, models),
        "large": {"large": large},
        "grouped": {name: _case(rng, models, name, 7) for name in ("grouped", "grouped_deep")},
        "steps": {
            "one_layer": _case(rng, models, "one_layer", 5),
            "multi_head": _case(rng, models, "multi_head", MAX_LEN, repeat=True),
            "multi_query": _case(rng, models, "multi_query", 6),
        },
        "swapped": {
            "once": _case(rng, models, ["multi_head"] * 4 + ["multi_head_new"] * 3),
            "there_and_back": _case(
                rng, models, ["multi_head"] * 2 + ["multi_head_new"] * 2 + ["multi_head"] * 3
            ),
        },
        "apart": _apart(rng, models),
        "counts": _counts(rng),
    }
    topics = dict.fromkeys((*WHOLE, *CHAINS, "apart"))
    logits: dict[str, dict[str, np.ndarray]] = {topic: {} for topic in topics}
    for topic in WHOLE:
        for name, case in questions[topic].items():
            logits[topic][f"{topic}/{name}/all"] = _truth(models, case)
    for topic in CHAINS:
        for name, case in questions[topic].items():
            logits[topic] |= _rows(f"{topic}/{name}", _truth(models, case))
    for i, case in enumerate(questions["apart"]):
        logits["apart"] |= _rows(f"apart/{i}", _truth(models, case))
    counts = {f"counts/{i}": _n_keys(**asked) for i, asked in enumerate(questions["counts"])}
    return Draft(
        {
            "models.json": {name: _as_json(params) for name, params in models.items()},
            "questions.json": questions,
        },
        {f"logits/{topic}.npz": rows for topic, rows in logits.items()} | {"counts.json": counts},
    )


# ---------------------------------------------------------------- models


@dataclass(frozen=True)
class Shape:
    """The sizes of one toy transformer."""

    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    width: int
    inner: int
    vocab: int


def _shape(rng: np.random.Generator, n_layers: int, n_heads: int, n_kv_heads: int) -> Shape:
    head_dim = int(rng.integers(3, 7))
    # An even width that is not the heads side by side: head_dim is not width / n_heads.
    width = int(rng.choice([w for w in (8, 10, 12, 14) if w != n_heads * head_dim]))
    return Shape(
        n_layers,
        n_heads,
        n_kv_heads,
        head_dim,
        width,
        inner=int(rng.integers(10, 19)),
        vocab=int(rng.integers(11, 41)),
    )


def _params(rng: np.random.Generator, shape: Shape, score_scale: float = 1.0) -> Params:
    def normal(*size: int, scale: float) -> np.ndarray:
        return np.round(rng.normal(size=size) * scale, DECIMALS)

    def weight(fan_in: int, fan_out: int, scale: float = 1.0) -> np.ndarray:
        return normal(fan_in, fan_out, scale=scale * fan_in**-0.5)

    d, f = shape.width, shape.inner
    n_query, n_kv = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    return {
        "n_heads": shape.n_heads,
        "n_kv_heads": shape.n_kv_heads,
        "head_dim": shape.head_dim,
        "embedding": normal(shape.vocab, d, scale=1.0),
        "position": normal(MAX_LEN, d, scale=0.7),
        "layers": [
            {
                "w_q": weight(d, n_query, score_scale),
                "w_k": weight(d, n_kv, score_scale),
                "w_v": weight(d, n_kv),
                "w_o": weight(n_query, d),
                "w_up": weight(d, f),
                "w_down": weight(f, d),
            }
            for _ in range(shape.n_layers)
        ],
        "unembedding": weight(d, shape.vocab),
    }


def _models(rng: np.random.Generator) -> dict[str, Params]:
    n_layers = int(rng.integers(2, 4))
    n_heads = int(rng.integers(2, 4))
    multi_head = _shape(rng, n_layers, n_heads, n_heads)
    kv, group = ((2, 2), (2, 3), (3, 2))[int(rng.integers(3))]
    return {
        "one_layer": _params(rng, _shape(rng, 1, 2, 2)),
        "multi_head": _params(rng, multi_head),
        "multi_head_new": _params(rng, multi_head),
        "multi_query": _params(rng, _shape(rng, 2, int(rng.integers(3, 6)), 1)),
        "grouped": _params(rng, _shape(rng, 1, kv * group, kv)),
        "grouped_deep": _params(rng, _shape(rng, 2, 4, 2)),
    }


def _as_json(params: Params) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, np.ndarray) else value

    layers = [{name: plain(w) for name, w in layer.items()} for layer in params["layers"]]
    return {name: plain(value) for name, value in params.items()} | {"layers": layers}


# ---------------------------------------------------------------- sequences


def _case(
    rng: np.random.Generator,
    models: dict[str, Params],
    used: str | Sequence[str],
    n_tokens: int | None = None,
    repeat: bool = False,
) -> Case:
    """Draw tokens for one model, or for the models of each step; with `repeat` some come twice."""
    names = [used] * (n_tokens or 1) if isinstance(used, str) else list(used)
    vocab = len(models[names[0]]["embedding"])
    tokens = [int(token) for token in rng.permutation(vocab)[: len(names)]]
    if repeat:
        tokens[3] = tokens[2]
        tokens[-1] = tokens[0]
    return {"models": names, "tokens": tokens}


def _truth(models: dict[str, Params], case: Case) -> np.ndarray:
    return chain(
        [(models[name], token) for name, token in zip(case["models"], case["tokens"], strict=True)]
    )


def _rows(prefix: str, logits: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{prefix}/{t}": row for t, row in enumerate(logits)}


def _order(rng: np.random.Generator, models: dict[str, Params]) -> dict[str, Case]:
    """Draw one sequence, its beginning, and the sequence with one end or the other changed."""
    while True:
        case = _case(rng, models, "multi_head", 8)
        *tokens, other = case["tokens"]
        names = case["models"][:-1]
        cases = {
            "whole": {"models": names, "tokens": tokens},
            "start": {"models": names[:4], "tokens": tokens[:4]},
            "new_last": {"models": names, "tokens": [*tokens[:-1], other]},
            "new_first": {"models": names, "tokens": [other, *tokens[1:]]},
        }
        last = {name: _truth(models, each)[-1] for name, each in cases.items()}
        if all(
            np.abs(last["whole"] - last[name]).max() > MOVED for name in ("new_last", "new_first")
        ):
            return cases


def _large(rng: np.random.Generator) -> tuple[Params, Case]:
    """Draw a model and tokens whose scores overflow, and vanish beside the largest of another row.

    Each of three wrong softmaxes must give another answer: without a maximum (a row has a score
    whose exp overflows), with scores cut off at what exp can bear (a row has two of those, not
    alike), and with one maximum for all rows of a head (a row lies out of sight below it).
    """
    while True:
        # One layer: a second would magnify the rounding of these scores, and tell no more.
        params = _params(rng, _shape(rng, 1, 3, 3), LARGE_SCALE)
        case = _case(rng, {"large": params}, "large", 8)
        scores = first_scores(params, case["tokens"])
        two_overflow = np.partition(scores, -2, axis=-1)[..., -2] > OVERFLOWS
        row_max = scores.max(axis=-1)
        out_of_sight = row_max < row_max.max(axis=-1, keepdims=True) - VANISHES
        if two_overflow.any() and out_of_sight.any():
            return params, case


def _apart(rng: np.random.Generator, models: dict[str, Params]) -> list[Case]:
    """Draw two sequences to decode in turn; the first comes again when both have ended."""
    first = _case(rng, models, "multi_head", 5)
    second = _case(rng, models, "multi_head", 4)
    return [first, second, {"models": first["models"][:3], "tokens": first["tokens"][:3]}]


# ---------------------------------------------------------------- counts


def _counts(rng: np.random.Generator) -> list[dict[str, Any]]:
    lengths = [16, 1, int(rng.integers(17, 100)), int(rng.integers(1_000, 10_000))]
    return [{"n_tokens": n, "use_cache": use_cache} for n in lengths for use_cache in (True, False)]


def _n_keys(n_tokens: int, use_cache: bool) -> int:
    """Count key projections of one layer: step by step, each step's new or all of its tokens."""
    return sum(1 if use_cache else t for t in range(1, n_tokens + 1))
