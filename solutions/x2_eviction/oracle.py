"""Draws lab x2's questions: tables to choose from, single steps, and sequences to decode.

The models are small random ones with RoPE and grouped heads, in float64: an answer is then exact
to rounding, and no split goes stale when the language model of the notebook is trained again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from milestones.x2_eviction.calls import DECODED
from solutions.draft import Draft, Source
from solutions.x2_eviction.evicting import LM, N_SINKS, Decoded, attention, decoded

DECIMALS = 4
CLEAR = 1e-6  # two scores that decide an eviction differ by more; rounding moves them by 1e-14
MOVED = 1e-3  # what a changed token must do to some logit; the check asks for 1e-6
Case = dict[str, Any]


def draw(source: Source) -> Draft:
    """Draw the questions of one split and their answers."""
    rng = source.rng
    models = {
        "shallow": _model(rng, n_layers=1, n_kv_heads=2, group=2),
        "deep": _model(rng, n_layers=2, n_kv_heads=2, group=int(rng.integers(2, 4))),
        "multi_head": _model(rng, n_layers=2, n_kv_heads=3, group=1),
    }
    recent = _recent_cases(rng)
    weights = _weights(rng)
    scores, rooms = _scores(rng)
    steps = _steps(rng)
    decode: dict[str, dict[str, Case]] = {
        "whole": _whole(rng, models),
        "streamed": _streamed(rng, models),
        "hitters": _hitters(rng, models),
        "gone": _gone(rng, models),
    }
    within = {"in_the_cache": True, "in_the_text": False}
    questions: dict[str, Any] = {
        "recent": recent,
        "attend": {name: {"within_cache": within[name.partition("/")[2]]} for name in steps},
        "received": {name: {"n_kv_heads": n_kv} for name, (n_kv, _) in weights.items()},
        "heavy": {name: {"room": room} for name, room in rooms.items()},
        **decode,
    }
    return Draft(
        {
            "models.json": {name: _as_json(model) for name, model in models.items()},
            "attend.json": {
                name: {array: content.tolist() for array, content in step.items()}
                for name, step in steps.items()
            },
            "received.json": {name: table.tolist() for name, (_, table) in weights.items()},
            "heavy.json": {name: table.tolist() for name, table in scores.items()},
            "questions.json": questions,
        },
        {
            "recent.npz": {f"recent/{i}": _recent(**case) for i, case in enumerate(recent)},
            "attend.npz": {
                f"attend/{name}": _attended(step, questions["attend"][name]["within_cache"])
                for name, step in steps.items()
            },
            "received.npz": {
                f"received/{name}": _received(table, n_kv)
                for name, (n_kv, table) in weights.items()
            },
            "heavy.npz": {
                f"heavy/{name}": _heavy(table, rooms[name]) for name, table in scores.items()
            },
            **{
                f"{topic}.npz": {
                    f"{topic}/{name}": _decoded(models, case).logits
                    for name, case in decode[topic].items()
                }
                for topic in DECODED
                if topic != "gone"  # judged by what changes, against no truth
            },
        },
    )


# ---------------------------------------------------------------- which entries stay


def _recent_cases(rng: np.random.Generator) -> list[dict[str, int]]:
    cases = [
        {"n_entries": 10, "room": 6, "n_sinks": 2},  # the notebook's own example
        {"n_entries": int(rng.integers(3, 7)), "room": int(rng.integers(8, 12)), "n_sinks": 4},
        {"n_entries": 9, "room": 9, "n_sinks": 3},  # as many as there is room for
    ]
    for n_sinks in (0, 1, 4, int(rng.integers(5, 9))):
        room = n_sinks + int(rng.integers(2, 12))
        n_entries = room + int(rng.integers(2, 40))
        cases.append({"n_entries": n_entries, "room": room, "n_sinks": n_sinks})
    cases.append({"n_entries": room + 1, "room": room, "n_sinks": n_sinks})  # as decoding asks
    return cases


def _recent(n_entries: int, room: int, n_sinks: int) -> np.ndarray:
    """Decide of each entry alone whether it stays."""
    stays = [
        n_entries <= room or i < n_sinks or n_entries - i <= room - n_sinks
        for i in range(n_entries)
    ]
    return np.flatnonzero(stays)


def _weights(rng: np.random.Generator) -> dict[str, tuple[int, np.ndarray]]:
    """Draw attention weights of one query, by name, with the number of KV heads."""
    found = {}
    for name, n_kv, group in (
        ("grouped", 2, 3),
        ("multi_head", 4, 1),
        ("multi_query", 1, int(rng.integers(2, 6))),
        ("two_by_two", 2, 2),
    ):
        odds = rng.exponential(size=(n_kv * group, int(rng.integers(4, 9))))
        found[name] = n_kv, np.round(odds / odds.sum(axis=1, keepdims=True), DECIMALS)
    return found


def _received(weights: np.ndarray, n_kv_heads: int) -> np.ndarray:
    got = np.zeros((n_kv_heads, weights.shape[1]))
    for head, row in enumerate(weights):
        got[head * n_kv_heads // len(weights)] += row
    return got


def _scores(rng: np.random.Generator) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Draw tables of distinct scores, and how many entries each leaves room for.

    No head's heaviest entries are those of another or of the sum, and none are in order. The newest
    are light, so that nobody keeps them for their scores, all but one of each head: that is the
    heaviest of all, so that who looks for heavy hitters among them finds one that stays anyway.
    """
    scores, rooms = {}, {}
    for name, n_kv, n, room in (
        ("few", 2, 8, 5),
        ("odd_room", 2, int(rng.integers(11, 15)), 7),
        ("even_room", 3, int(rng.integers(11, 15)), 6),
        ("one_too_many", 2, 13, 12),
        ("all_fit", 2, 5, int(rng.integers(6, 9))),
    ):
        table = np.stack([rng.permutation(n) for _ in range(n_kv)]) + rng.uniform(
            0.1, 0.9, (n_kv, n)
        )
        n_recent = room - room // 2
        table[:, n - n_recent :] *= 0.005  # below 0.1, where the others begin: no two are equal
        if room < n:
            # never the oldest of them: who counts one newest too few would keep it as a heavy one
            at = rng.integers(n - n_recent + 1, n, size=n_kv)
            table[np.arange(n_kv), at] = n + rng.uniform(0.1, 0.9, n_kv)
        while room < n and not _telling(table, room):
            table[:, : n - n_recent] = rng.permuted(table[:, : n - n_recent], axis=1)
        scores[name], rooms[name] = np.round(table, DECIMALS), room
    return scores, rooms


def _telling(table: np.ndarray, room: int) -> bool:
    """Tell whether heads differ in what they keep, and the order of scores is not that of age."""
    kept = _heavy(table, room)[:, : room // 2]
    pooled = _heavy(table.sum(axis=0, keepdims=True), room)[0, : room // 2]
    by_score = [row[np.argsort(row[entries])] for row, entries in zip(table, kept, strict=True)]
    in_order = [bool((np.diff(order) > 0).all()) for order in by_score if len(order) > 1]
    differ = any(set(row) != set(kept[0]) for row in kept)
    return differ and any(set(row) != set(pooled) for row in kept) and not all(in_order)


def _heavy(scores: np.ndarray, room: int) -> np.ndarray:
    """Strike out the lightest of the older entries, one by one, until there is room."""
    kept = []
    for row in scores:
        left = list(range(len(row)))
        while len(left) > room:
            older = left[: len(left) - (room - room // 2)]
            left.remove(min(older, key=lambda entry: row[entry]))
        kept.append(left)
    return np.array(kept)


# ---------------------------------------------------------------- one step of attention


def _steps(rng: np.random.Generator) -> dict[str, dict[str, np.ndarray]]:
    """Draw queries, keys and values of one step, each to be asked with both kinds of position."""
    found = {}
    for name, n_kv, group, size in (
        ("grouped", 2, int(rng.integers(2, 4)), 6),
        ("multi_head", 3, 1, 4),
        ("multi_query", 1, 3, 8),
    ):
        n = int(rng.integers(5, 9))
        # Gaps: each head has kept entries of its own; all hold the newest.
        newest = int(rng.integers(30, 60))
        older = [np.sort(rng.choice(newest, n - 1, replace=False)) for _ in range(n_kv)]
        step = {
            "q": np.round(1.5 * rng.normal(size=(n_kv * group, size)), DECIMALS),
            "keys": np.round(1.5 * rng.normal(size=(n_kv, n, size)), DECIMALS),
            "values": np.round(rng.normal(size=(n_kv, n, size)), DECIMALS),
            "positions": np.array([[*row, newest] for row in older]),
        }
        found[f"{name}/in_the_text"] = step
        found[f"{name}/in_the_cache"] = step
    return found


def _attended(step: dict[str, np.ndarray], within_cache: bool) -> np.ndarray:
    return attention(step["q"], step["keys"], step["values"], step["positions"], within_cache)


# ---------------------------------------------------------------- models


def _model(rng: np.random.Generator, n_layers: int, n_kv_heads: int, group: int) -> LM:
    head_dim = int(rng.choice([4, 6]))
    width = int(rng.choice([w for w in (8, 10, 12) if w != n_kv_heads * group * head_dim]))
    inner, vocab = int(rng.integers(8, 13)), int(rng.integers(7, 9))

    def weight(fan_in: int, fan_out: int, scale: float = 1.0) -> np.ndarray:
        drawn = rng.normal(size=(fan_in, fan_out)) * scale * fan_in**-0.5
        return np.asarray(np.round(drawn, DECIMALS))

    n_query, n_kv = n_kv_heads * group * head_dim, n_kv_heads * head_dim
    return {
        "n_heads": n_kv_heads * group,
        "n_kv_heads": n_kv_heads,
        "head_dim": head_dim,
        "embedding": np.round(rng.normal(size=(vocab, width)), DECIMALS),
        "layers": [
            {
                # sharper than at unit scale: heads must differ in what they look at
                "w_q": weight(width, n_query, 1.5),
                "w_k": weight(width, n_kv, 1.5),
                "w_v": weight(width, n_kv),
                "w_o": weight(n_query, width),
                "w_gate": weight(width, inner),
                "w_up": weight(width, inner),
                "w_down": weight(inner, width),
            }
            for _ in range(n_layers)
        ],
        "unembedding": weight(width, vocab),
    }


def _as_json(model: LM) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, np.ndarray) else value

    layers = [{name: plain(w) for name, w in layer.items()} for layer in model["layers"]]
    return {name: plain(value) for name, value in model.items()} | {"layers": layers}


# ---------------------------------------------------------------- sequences


def _decoded(models: dict[str, LM], case: Case, *, own_counts: bool = True) -> Decoded:
    asked = {name: value for name, value in case.items() if name != "model"}
    return decoded(models[case["model"]], **asked, own_counts=own_counts)


def _case(
    rng: np.random.Generator,
    models: dict[str, LM],
    model: str,
    n_tokens: int,
    budget: int,
    policy: str,
    within_cache: bool = False,
) -> Case:
    tokens = rng.integers(len(models[model]["embedding"]), size=n_tokens).tolist()
    return {
        "model": model,
        "tokens": tokens,
        "budget": budget,
        "policy": policy,
        "within_cache": within_cache,
    }


def _whole(rng: np.random.Generator, models: dict[str, LM]) -> dict[str, Case]:
    """Draw sequences that fit: exactly, or with room to spare."""
    return {
        "just_fits": _case(rng, models, "deep", 9, 9, "window"),
        "room_to_spare": _case(rng, models, "multi_head", 7, 12, "sinks", within_cache=True),
        "one_token": _case(rng, models, "shallow", 1, 5, "heavy"),
    }


def _streamed(rng: np.random.Generator, models: dict[str, LM]) -> dict[str, Case]:
    """Draw sequences longer than their cache, for policies that go by age alone."""
    return {
        "window": _case(rng, models, "deep", 16, int(rng.integers(5, 8)), "window"),
        "sinks": _case(rng, models, "deep", 16, int(rng.integers(6, 9)), "sinks", True),
        "sinks_in_the_text": _case(rng, models, "multi_head", 15, int(rng.integers(6, 9)), "sinks"),
    }


def _hitters(rng: np.random.Generator, models: dict[str, LM]) -> dict[str, Case]:
    """Draw sequences whose evictions go by attention, none of them decided by a near tie.

    Each also keeps other entries where an entry's own query does not count for its score.
    """

    def clear(make: Callable[[], Case]) -> Case:
        while True:
            case = make()
            found = _decoded(models, case)
            # Heads that keep the same entries would not tell one table of scores from two.
            differ = any((alive != alive[:1]).any() for alive in found.alive)
            if found.clearest > CLEAR and differ and not _same_kept(found, models, case):
                return case

    return {
        "grouped": clear(lambda: _case(rng, models, "deep", 18, int(rng.integers(5, 8)), "heavy")),
        "multi_head": clear(lambda: _case(rng, models, "multi_head", 16, 6, "heavy")),
        "in_the_cache": clear(lambda: _case(rng, models, "deep", 16, 6, "heavy", True)),
    }


def _same_kept(found: Decoded, models: dict[str, LM], case: Case) -> bool:
    """Tell whether the same entries stay where an entry's own query does not count."""
    other = _decoded(models, case, own_counts=False)
    return all((a == b).all() for a, b in zip(found.alive, other.alive, strict=True))


def _gone(rng: np.random.Generator, models: dict[str, LM]) -> dict[str, Case]:
    """Draw sequences that differ in one token: an evicted one, a kept one, one out of reach.

    Of one layer, the last logits depend on the entries in the cache and on nothing else. Of two
    layers, an entry still carries what its own token saw: a window of B reaches 2 (B - 1) back.
    """
    while True:
        found = {}
        for policy, within_cache in (("window", False), ("sinks", True)):
            budget, n_tokens = int(rng.integers(6, 9)), 17
            base = _case(rng, models, "shallow", n_tokens, budget, policy, within_cache)
            n_sinks = N_SINKS if policy == "sinks" else 0
            oldest = n_tokens - (budget - n_sinks)  # of the recent ones that the last query sees
            found[f"{policy}/base"] = base
            found[f"{policy}/evicted"] = _changed(rng, models, base, oldest - 1)
            found[f"{policy}/kept"] = _changed(rng, models, base, oldest)
            if n_sinks:
                found[f"{policy}/kept_sink"] = _changed(rng, models, base, n_sinks - 1)
        budget = int(rng.integers(4, 6))
        base = _case(rng, models, "deep", 15, budget, "window")
        found["deep/base"] = base
        found["deep/evicted"] = _changed(rng, models, base, 15 - 1 - (2 * (budget - 1) + 1))
        found["deep/kept"] = _changed(rng, models, base, 15 - budget)
        last = {name: _decoded(models, case).logits[-1] for name, case in found.items()}
        moves = [
            np.abs(last[name] - last[f"{name.partition('/')[0]}/base"]).max()
            for name in found
            if "kept" in name
        ]
        if min(moves) > MOVED:
            return found


def _changed(rng: np.random.Generator, models: dict[str, LM], case: Case, at: int) -> Case:
    """Return a case with another token at one place."""
    tokens = list(case["tokens"])
    others = [t for t in range(len(models[case["model"]]["embedding"])) if t != tokens[at]]
    tokens[at] = int(rng.choice(others))
    return {**case, "tokens": tokens}
