"""Draws lab x3's questions: small random models with latent attention, caches, configs, counts.

Weights are drawn with the variance 1 / fan-in that keeps every sum of order 1, and rounded to three
decimals: a file of them is short, a person can read it, and nothing is lost on the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from solutions.draft import Draft, Source
from solutions.x3_latent_attention.mla import (
    Kept,
    Layer,
    Params,
    attended,
    between,
    chain,
    kept_of,
    turned,
    whole,
)

DECIMALS = 3
VOCAB = 8
N_TOKENS = 5  # of a sequence: a cache of more rows shows nothing new
SCALE = 600  # w_uk and w_uv times 2 to this, w_uq and w_o over it: exact, and no product changes
GIANT = 2.0**500  # of a latent whose key, times 2**SCALE, no float64 can hold
Case = dict[str, Any]


def draw(source: Source) -> Draft:
    """Draw the questions of one split and their answers."""
    rng = source.rng
    models = _models(rng)
    asked: dict[str, Any] = {
        "values": [{"config": config} for config in _configs(rng)],
        "rope": ["one_pair", "vectors", "heads"],
        "whole": {"one_token": "plain", "plain": "plain", "compressed": "compressed"},
        "cache": {
            name: {"model": name, "n_tokens": N_TOKENS - i}
            for i, name in enumerate(("plain", "compressed"))
        },
        "absorbed": {"one_row": "plain", "plain": "plain", "compressed": "compressed"},
        "huge": {"keys": "huge_keys", "values": "huge_values"},
        "logits": {
            "plain": _sequence(rng, ["plain"] * 4),
            "compressed": _sequence(rng, ["compressed"] * N_TOKENS),
        },
        "swapped": {
            "up": _sequence(rng, ["compressed"] * 3 + ["new_up"] * 2),
            "all": _sequence(rng, ["compressed"] * 2 + ["new"] * 2 + ["compressed"]),
        },
        "between": _between(rng, models),
        "work": _work(rng),
    }
    cases: dict[str, dict[str, Any]] = {
        "rope": _rope(rng),
        "whole": {
            name: _normal(rng, 1 if name == "one_token" else N_TOKENS, _width(models[model]))
            for name, model in asked["whole"].items()
        },
        "cache": {
            name: {f"x_{t}": _normal(rng, _width(models[name])) for t in range(case["n_tokens"])}
            for name, case in asked["cache"].items()
        },
        "absorbed": {
            name: _cache_and_token(rng, models[model], 1 if name == "one_row" else N_TOKENS)
            for name, model in asked["absorbed"].items()
        },
    }
    layers = {name: params["layers"][0] for name, params in models.items()}
    cases["huge"] = {}
    huge = {}
    for name, model in asked["huge"].items():
        layers[model], cases["huge"][name], huge[f"huge/{name}"] = _huge(rng, name)
    truth: dict[str, Any] = {
        "counts.json": {
            **{f"values/{i}": _n_values(**args) for i, args in enumerate(asked["values"])},
            **{f"work/{i}": _n_multiplications(**args) for i, args in enumerate(asked["work"])},
        },
        "latent_dims.json": {name: layers[name]["latent_dim"] for name in asked["cache"]},
        "rope.npz": {
            f"rope/{name}": turned(case["x"], case["positions"])
            for name, case in cases["rope"].items()
        },
        "whole.npz": {
            f"whole/{name}": _of_all(layers[model], cases["whole"][name])
            for name, model in asked["whole"].items()
        },
        "cache.npz": _caches(models, cases["cache"]),
        "absorbed.npz": {
            f"absorbed/{name}": _of_last(layers[model], **cases["absorbed"][name])
            for name, model in asked["absorbed"].items()
        },
        "huge.npz": huge,
        "logits.npz": {},
        "swapped.npz": {},
        "between.npz": {
            f"between/{i}": between(layers[case["model"]], case["head"], case["distance"])
            for i, case in enumerate(asked["between"])
        },
    }
    for name, case in asked["logits"].items():
        logits = whole(models[case["models"][0]], case["tokens"])
        truth["logits.npz"] |= {f"logits/{name}/all": logits, **_rows(f"logits/{name}", logits)}
    for name, case in asked["swapped"].items():
        steps = [
            (models[m], token) for m, token in zip(case["models"], case["tokens"], strict=True)
        ]
        truth["swapped.npz"] |= _rows(f"swapped/{name}", chain(steps))
    return Draft(
        {
            "models.json": _plain(models),
            "layers.json": _plain(layers),
            "cases.json": _plain(cases),
            "asked.json": asked,
        },
        truth,
    )


# ---------------------------------------------------------------- models and inputs


def _normal(rng: np.random.Generator, *size: int, scale: float = 1.0) -> np.ndarray:
    return np.round(rng.normal(size=size) * scale, DECIMALS)


def _weight(rng: np.random.Generator, fan_in: int, fan_out: int, scale: float = 1.0) -> np.ndarray:
    return _normal(rng, fan_in, fan_out, scale=scale * fan_in**-0.5)


def _sizes(rng: np.random.Generator) -> dict[str, int]:
    """Draw sizes of which no two that could be mixed up are alike."""
    return {
        "n_heads": int(rng.integers(2, 4)),
        "nope_dim": 4,
        "rope_dim": int(rng.choice([6, 8])),  # of one pair alone, speeds would not show
        "v_dim": int(rng.choice([3, 5])),
        "latent_dim": int(rng.choice([10, 12])),
    }


def _layer(rng: np.random.Generator, sizes: dict[str, int], d: int, q_latent: int | None) -> Layer:
    heads, latent = sizes["n_heads"], sizes["latent_dim"]
    source = d if q_latent is None else q_latent
    compressed = {} if q_latent is None else {"w_dq": _weight(rng, d, q_latent)}
    return {
        **sizes,
        **compressed,
        # Twice as large: scores of some size, so that weights are far from alike.
        "w_uq": _weight(rng, source, heads * sizes["nope_dim"], 2.0),
        "w_qr": _weight(rng, source, heads * sizes["rope_dim"], 2.0),
        "w_dkv": _weight(rng, d, latent),
        "w_kr": _weight(rng, d, sizes["rope_dim"]),
        "w_uk": _weight(rng, latent, heads * sizes["nope_dim"]),
        "w_uv": _weight(rng, latent, heads * sizes["v_dim"]),
        "w_o": _weight(rng, heads * sizes["v_dim"], d),
    }


def _params(
    rng: np.random.Generator, n_layers: int, sizes: dict[str, int], d: int, q_latent: int | None
) -> Params:
    return {
        "embedding": _normal(rng, VOCAB, d),
        "layers": [_layer(rng, sizes, d, q_latent) for _ in range(n_layers)],
        "unembedding": _weight(rng, d, VOCAB),
    }


def _models(rng: np.random.Generator) -> dict[str, Params]:
    """Draw a model without compressed queries, one with, and two with other weights than that."""
    plain = _params(rng, 1, _sizes(rng), int(rng.choice([7, 9])), None)
    sizes, d, q_latent = _sizes(rng), int(rng.choice([7, 9])), int(rng.choice([5, 6]))
    compressed = _params(rng, 2, sizes, d, q_latent)
    new = _params(rng, 2, sizes, d, q_latent)
    ups = ("w_uk", "w_uv")
    new_up = {
        **compressed,
        "layers": [
            {**old, **{name: other[name] for name in ups}}
            for old, other in zip(compressed["layers"], new["layers"], strict=True)
        ],
    }
    return {"plain": plain, "compressed": compressed, "new": new, "new_up": new_up}


def _width(params: Params) -> int:
    width: int = params["embedding"].shape[1]
    return width


def _plain(node: Any) -> Any:
    """Return arrays as nested lists, as JSON holds them."""
    if isinstance(node, dict):
        return {key: _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    return node.tolist() if isinstance(node, np.ndarray) else node


def _rope(rng: np.random.Generator) -> dict[str, Case]:
    far = [float(p) for p in sorted(rng.choice(5_000, size=3, replace=False))]
    return {
        "one_pair": {"x": _normal(rng, 2, 2), "positions": np.array([0.0, 1.0])},
        "vectors": {"x": _normal(rng, 3, 8), "positions": np.array(far)},
        "heads": {"x": _normal(rng, 4, 3, 6), "positions": np.arange(4.0)},
    }


def _sequence(rng: np.random.Generator, models: list[str]) -> Case:
    """Draw tokens for the parameters of each step; one comes twice, told by its position."""
    tokens = [int(token) for token in rng.permutation(VOCAB)[: len(models)]]
    tokens[-1] = tokens[0]
    return {"models": models, "tokens": tokens}


def _cache_and_token(rng: np.random.Generator, params: Params, n_rows: int) -> Case:
    layer = params["layers"][0]
    width = layer["latent_dim"] + layer["rope_dim"]
    return {"cache": _normal(rng, n_rows, width), "x_t": _normal(rng, _width(params))}


def _between(rng: np.random.Generator, models: dict[str, Params]) -> list[Case]:
    distances = [0, 1, int(rng.integers(2, 9)), int(rng.integers(100, 2_000))]
    names = ["compressed", "plain", "compressed", "plain"]
    return [
        {
            "model": name,
            "head": int(rng.integers(models[name]["layers"][0]["n_heads"])),
            "distance": distance,
        }
        for name, distance in zip(names, distances, strict=True)
    ]


# ---------------------------------------------------------------- truth of layers


def _of_all(layer: Layer, x: np.ndarray) -> np.ndarray:
    at = np.arange(len(x))
    return attended(layer, x, at, kept_of(layer, x, at))


def _of_last(layer: Layer, cache: np.ndarray, x_t: np.ndarray) -> np.ndarray:
    cut = layer["latent_dim"]
    kept = Kept(cache[:, :cut], cache[:, cut:])
    (out,) = attended(layer, x_t[None], np.array([len(cache) - 1]), kept)
    return np.asarray(out)


def _caches(models: dict[str, Params], inputs: dict[str, Case]) -> dict[str, np.ndarray]:
    found = {}
    for name, case in inputs.items():
        layers, x = models[name]["layers"], np.array(list(case.values()))
        rows = kept_of(layers[0], x, np.arange(len(x))).rows
        found[f"cache/{name}/new"] = np.zeros((len(layers), 0, rows.shape[1]))
        found |= {f"cache/{name}/{t}": rows[: t + 1] for t in range(len(x))}
    return found


def _rows(prefix: str, logits: np.ndarray) -> dict[str, np.ndarray]:
    return {f"{prefix}/{t}": row for t, row in enumerate(logits)}


def _huge(rng: np.random.Generator, what: str) -> tuple[Layer, Case, np.ndarray]:
    """Draw a layer in which one token's `keys` or `values` overflow, and count for nothing.

    The truth comes of the layer before it is scaled, without that token: its scores, far below
    zero in every head, have weight 0. Scaling by powers of two changes no digit.
    """
    grown, shrunk = {"keys": ("w_uk", "w_uq"), "values": ("w_uv", "w_o")}[what]
    while True:
        params = _params(rng, 1, _sizes(rng), 7, None)
        layer, case = params["layers"][0], _cache_and_token(rng, params, N_TOKENS)
        giant = int(rng.integers(1, N_TOKENS - 1))  # neither the first row nor the last
        case["cache"][giant, : layer["latent_dim"]] = GIANT * _against(layer, case["x_t"])
        scaled = {
            **layer,
            grown: layer[grown] * 2.0**SCALE,
            shrunk: layer[shrunk] * 2.0**-SCALE,
        }
        if _spoils_what_is_built(scaled, what, giant, **case):
            break
    alone = np.arange(N_TOKENS) != giant
    cut, last = layer["latent_dim"], np.array([N_TOKENS - 1])
    kept = Kept(case["cache"][alone, :cut], case["cache"][alone, cut:])
    right = attended(layer, case["x_t"][None], last, kept)[0]  # all others stand before it
    return scaled, case, right


def _against(layer: Layer, x_t: np.ndarray) -> np.ndarray:
    """Return a latent that every head's query of a token scores below zero."""
    heads = layer["n_heads"]
    queries = (x_t @ layer["w_uq"]).reshape(heads, -1)
    into = np.einsum("hc,lhc->hl", queries, layer["w_uk"].reshape(-1, heads, queries.shape[1]))
    against: np.ndarray = np.round(np.linalg.pinv(into) @ np.full(heads, -1.0), DECIMALS)
    return against


def _spoils_what_is_built(
    layer: Layer, what: str, giant: int, cache: np.ndarray, x_t: np.ndarray
) -> bool:
    """Tell whether building `what` for each head ends in NaN, and absorbing gives weight 0."""
    heads, latent = layer["n_heads"], cache[giant, : layer["latent_dim"]]
    queries = (x_t @ layer["w_uq"]).reshape(heads, -1)
    into = np.einsum("hc,lhc->hl", queries, layer["w_uk"].reshape(-1, heads, queries.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        scores = ((latent @ layer["w_uk"]).reshape(heads, -1) * queries).sum(axis=1)
        values = latent @ layer["w_uv"]
    spoiled = np.isnan(scores).any() if what == "keys" else np.isinf(values).any()
    return bool(spoiled and (into @ latent < -GIANT / 2).all())


# ---------------------------------------------------------------- counts


def _configs(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Return released shapes, each from its config.json, and drawn ones of every kind."""
    v2 = {
        "num_hidden_layers": 60,
        "hidden_size": 5120,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    }
    lite = {**v2, "num_hidden_layers": 27, "hidden_size": 2048, "q_lora_rank": None}
    old = {
        "num_hidden_layers": 95,
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 128,
    }
    drawn = []
    for heads_per_key in (1, 4, None):
        heads = int(rng.choice([16, 32, 48]))
        drawn.append(
            {
                "num_hidden_layers": int(rng.integers(20, 90)),
                "hidden_size": 64 * heads,
                "num_attention_heads": heads,
                "num_key_value_heads": 1 if heads_per_key is None else heads // heads_per_key,
                "head_dim": int(rng.choice([80, 96, 128, 192])),
            }
        )
    for _ in range(2):
        heads = int(rng.choice([16, 24, 64]))
        drawn.append(
            {
                **v2,
                "num_hidden_layers": int(rng.integers(20, 90)),
                "hidden_size": 64 * heads,
                "num_attention_heads": heads,
                "num_key_value_heads": heads,
                "kv_lora_rank": int(rng.choice([256, 320, 384, 768])),
                "qk_rope_head_dim": int(rng.choice([32, 48, 96])),
            }
        )
    return [v2, old, {**lite, "num_attention_heads": 16, "num_key_value_heads": 16}, *drawn]


def _n_values(config: dict[str, Any]) -> int:
    """Count by the widths of what a layer keeps of one token."""
    if "kv_lora_rank" in config:
        widths: list[int] = [config["kv_lora_rank"], config["qk_rope_head_dim"]]
    else:
        widths = [config["head_dim"]] * config["num_key_value_heads"] * 2  # each key, each value
    return sum(widths) * int(config["num_hidden_layers"])


def _work(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Ask for decode steps, a prompt and a later chunk, of DeepSeek-V2 and a drawn shape."""
    v2 = {
        "num_attention_heads": 128,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    }
    drawn = {
        "num_attention_heads": int(rng.choice([16, 24, 48])),
        "kv_lora_rank": int(rng.choice([256, 320, 768])),
        "qk_nope_head_dim": int(rng.choice([64, 96])),
        "qk_rope_head_dim": int(rng.choice([32, 48])),
        "v_head_dim": int(rng.choice([80, 112])),
    }
    lengths = [
        (v2, 1, 4_095),
        (v2, 4_096, 0),
        (drawn, 1, int(rng.integers(100, 2_000))),
        (drawn, int(rng.integers(200, 900)), int(rng.integers(100, 2_000))),
    ]
    return [
        {"config": config, "n_new": new, "n_before": before, "absorbed": absorbed}
        for config, new, before in lengths
        for absorbed in (True, False)
    ]


def _n_multiplications(config: dict[str, Any], n_new: int, n_before: int, absorbed: bool) -> int:
    """Count query by query: what each new token multiplies, and what is rebuilt before."""
    latent, rope = config["kv_lora_rank"], config["qk_rope_head_dim"]
    nope, v = config["qk_nope_head_dim"], config["v_head_dim"]
    one_head = 0
    for t in range(n_before, n_before + n_new):
        for_score, for_mix = (latent + rope, latent) if absorbed else (nope + rope, v)
        one_head += (t + 1) * (for_score + for_mix)
        one_head += nope * latent + latent * v if absorbed else 0  # the query in, the output out
    if not absorbed:
        one_head += (n_before + n_new) * latent * (nope + v)  # every key and value
    return one_head * int(config["num_attention_heads"])
