"""Which layer is of which kind: the plan that a config spells out, or its class makes.

A plan in `model_types.csv` is the name of a rule and its arguments, as in
`period sliding sliding_window_pattern`. Kinds: `full`, `sliding`, `chunked`, `state`, `both`
(attention and state in one layer), `cross`, `indexed` (sparse attention with index
keys of its own), `shared` (it reads another layer's), `none`.
"""

from __future__ import annotations

from solutions.capacity.mixed_rules import MIXED_RULES
from solutions.capacity.plans import LayerPlan, trimmed
from solutions.capacity.reader import Reader, shown
from solutions.capacity.window_rules import WINDOW_RULES

LISTS = ("layer_types", "layers_block_type")
WORDS = {
    "full_attention": "full",
    "attention": "full",
    "global_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "state",
    "mamba": "state",
    "conv": "state",
    "hybrid": "both",
    "minimax_m3_sparse": "indexed",
    "indexed_attention": "full",  # the indexer is a fact of the latent cache
    "deepseek_sparse_attention": "full",
    "moe": "none",
    "mlp": "none",
}
RULES = WINDOW_RULES | MIXED_RULES
CHECKED = (
    *("period", "period_first", "period_back", "period_last", "period_rest"),
    *("indices", "flags", "letters"),
)
BESIDE_A_LIST = {
    "offset": ("attn_layer_period", "attn_layer_offset"),
    "zamba": ("attn_layer_period", "attn_layer_offset"),
    "rope_chunks": ("no_rope_layers", "no_rope_layer_interval", "attention_chunk_size"),
    "rope_window": ("no_rope_layers", "use_sliding_window"),
    "window_tail": ("max_window_layers", "use_sliding_window"),
    "type_numbers": ("attn_type_list",),
    "flags": ("attention_chunk_size",),
    "one_based": ("linear_attn_config",),
    "sparse": ("sparse_attention_config",),
}
"""Keys that a class leaves alone once the file lists the layers."""


def layer_plan(reader: Reader) -> LayerPlan:
    """Return the plan: a list in the file decides, and a rule that contradicts it is refused."""
    name, *args = reader.family.plan.split()
    spelled = _spelled(reader)
    if spelled is None:
        return RULES[name](reader, args)
    if name in CHECKED and reader.states(args[-1]) and reader.given(args[-1]) is not None:
        made = RULES[name](reader, args)
        if made.kinds != spelled.kinds:
            reader.refuse([*spelled.keys, args[-1]], "the two give different plans of the layers")
    for key in (*args[1:], *BESIDE_A_LIST.get(name, ())):
        reader.given(key)
    if "sliding" not in spelled.kinds:
        reader.given("sliding_window")
    elif reader.flag("use_sliding_window") is False and reader.states("use_sliding_window"):
        reader.refuse(
            ["use_sliding_window", *spelled.keys],
            "the window is off, yet layers are said to have it",
        )
    return spelled


def _spelled(reader: Reader) -> LayerPlan | None:
    for key in LISTS:
        entries = reader.listed(key)
        if entries is None:
            continue
        entries = trimmed(reader, key, entries)
        for entry in entries:
            if not isinstance(entry, str) or entry not in WORDS:
                reader.refuse([key], f"unknown kind of layer {shown(entry)}")
        kinds = tuple(WORDS[entry] for entry in entries)
        return LayerPlan(kinds, f"{key} lists every layer", (key,))
    return None
