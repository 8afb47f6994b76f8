"""Builds the plan of a config: which layers there are, and what each of them keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from solutions.capacity.caches import (
    Cache,
    CompressedCache,
    CrossCache,
    HeadsCache,
    LatentCache,
    NoCache,
)
from solutions.capacity.facts import Fact
from solutions.capacity.heads import QUERY_HEADS, Heads, full_heads, heads_of, sliding_heads
from solutions.capacity.latent import Latent, latent_of
from solutions.capacity.layer_plan import layer_plan
from solutions.capacity.plan import CachePlan, Layer
from solutions.capacity.plans import MORE_LAYERS, LayerPlan
from solutions.capacity.reader import Reader
from solutions.capacity.sections import decoder_section
from solutions.capacity.shared import shared_with
from solutions.capacity.special import SPECIAL
from solutions.capacity.states import State, state_of

ATTENDED = (HeadsCache, LatentCache, CompressedCache, CrossCache)
WINDOWS = ("sliding_window", "sliding_window_size", "attention_window_size")
SHAPING = (
    *("layer_types", "layers_block_type", "_block_types", "block_types", "attn_type_list"),
    *("hybrid_override_pattern", "hybrid_layer_pattern", "full_attn_idxs", "local_layer_ids"),
    *("attn_layer_period", "attn_layer_indices", "full_attention_interval", "layer_group_size"),
    *("sliding_window_pattern", "no_rope_layers", "attention_types", "attention_chunk_size"),
    *("linear_attn_config", "block_configs", "cross_attention_layers", "num_kv_shared_layers"),
    *("kv_source_layers", "per_layer_config", "use_cla", "compress_ratios", "index_topk"),
    *("sparse_attention_config", "num_query_groups", "attention_head_dim", "d_kv", "kv_channels"),
    *("swa_head_dim", "swa_num_key_value_heads", "global_head_dim", "attention_other_setting"),
    *("num_global_key_value_heads", "num_key_value_heads_per_layer", "kv_lora_rank"),
    *("sliding_window", "use_sliding_window", "max_window_layers", "attention_window_size"),
    *("multi_query", "multi_query_attention", "new_decoder_architecture", "conv_L_cache"),
    *("multi_query_group_num", "attention_head_type", "mb_per_layer"),
    *("mamba_d_state", "ssm_state_size", "linear_num_value_heads", "index_head_dim"),
)
"""Keys that shape a cache: one that says something and that no rule read is a contradiction."""
MOST_NAMED = 6


def read_plan(config: Mapping[str, Any]) -> CachePlan:
    """Read a config.json, already parsed; ConfigRefusedError names the key that stands in the way.

    Sizes are never guessed: what neither the file nor the class behind its `model_type` says is
    refused, and so is a key that would shape a cache of another architecture than this one.
    """
    reader = decoder_section(config)
    special = SPECIAL.get(reader.family.plan)
    plan = special(reader) if special else _ordinary(reader)
    unread = reader.unread(SHAPING)
    if unread:
        reader.refuse(
            unread[:MOST_NAMED],
            f"{reader.family.model_type} has no use for it, and it would change the cache",
        )
    return plan


def _ordinary(reader: Reader) -> CachePlan:
    if reader.given("use_bidirectional_attention") in (True, "all"):
        reader.refuse(["use_bidirectional_attention"], "on: an encoder keeps nothing between steps")
    plan = layer_plan(reader)
    parts = _Parts(reader, plan)
    owners = shared_with(reader, plan.kinds)
    layers = [
        Layer(i, *parts.layer(i))
        if owner is None
        else Layer(i, (NoCache("shared"),), f"it reads the cache of layer {owner}")
        for i, owner in enumerate(owners)
    ]
    attends = any(isinstance(cache, ATTENDED) for layer in layers for cache in layer.caches)
    queries = reader.fact("n_heads", QUERY_HEADS) if attends else None  # else: heads of a state
    return CachePlan(
        reader.family.model_type,
        tuple(layers),
        plan.rule,
        _notes(reader),
        None if queries is None else queries.value,
    )


Made = tuple[tuple[Cache, ...], str, tuple[Fact, ...]]


class _Parts:
    """What the layers of one config are made of, each part read once and only if it is needed."""

    def __init__(self, reader: Reader, plan: LayerPlan) -> None:
        kinds = set(plan.kinds)
        attends = kinds & {"full", "both", "indexed", "chunked", "cross"}
        self.kinds = plan.kinds
        self.latent: Latent | None = latent_of(reader, len(plan.kinds))
        self.full: Heads | None = None
        self.sliding: Heads | None = None
        self.window: Fact | None = None
        self.chunk: Fact | None = None
        self.index: Fact | None = None
        self.state: State | None = None
        if attends and self.latent is None:
            self.full = full_heads(reader) if "sliding" in kinds else heads_of(reader)
        if "sliding" in kinds:
            if self.latent is not None:
                reader.refuse(["kv_lora_rank", plan.keys[0]], "a window over a latent is unknown")
            self.window = reader.need("window", WINDOWS)
            self.sliding = sliding_heads(reader)
        if "chunked" in kinds:
            self.chunk = reader.need("window", ["attention_chunk_size"])
            self.full = heads_of(reader)
        if "indexed" in kinds:
            place = "sparse_attention_config.sparse_index_dim"
            self.index = reader.need("index_dim", [place, "index_head_dim"])
        if reader.family.state or kinds & {"state", "both"}:
            self.state = state_of(reader)  # its keys may stand there though no layer has one

    def layer(self, i: int) -> Made:
        """Return the caches, the rule and the facts of layer `i`."""
        kind = self.kinds[i]
        if kind == "none":
            return (NoCache("none"),), "a block without attention or state", ()
        if kind == "shared":
            return (NoCache("shared"),), "it reads what a layer before it keeps", ()
        if kind == "state":
            return self._state()
        if kind == "sliding":
            return self._heads(self.sliding, self.window, "the last {} tokens' keys and values")
        if kind == "chunked":
            return self._heads(self.full, self.chunk, "keys and values of a chunk of {} tokens")
        if kind == "cross":
            return self._cross()
        attention = self._full(i, indexed=kind == "indexed")
        if kind != "both":
            return attention
        state = self._state()
        joined = f"{attention[1]}; beside it {state[1]}"
        return attention[0] + state[0], joined, attention[2] + state[2]

    def _full(self, i: int, *, indexed: bool) -> Made:
        if self.latent is not None:
            latent = self.latent.cache(i)
            rule = "a latent and a rotary key of every token, once for all heads"
            if latent.index_dim:
                rule += ", and an index key in FP8 with its scale"
            return (latent,), rule, self.latent.facts
        assert self.full is not None  # read above for every kind that attends
        heads, facts = self.full, self.full.facts
        rule = "keys and values of every token"
        if indexed and self.index is not None:
            rule += ", and an index key in the model's dtype"
            facts = (*facts, self.index)
        cache = HeadsCache(
            heads.n_kv_heads.value,
            heads.key_dim.value,
            heads.value_dim.value,
            index_values=self.index.value if indexed and self.index is not None else 0,
        )
        return (cache,), rule, facts

    def _heads(self, heads: Heads | None, window: Fact | None, rule: str) -> Made:
        assert heads is not None  # read above together
        assert window is not None
        cache = HeadsCache(
            heads.n_kv_heads.value,
            heads.key_dim.value,
            heads.value_dim.value,
            window=window.value,
            chunked=window is self.chunk,
        )
        return (cache,), rule.format(f"{window.value:,}"), (*heads.facts, window)

    def _cross(self) -> Made:
        assert self.full is not None
        cache = CrossCache(self.full.n_kv_heads.value, self.full.key_dim.value)
        return (cache,), "keys and values of the encoder's tokens only", self.full.facts

    def _state(self) -> Made:
        assert self.state is not None
        return (self.state.cache,), self.state.rule, self.state.facts


def _notes(reader: Reader) -> tuple[str, ...]:
    notes = []
    for key in MORE_LAYERS:
        drafts = reader.whole(key, least=0)
        if drafts:
            notes.append(
                f"{reader.where(key)} = {drafts}: layers that draft tokens are not counted; an "
                "engine that speculates with them needs their cache too"
            )
    return tuple(notes)
