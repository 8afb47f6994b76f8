"""The keys of a config file that the handout names, so that a message can be read for them."""

import re

LAYER_PLANS = (
    "layers_block_type",
    "_block_types",
    "hybrid_layer_pattern",
    "attn_layer_indices",
    "attention_types",
    "linear_attn_config",
)
OTHER_CACHES = (
    "cross_attention_layers",
    "compress_ratios",
    "index_topk",
    "sparse_attention_config",
    "num_query_groups",
    "attention_head_dim",
    "d_kv",
    "swa_head_dim",
    "swa_num_key_value_heads",
    "global_head_dim",
    "num_global_key_value_heads",
)
BONUS_PLANS = (
    "full_attention_interval",
    "sliding_window_pattern",
    "attn_layer_period",
    "hybrid_override_pattern",
    "attention_chunk_size",
    "no_rope_layers",
)
BONUS_CACHES = ("num_kv_shared_layers", "block_configs")
"""Keys of the rungs that earn a bonus: to be refused as well, by whoever does not read them."""

PLAN_IN_CODE = ("gemma2", "gemma3_text", "cohere2", "olmo3", "gpt_oss", "llama4_text")
"""Model types whose plan of layers is in their code where the file has no `layer_types`."""

LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
QUERY_HEADS = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads")
HEAD_SIZE = ("head_dim", "kv_channels")
WIDTH = ("hidden_size", "n_embd", "d_model")
FLAGS = (
    "multi_query",
    "new_decoder_architecture",
    "multi_query_attention",
    "multi_query_group_num",
)
LATENT = ("kv_lora_rank", "qk_rope_head_dim")
WINDOW = ("sliding_window", "use_sliding_window", "max_window_layers", "layer_types")
PLACES = ("text_config", "attn_config", "model_type")

KEYS = frozenset(
    (
        *(*LAYERS, *QUERY_HEADS, *KV_HEADS, *HEAD_SIZE, *WIDTH, *FLAGS, *LATENT, *WINDOW, *PLACES),
        *(*LAYER_PLANS, *OTHER_CACHES, *BONUS_PLANS, *BONUS_CACHES, "attn_layer_offset"),
    )
)
MOST_NAMED = 6  # the longest row of spellings has 4 keys; 6 leave room to say what they clash with


def named_in(message: str) -> frozenset[str]:
    """Return the handout's keys that a message names, as whole words."""
    return KEYS & frozenset(re.findall(r"\w+", message))
