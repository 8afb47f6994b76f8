"""Shrunken models of every kind, run by transformers itself: their caches are of the size we say.

What transformers holds differs from what an architecture must keep (the library's view) in the four
ways of `HELD_OTHERWISE`, and in nothing else.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from solutions.capacity import CachePlan, read_plan
from solutions.capacity.caches import (
    Cache,
    CrossCache,
    HeadsCache,
    LatentCache,
    NoCache,
    StateCache,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    WHY = "transformers is not here; pip install -c constraints.txt -e '.[transformers]'"
    torch = pytest.importorskip("torch", reason=WHY)
    transformers = pytest.importorskip("transformers", reason=WHY)

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs, of which there are many

HELD_OTHERWISE = {
    "window": "the next step attends to itself and W - 1 tokens before it, so W - 1 are held",
    "index": "an index key beside a latent is held in the model's 16 bits, by engines in FP8",
    "columns": "a convolution holds k columns of inputs, of which the next step needs k - 1",
    "recurrent": "a recurrent state is held in float32, which engines leave to the model's dtype",
}
"""What transformers does otherwise than the architecture needs, and why."""
IN_THE_MODELS_DTYPE = {"minimax"}  # the one whose recurrent state is not float32

SHORT, LONG, ENCODER = 5, 20, 7  # tokens: less than any window here, more than any, an encoder's
ALL = tomllib.loads(Path(__file__).with_name("tiny_models.toml").read_text(encoding="utf-8"))
COMMON = ALL.pop("common")
WITHOUT_A_HEAD = {"sliding-and-full-from-the-end-muse_glimmer"}  # the text part of a vision model
ENCODERS = {name: facts.pop("encoder") for name, facts in ALL.items() if "encoder" in facts}
MODELS = {name: {**COMMON, **facts} for name, facts in ALL.items()}


# ---------------------------------------------------------------- what transformers holds


def tensors(held: Any, seen: set[int]) -> Iterator[Any]:
    """Yield every tensor that can be reached from a cache, each once."""
    if id(held) in seen:
        return
    seen.add(id(held))
    if isinstance(held, torch.Tensor):
        yield held
    elif isinstance(held, Mapping):
        yield from (tensor for part in held.values() for tensor in tensors(part, seen))
    elif isinstance(held, (list, tuple)):
        yield from (tensor for part in held for tensor in tensors(part, seen))
    elif hasattr(held, "__dict__") and not isinstance(held, (type, torch.nn.Module)):
        yield from tensors(vars(held), seen)


def held_bytes(cached: Any) -> int:
    """Add up a cache; a number by itself is a counter of tokens, not of what was read."""
    sizes = (t.numel() * t.element_size() for t in tensors(cached, set()) if t.dim())
    return sum(int(size) for size in sizes)


def made(name: str) -> Any:
    """Return a model with random weights in bf16, made from its config alone."""
    config = transformers.AutoConfig.for_model(**MODELS[name])
    kind = transformers.AutoModelForCausalLM
    if ENCODERS.get(name) == "input_ids":
        kind = transformers.AutoModelForSeq2SeqLM
    elif ENCODERS.get(name) == "cross_attention_states":
        return transformers.MllamaForCausalLM._from_config(config, dtype=torch.bfloat16).eval()
    elif name in WITHOUT_A_HEAD:
        kind = transformers.AutoModel
    return kind.from_config(config, dtype=torch.bfloat16).eval()


@cache
def measured(name: str, context_len: int) -> int:
    """Return the bytes held after a prefill of all tokens but one, and one step of decoding."""
    torch.manual_seed(0)
    model = made(name)
    key = "decoder_input_ids" if ENCODERS.get(name) == "input_ids" else "input_ids"
    prompt, token = (torch.ones(1, n, dtype=torch.long) for n in (context_len - 1, 1))
    first: dict[str, Any] = {key: prompt}
    if ENCODERS.get(name) == "input_ids":
        first["input_ids"] = torch.ones(1, ENCODER, dtype=torch.long)
    elif name in ENCODERS:
        width = MODELS[name]["hidden_size"]
        first[ENCODERS[name]] = torch.zeros(1, ENCODER, width, dtype=torch.bfloat16)
    with torch.no_grad():
        out = model(**first, use_cache=True)
        cached = "past_key_values" if "past_key_values" in out else "cache_params"
        second: dict[str, Any] = {key: token, cached: out[cached]}
        if ENCODERS.get(name) == "input_ids":
            second["encoder_outputs"] = (out.encoder_last_hidden_state,)
        return held_bytes(model(**second, use_cache=True)[cached])


# ---------------------------------------------------------------- what we say


def said(name: str, context_len: int) -> int:
    """Return our bytes, changed in the ways of HELD_OTHERWISE."""
    return sum(as_held(cache, name, context_len) for cache in read_plan(MODELS[name]).caches)


def as_held(cache: Cache, name: str, context_len: int) -> int:
    """Return the bytes of one cache of one layer."""
    match cache:
        case HeadsCache(window=int(window)):
            return cache.token_bytes(16) * min(context_len, window - 1)  # "window"
        case LatentCache():
            numbers = cache.latent_dim + cache.rope_dim + cache.index_dim  # "index"
            return 2 * numbers * context_len
        case StateCache():
            recurrent = 2 if MODELS[name]["model_type"] in IN_THE_MODELS_DTYPE else 4
            return 2 * columns(cache, name) + recurrent * cache.recurrent_values  # "recurrent"
        case CrossCache():
            return cache.encoder_bytes(ENCODER, 16)
        case HeadsCache() | NoCache():
            return cache.kv_bytes(context_len, 16)
    raise AssertionError(f"{name}: no model here keeps a cache of kind {cache.kind}")


def columns(cache: StateCache, name: str) -> int:
    """Return the numbers of k columns of a convolution, of which the architecture needs k - 1."""
    keys = ("conv_kernel", "mamba_d_conv", "linear_conv_kernel_dim", "conv_L_cache")
    widths = [MODELS[name][key] for key in keys if key in MODELS[name]]
    if not widths:
        assert cache.conv_values == 0, "a convolution without a width in the config"
        return 0
    (width,) = widths
    return cache.conv_values // (int(width) - 1) * int(width)  # "columns"


@pytest.mark.parametrize("context_len", [SHORT, LONG])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_runs_holds_as_many_bytes_as_we_say(name: str, context_len: int) -> None:
    assert measured(name, context_len) == said(name, context_len), HELD_OTHERWISE


@pytest.mark.parametrize("name", MODELS)
def test_what_is_held_grows_by_as_many_bytes_a_token_as_we_say(name: str) -> None:
    """Between two contexts past every window, so of the four differences only `index` is left."""
    plan = read_plan(MODELS[name])
    grown = (measured(name, LONG + 4) - measured(name, LONG)) / 4
    fewer = sum(
        2 * cache.index_dim - cache.index_bytes
        for cache in plan.caches
        if isinstance(cache, LatentCache)
    )
    assert grown == plan.kv_bytes_per_token(LONG) + fewer


def by_the_formula(config: Mapping[str, Any], context_len: int) -> int:
    """Return 2 * layers * kv_heads * hidden / heads * tokens in 16 bits, as it is commonly read."""
    layers = ("num_hidden_layers", "n_layer", "num_layers", "decoder_layers")
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads", heads)
    numbers = kv_heads * (config["hidden_size"] // heads)
    count = next(config[key] for key in layers if key in config)
    return 2 * int(count * numbers) * context_len * 2


PLAIN = {name for name in MODELS if name.startswith("full-")}


@pytest.mark.parametrize("name", sorted(MODELS.keys() - PLAIN))
def test_the_common_formula_is_not_what_a_model_of_any_other_kind_holds(name: str) -> None:
    """Else these models would not tell a right rule from the one that everybody uses."""
    assert measured(name, LONG) != by_the_formula(MODELS[name], LONG)


def test_every_kind_of_cache_is_run_but_those_that_no_measurement_confirms() -> None:
    plans: list[CachePlan] = [read_plan(config) for config in MODELS.values()]
    kinds = {kind for plan in plans for kind in plan.counts}
    assert kinds == {"full", "sliding", "chunked", "latent", "state", "cross", "shared", "none"}
