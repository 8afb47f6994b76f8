"""What cannot be sized is refused by name: missing, absurd, unknown and contradictory keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from solutions.capacity import ConfigRefusedError, read_plan, size_cache
from solutions.capacity.loading import load_config
from tests.solutions.capacity_shapes import Config, llama, mla

PLAIN = llama(4, 8, 2, 512)
KINDS = ["full_attention"] * 4
SLIDING = ["full_attention", *["sliding_attention"] * 3]
MAMBA = {"model_type": "mamba2", "num_hidden_layers": 2, "hidden_size": 64, "state_size": 16}
KDA = {"full_attn_layers": [4], "kda_layers": [1, 2, 3], "head_dim": 8, "num_heads": 4}


def without(config: Config, *keys: str) -> Config:
    return {key: value for key, value in config.items() if key not in keys}


MISSING = {
    "num_hidden_layers": without(PLAIN, "num_hidden_layers"),
    "num_attention_heads": without(PLAIN, "num_attention_heads", "num_key_value_heads"),
    "hidden_size": without(PLAIN, "hidden_size"),
    "model_type": without(PLAIN, "model_type"),
    "qk_rope_head_dim": PLAIN | {"kv_lora_rank": 512},
    "sliding_window": PLAIN | {"layer_types": SLIDING},
    "multi_query_group_num": without(PLAIN, "num_key_value_heads")
    | {"model_type": "chatglm", "multi_query_attention": True},
    "index_head_dim": mla("deepseek_v3", 4, 8, 512, index_topk=16),
    "hybrid_override_pattern": without(PLAIN, "num_hidden_layers") | {"model_type": "nemotron_h"},
    "block_configs": PLAIN | {"model_type": "nemotron-nas"},
    "swa_num_key_value_heads": PLAIN
    | {"model_type": "mimo_v2", "hybrid_layer_pattern": [0, 1, 1, 1], "sliding_window": 9},
    "text_config": {"model_type": "gemma3", "num_hidden_layers": 3},
    "cla_share_factor": PLAIN | {"model_type": "hunyuan", "use_cla": True},
    "compress_ratios": {"model_type": "deepseek_v4", "head_dim": 8, "num_hidden_layers": 2}
    | {"sliding_window": 8, "index_head_dim": 8},
    "decoder_layers": {"model_type": "bart", "d_model": 64, "decoder_attention_heads": 4},
    "num_kv_heads": {"model_type": "openelm", "num_transformer_layers": 2, "head_dim": 8},
}


@pytest.mark.parametrize("key", MISSING)
def test_a_key_that_is_missing_is_named(key: str) -> None:
    with pytest.raises(ConfigRefusedError) as refused:
        read_plan(MISSING[key])
    assert key in {named.split(".")[-1] for named in refused.value.keys}
    assert "missing" in refused.value.reason


ABSURD: tuple[Any, ...] = (
    0,
    -1,
    True,
    4.0,
    1e30,
    float("nan"),
    float("inf"),
    "32",
    [32],
    {},
    2**80,
)


@pytest.mark.parametrize("value", ABSURD, ids=repr)
@pytest.mark.parametrize("key", ["num_hidden_layers", "num_attention_heads", "num_key_value_heads"])
def test_an_absurd_number_is_refused_by_its_key(key: str, value: Any) -> None:
    with pytest.raises(ConfigRefusedError) as refused:
        read_plan(PLAIN | {key: value})
    assert refused.value.keys == (key,)


CONTRADICTIONS: dict[str, tuple[Config, set[str]]] = {
    "two spellings that differ": (PLAIN | {"n_layer": 5}, {"num_hidden_layers", "n_layer"}),
    "more entries than layers": (
        PLAIN | {"layer_types": [*KINDS, "full_attention"]},
        {"layer_types", "num_hidden_layers"},
    ),
    "fewer entries than layers": (PLAIN | {"layer_types": KINDS[1:]}, {"layer_types"}),
    "a kind nobody knows": (PLAIN | {"layer_types": [*KINDS[1:], "telepathy"]}, {"layer_types"}),
    "a list and a pattern": (
        PLAIN
        | {"model_type": "gemma3_text", "sliding_window": 9, "layer_types": SLIDING}
        | {"sliding_window_pattern": 2},
        {"layer_types", "sliding_window_pattern"},
    ),
    "windows listed and switched off": (
        PLAIN
        | {"model_type": "qwen2", "sliding_window": 9, "layer_types": SLIDING}
        | {"use_sliding_window": False},
        {"use_sliding_window"},
    ),
    "a window where the architecture has none": (PLAIN | {"sliding_window": 9}, {"sliding_window"}),
    "a key of another architecture": (PLAIN | {"attn_layer_period": 2}, {"attn_layer_period"}),
    "states where there are none": (PLAIN | {"mamba_d_state": 16}, {"mamba_d_state"}),
    "wider heads of layers there are not": (PLAIN | {"global_head_dim": 9}, {"global_head_dim"}),
    "heads that do not share evenly": (PLAIN | {"num_key_value_heads": 3}, {"num_key_value_heads"}),
    "a width that heads do not divide": (PLAIN | {"hidden_size": 513}, {"hidden_size"}),
    "one KV head and several": (
        PLAIN | {"model_type": "gpt_bigcode", "multi_query": True, "num_key_value_heads": 2},
        {"multi_query", "num_key_value_heads"},
    ),
    "fewer KV heads where each query head has its own": (
        PLAIN | {"model_type": "chatglm", "multi_query_attention": False},
        {"multi_query_attention", "num_key_value_heads"},
    ),
    "KV heads by two names that differ": (
        PLAIN | {"n_kv_heads": 4},
        {"num_key_value_heads", "n_kv_heads"},
    ),
    "groups of heads and no word that they are used": (
        PLAIN | {"model_type": "chatglm", "multi_query_group_num": 4},
        {"multi_query_group_num"},
    ),
    "a rhythm of states where there are none": (PLAIN | {"mb_per_layer": 2}, {"mb_per_layer"}),
    "an unknown kind of heads": (
        PLAIN | {"model_type": "gpt2", "attention_head_type": "multiverse"},
        {"attention_head_type"},
    ),
    "latent attention without a latent": (
        mla("deepseek_v3", 4, 8, 512, kv_lora_rank=None),
        {"kv_lora_rank"},
    ),
    "two lists of blocks that differ": (
        PLAIN
        | {"model_type": "recurrent_gemma", "_block_types": ["recurrent", "attention"]}
        | {"block_types": ["attention"], "attention_window_size": 9},
        {"_block_types", "block_types"},
    ),
    "another rhythm of states": (
        PLAIN | {"model_type": "phi4flash", "mb_per_layer": 3, "sliding_window": 9},
        {"mb_per_layer"},
    ),
    "two language models": (
        {"model_type": "x", "text_config": PLAIN, "llm_config": PLAIN},
        {"text_config", "llm_config"},
    ),
    "layers named twice": (
        mla("kimi_linear", 4, 8, 512, linear_attn_config=KDA | {"kda_layers": [1, 2, 4]}),
        {"linear_attn_config.full_attn_layers", "linear_attn_config.kda_layers"},
    ),
    "layers counted from 0": (
        mla("kimi_linear", 4, 8, 512, linear_attn_config=KDA | {"kda_layers": [0, 1, 2]}),
        {"linear_attn_config.kda_layers"},
    ),
    "an offset beyond the period": (
        PLAIN | {"model_type": "jamba", "attn_layer_period": 2, "attn_layer_offset": 2},
        {"attn_layer_offset", "attn_layer_period"},
    ),
    "every layer shared": (PLAIN | {"num_kv_shared_layers": 4}, {"num_kv_shared_layers"}),
    "an unknown letter": (
        PLAIN | {"model_type": "nemotron_h", "hybrid_override_pattern": "M*-X"},
        {"hybrid_override_pattern"},
    ),
    "a sink nobody explained": (
        PLAIN
        | {"model_type": "nemotron-nas", "num_hidden_layers": 1}
        | {"block_configs": [{"attention": {"n_heads_in_group": 4, "window_length": 9}}]},
        {"block_configs"},
    ),
    "an unknown ratio": (
        {"model_type": "deepseek_v4", "head_dim": 8, "num_hidden_layers": 1, "sliding_window": 8}
        | {"index_head_dim": 8, "compress_ratios": [7]},
        {"compress_ratios"},
    ),
    "an unknown architecture": (PLAIN | {"model_type": "llama9"}, {"model_type"}),
    "a decoder that looks ahead": (
        PLAIN | {"model_type": "gemma3_text", "use_bidirectional_attention": True},
        {"use_bidirectional_attention"},
    ),
    "an encoder": (PLAIN | {"model_type": "bert"}, {"model_type"}),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_a_contradiction_is_refused_by_the_keys_that_contradict(what: str) -> None:
    config, keys = CONTRADICTIONS[what]
    with pytest.raises(ConfigRefusedError) as refused:
        read_plan(config)
    assert keys <= set(refused.value.keys)
    assert str(refused.value).startswith(refused.value.keys[0])


def test_a_key_that_stands_twice_must_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"rope_theta": NaN, "text_config": {"n_layer": 8, "n_layer": 8}}')
    assert load_config(file)["text_config"] == {"n_layer": 8}
    file.write_text('{"text_config": {"n_layer": 8, "n_layer": 9}}')
    with pytest.raises(ConfigRefusedError, match="n_layer"):
        load_config(file)


def test_a_refusal_is_a_value_error_that_names_the_place_in_the_file() -> None:
    with pytest.raises(ValueError, match=r"^text_config\.num_attention_heads"):
        read_plan({"model_type": "llava", "text_config": PLAIN | {"num_attention_heads": 0}})


def test_growing_caches_are_sized_though_a_state_is_not() -> None:
    kinds = ["linear_attention", *KINDS[1:]]
    plan = read_plan(PLAIN | {"layer_types": kinds})
    assert plan.kv_bytes(10) == 10 * 3 * 2 * 2 * 64 * 2
    with pytest.raises(ConfigRefusedError, match="model_type"):
        plan.state_bytes()
    with pytest.raises(ConfigRefusedError, match="model_type"):
        size_cache(PLAIN | {"layer_types": kinds}, 10)


def test_a_missing_size_of_a_state_is_named() -> None:
    with pytest.raises(ConfigRefusedError) as refused:
        size_cache(MAMBA | {"conv_kernel": 4, "expand": 2, "n_groups": 5, "num_heads": 8}, 10)
    assert "n_groups" in refused.value.keys


@pytest.mark.parametrize(
    "question",
    [
        {"context_len": -1},
        {"context_len": 1.0},
        {"context_len": True},
        {"context_len": 2**60},
        {"context_len": 9, "batch_size": 0},
        {"context_len": 9, "kv_bits": 7},
        {"context_len": 9, "kv_bits": True},
        {"context_len": 9, "tp": 0},
        {"context_len": 9, "tp": 3},
        {"context_len": 9, "block_size": 0},
        {"context_len": 9, "encoder_len": 5},
    ],
    ids=str,
)
def test_a_question_that_cannot_be_meant_names_its_argument(question: dict[str, Any]) -> None:
    with pytest.raises(ConfigRefusedError) as refused:
        size_cache(PLAIN, **question)
    assert refused.value.keys[0] == list(question)[-1]


@pytest.mark.parametrize("config", [None, [], "llama", 3, {}], ids=repr)
def test_what_is_no_config_is_refused(config: Any) -> None:
    with pytest.raises(ConfigRefusedError):
        read_plan(config)
