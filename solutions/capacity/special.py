"""Architectures whose layers are not made of the common parts: one reader for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from solutions.capacity.caches import (
    Cache,
    CompressedCache,
    CrossCache,
    HeadsCache,
    NoCache,
)
from solutions.capacity.facts import Fact
from solutions.capacity.heads import WIDTH, head_dim, heads_of, query_heads
from solutions.capacity.latent import latent_of
from solutions.capacity.plan import CachePlan, Layer
from solutions.capacity.plans import n_layers, trimmed
from solutions.capacity.reader import MOST_LAYERS, Reader, shown

# ---------------------------------------------------------------- DeepSeek-V4

RATIOS = {0: "", 4: "indexed", 128: ""}
"""transformers 5.24.0, configuration_deepseek_v4.py: 0 window only, 4 sparse, 128 heavy."""
V4_WORDS = {
    "sliding_attention": 0,
    "compressed_sparse_attention": 4,
    "heavily_compressed_attention": 128,
}


def _compressed(reader: Reader) -> CachePlan:
    entry = reader.need("entry_dim", ["head_dim"])
    window = reader.need("window", ["sliding_window"])
    index = reader.need("index_dim", ["index_head_dim"])
    for key in ("index_topk", "num_key_value_heads", "num_attention_heads"):
        reader.given(key)
    key, ratios = _ratios(reader)
    layers = []
    for i, ratio in enumerate(ratios):
        cache: Cache
        if ratio == 0:
            cache = HeadsCache(1, entry.value, 0, window=window.value)
            layers.append(Layer(i, (cache,), "a window of raw entries", (entry, window)))
            continue
        indexed = RATIOS[ratio] == "indexed"
        cache = CompressedCache(entry.value, window.value, ratio, index.value if indexed else 0)
        rule = f"a window of raw entries and one entry for each {ratio} tokens"
        rule += ", with an index key" if indexed else ""
        layers.append(
            Layer(i, (cache,), rule, (entry, window, index) if indexed else (entry, window))
        )
    rule = f"{key}: tokens that share one entry, 0 where only the window is kept"
    note = "an entry is key and value at once; how engines pack it is not confirmed by measurement"
    return CachePlan(reader.family.model_type, tuple(layers), rule, (note,))


def _ratios(reader: Reader) -> tuple[str, list[int]]:
    n_layers(reader)
    words = reader.listed("layer_types")
    ratios = reader.listed("compress_ratios")
    if words is not None:
        for word in words:
            if not isinstance(word, str) or word not in V4_WORDS:
                reader.refuse(["layer_types"], f"unknown kind of layer {shown(word)}")
        return "layer_types", [V4_WORDS[word] for word in trimmed(reader, "layer_types", words)]
    if ratios is None:
        reader.refuse(["compress_ratios"], "missing: it says how far each layer compresses")
    for ratio in ratios:
        if reader.checked("compress_ratios", ratio, 0) not in RATIOS:
            reader.refuse(["compress_ratios"], f"unknown ratio {shown(ratio)}")
    return "compress_ratios", trimmed(reader, "compress_ratios", ratios)


# ---------------------------------------------------------------- blocks that differ by layer


def _blocks(reader: Reader) -> CachePlan:
    """Nemotron by architecture search: heads by layer, some layers without attention."""
    by_layer = reader.listed("num_key_value_heads_per_layer")
    blocks = reader.listed("block_configs")
    dim, queries = head_dim(reader), query_heads(reader)
    if by_layer is not None:
        return _by_layer(reader, "num_key_value_heads_per_layer", by_layer, dim)
    if blocks is None:
        reader.refuse(["block_configs"], "missing: it says what attention each layer has")
    layers = []
    for i, block in enumerate(trimmed(reader, "block_configs", blocks)):
        attention = block.get("attention") if isinstance(block, Mapping) else None
        if not isinstance(attention, Mapping):
            reader.refuse(["block_configs"], f"layer {i} has no `attention`: {shown(block)}")
        layers.append(_block(reader, i, attention, dim, queries))
    rule = "block_configs lists the attention of every layer"
    return CachePlan(reader.family.model_type, tuple(layers), rule)


def _block(reader: Reader, i: int, attention: Mapping[str, Any], dim: Fact, queries: Fact) -> Layer:
    where = f"block_configs[{i}].attention"
    for key in ("window_length", "num_sink_tokens", "sparsify", "prefill_sparsity", "llama4"):
        if attention.get(key):
            reader.refuse(["block_configs"], f"layer {i}: {key} is not understood")
    if attention.get("no_op") or attention.get("replace_with_linear"):
        return Layer(i, (NoCache("none"),), f"{where}: no attention in this layer")
    group = reader.checked("block_configs", attention.get("n_heads_in_group"))
    if queries.value % group:
        reader.refuse(["block_configs"], f"layer {i}: groups of {group} of {queries.value} heads")
    heads = Fact(
        "n_kv_heads",
        queries.value // group,
        reader.where(f"{where}.n_heads_in_group"),
        f"{queries.key} / {group}",
    )
    cache = HeadsCache(heads.value, dim.value, dim.value)
    return Layer(i, (cache,), "keys and values of every token", (heads, dim))


def _by_layer(reader: Reader, key: str, numbers: list[Any], dim: Fact) -> CachePlan:
    layers = []
    for i, number in enumerate(trimmed(reader, key, numbers)):
        heads = Fact(
            "n_kv_heads", reader.checked(key, number), reader.where(f"{key}[{i}]"), "stated"
        )
        cache = HeadsCache(heads.value, dim.value, dim.value)
        layers.append(Layer(i, (cache,), "keys and values of every token", (heads, dim)))
    return CachePlan(reader.family.model_type, tuple(layers), f"{key} gives KV heads by layer")


def _open_elm(reader: Reader) -> CachePlan:
    """OpenELM: a list of KV heads, and a size of a head that the file must state."""
    n_layers(reader)
    dim = reader.need("key_dim", ["head_dim"])
    numbers = reader.listed("num_kv_heads")
    if numbers is None:
        reader.refuse(["num_kv_heads"], "missing: it gives the KV heads of each layer")
    return _by_layer(reader, "num_kv_heads", numbers, dim)


# ---------------------------------------------------------------- caches shared by neighbours


def _cross_layer(reader: Reader) -> CachePlan:
    """Hunyuan's cross-layer attention: the first of each few layers keeps keys and values."""
    count, heads = n_layers(reader), heads_of(reader)
    shares = bool(reader.flag("use_cla"))
    factor = reader.need("cla_share_factor", ["cla_share_factor"]).value if shares else 1
    reader.given("cla_share_factor")
    layers = []
    for i in range(count):
        if i % factor:
            rule = f"it reads the cache of layer {i - i % factor}"
            layers.append(Layer(i, (NoCache("shared"),), rule))
            continue
        cache = HeadsCache(heads.n_kv_heads.value, heads.key_dim.value, heads.value_dim.value)
        layers.append(Layer(i, (cache,), "keys and values of every token", heads.facts))
    rule = f"one cache for each {factor} layers" if shares else "every layer attends to everything"
    return CachePlan(reader.family.model_type, tuple(layers), rule)


# ---------------------------------------------------------------- two attentions a layer


def _twice(reader: Reader) -> CachePlan:
    """LongCat-Flash: every decoder layer has two latent attentions, `num_layers` of them."""
    layers = reader.need("n_layers", ["num_layers"])
    doubled = reader.given("num_hidden_layers")
    if doubled is not None and doubled not in (layers.value, 2 * layers.value):
        reader.refuse(["num_layers", "num_hidden_layers"], "the second is neither it nor twice it")
    if layers.value > MOST_LAYERS:
        reader.refuse(["num_layers"], f"more than {MOST_LAYERS:,} layers")
    latent = latent_of(reader, layers.value)
    if latent is None:
        reader.refuse(["kv_lora_rank"], "missing: this architecture keeps a latent")
    rule = "two latents and two rotary keys of every token, once for all heads"
    caches = tuple(
        Layer(i, (latent.cache(i),) * 2, rule, latent.facts) for i in range(layers.value)
    )
    return CachePlan(reader.family.model_type, caches, "each layer attends twice")


# ---------------------------------------------------------------- encoder and decoder

DECODER_LAYERS = ("decoder_layers", "num_decoder_layers")
DECODER_HEADS = ("decoder_attention_heads", *("num_heads", "num_attention_heads"))
NOT_THE_DECODERS = ("num_hidden_layers", "num_layers", "encoder_layers", "encoder_attention_heads")


def _encoder_decoder(reader: Reader) -> CachePlan:
    """T5, BART, Whisper: each decoder layer keeps its own tokens and the encoder's."""
    count = reader.fact("n_layers", DECODER_LAYERS)
    if count is None:
        count = reader.need("n_layers", ["num_layers", *DECODER_LAYERS])
    if count.value > MOST_LAYERS:
        reader.refuse([count.key.removeprefix(reader.path)], f"more than {MOST_LAYERS:,} layers")
    heads = reader.fact("n_kv_heads", DECODER_HEADS[:1]) or reader.need(
        "n_kv_heads", DECODER_HEADS[1:]
    )
    dim = reader.fact("key_dim", ["d_kv"])
    if dim is None:
        width = reader.need("hidden_size", WIDTH)
        if width.value % heads.value:
            names = [fact.key.removeprefix(reader.path) for fact in (width, heads)]
            reader.refuse(names, f"{width.value:,} over {heads.value:,} heads is no whole number")
        dim = Fact("key_dim", width.value // heads.value, width.key, f"{width.key} / {heads.key}")
    own = HeadsCache(heads.value, dim.value, dim.value)
    cross = CrossCache(heads.value, dim.value)
    rule = "keys and values of the decoder's tokens, and of the encoder's"
    layers = tuple(Layer(i, (own, cross), rule, (heads, dim)) for i in range(count.value))
    note = "the encoder's own layers keep nothing between steps"
    return CachePlan(reader.family.model_type, layers, f"{count.key} decoder layers", (note,))


SPECIAL: dict[str, Callable[[Reader], CachePlan]] = {
    "compressed": _compressed,
    "blocks": _blocks,
    "open_elm": _open_elm,
    "cross_layer": _cross_layer,
    "twice": _twice,
    "encoder_decoder": _encoder_decoder,
}
"""By the `plan` column of model_types.csv."""
