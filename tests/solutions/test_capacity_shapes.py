"""Released shapes are sized as their makers describe them, and the rule and key are told."""

from __future__ import annotations

import copy

import pytest

from solutions.capacity import ConfigRefusedError, read_plan, size_cache
from tests.solutions.capacity_shapes import FAR, SHAPES, Config, Shape, llama, mla

every_shape = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


def far(config: Config) -> float:
    return read_plan(config).kv_bytes_per_token(FAR)


@every_shape
def test_a_token_adds_what_the_makers_describe(shape: Shape) -> None:
    assert shape.wrong != shape.right, f"{shape.mistake} would not show"
    assert far(shape.config) == shape.right, shape.because


@every_shape
def test_every_number_of_a_layer_names_a_key(shape: Shape) -> None:
    plan = read_plan(shape.config)
    nested = shape.config.get("text_config", shape.config)
    for layer in plan.layers:
        assert layer.rule
        for fact in layer.facts:
            key = fact.key.removeprefix("text_config.").split(".")[0].split("[")[0]
            assert key in nested or "class default" in fact.rule, fact


@every_shape
def test_reading_leaves_the_config_as_it_was(shape: Shape) -> None:
    before = copy.deepcopy(shape.config)
    read_plan(shape.config)
    assert shape.config == before


def far_or_refused(config: Config) -> float | str:
    try:
        return far(config)
    except ConfigRefusedError:
        return "refused"


MEANT_BY_ABSENCE = {
    "num_key_value_heads",  # one for each query head
    "head_dim",  # the width over the heads, or the class's own
    "attention_head_dim",
    "v_head_dim",  # as wide as a key
    "sliding_window",  # the class's
    "sliding_window_pattern",
    "use_sliding_window",
    "index_topk",  # no sparse attention
    "num_kv_shared_layers",
    "use_cla",
    "attention_chunk_size",
    "multi_query",
    "new_decoder_architecture",
    "swa_head_dim",
    "swa_v_head_dim",
    "attn_type_list",
    "num_attention_groups",
    "kv_lora_rank",  # DeepSeek's classes have one
    "qk_rope_head_dim",
    "hidden_size",  # of a nested section: the class's
    "num_hidden_layers",
    "linear_attn_config",
    "hybrid_layer_pattern",
    "attention_head_type",  # GPT-2's own heads
}


@every_shape
def test_a_key_taken_away_changes_the_size_only_if_its_absence_means_something(
    shape: Shape,
) -> None:
    nested = shape.config.get("text_config")
    for key in nested or shape.config:
        if key in MEANT_BY_ABSENCE:
            continue
        config = copy.deepcopy(shape.config)
        del (config["text_config"] if nested else config)[key]
        assert far_or_refused(config) in (shape.right, "refused"), f"without {key}"


def test_window_layers_keep_the_window_and_full_layers_everything() -> None:
    kinds = ["sliding_attention", "full_attention"]
    plan = read_plan(llama(2, 8, 2, 512, layer_types=kinds, sliding_window=100))
    a_token = 2 * 2 * 64 * 2
    assert plan.kv_bytes(50) == 2 * 50 * a_token
    assert plan.kv_bytes(100) == 2 * 100 * a_token
    assert plan.kv_bytes(101) == 201 * a_token, "101 windows tokens kept would be off by one"
    assert plan.counts == {"sliding": 1, "full": 1}


def test_a_compressed_entry_comes_when_its_tokens_are_complete() -> None:
    v4 = {"model_type": "deepseek_v4", "num_hidden_layers": 3, "head_dim": 512}
    v4 |= {"sliding_window": 8, "index_head_dim": 128, "compress_ratios": [0, 4, 128, 0]}
    v4 |= {"num_nextn_predict_layers": 1}
    plan = read_plan(v4)
    window, indexed, heavy = 3 * 8 * 1_024, 1_024 + 256, 1_024
    assert plan.kv_bytes(8) == window + 2 * indexed
    assert plan.kv_bytes(11) == window + 2 * indexed, "a third entry needs a twelfth token"
    assert plan.kv_bytes(128) == window + 32 * indexed + heavy
    assert plan.counts == {"sliding": 1, "compressed": 2}, "the fourth ratio is a draft layer's"


def test_a_latent_that_is_switched_off_leaves_the_heads() -> None:
    # deepseek-ai/deepseek-vl2-tiny: use_mla is false, and its heads are Llama's.
    heads = mla("deepseek_v2", 12, 10, 1_280, use_mla=False) | {"v_head_dim": 0}
    assert far(heads) == 12 * 2 * 10 * 128 * 2
    assert far(heads | {"use_mla": True}) == 12 * 576 * 2


def test_gemma_4_full_layers_have_their_own_heads() -> None:
    # The class's rule: global_head_dim for full layers, fewer heads only where keys are values.
    text = llama(6, 8, 4, 2_048, model_type="gemma4_text", head_dim=256, sliding_window=512)
    text |= {"global_head_dim": 512, "num_global_key_value_heads": 2}
    assert far(text | {"attention_k_eq_v": True}) == 2 * 2 * 512 * 2
    assert far(text | {"attention_k_eq_v": False}) == 2 * 4 * 512 * 2


def test_a_class_default_is_taken_where_the_file_has_no_such_key_and_a_null_switches_it_off() -> (
    None
):
    mistral = llama(2, 8, 8, 512, model_type="mistral")
    assert read_plan(mistral).counts == {"sliding": 2}, "MistralConfig has a window of 4,096"
    assert read_plan(mistral | {"sliding_window": None}).counts == {"full": 2}
    del mistral["num_key_value_heads"]
    assert far(mistral | {"sliding_window": None}) == 2 * 2 * 8 * 64 * 2
    dbrx = {"model_type": "dbrx", "d_model": 512, "n_heads": 8, "n_layers": 2}
    assert far(dbrx) == 2 * 2 * 1 * 64 * 2, "DbrxAttentionConfig has one KV head"
    assert far(dbrx | {"attn_config": {"kv_n_heads": 4}}) == 2 * 2 * 4 * 64 * 2


def test_state_of_each_architecture_follows_its_published_layout() -> None:
    # Shapes of transformers' and vLLM's own calculators, worked out by hand, 16 bits.
    mamba2 = next(shape for shape in SHAPES if shape.name == "Bamba-9B").config
    inputs, state = (8_192 + 2 * 128) * 3, 128 * 64 * 128
    assert read_plan(mamba2).state_bytes() == 29 * 2 * (inputs + state)
    assert read_plan(mamba2).state_bytes(32) == 29 * (2 * inputs + 4 * state)
    kimi = next(shape for shape in SHAPES if shape.name.startswith("Kimi")).config
    inputs, state = 3 * 32 * 128 * 3, 32 * 128 * 128
    assert read_plan(kimi).state_bytes() == 20 * 2 * (inputs + state)
    assert read_plan(kimi).engine_state_bytes() == 20 * (2 * inputs + 4 * state)
    lightning = next(shape for shape in SHAPES if shape.name == "MiniMax-Text-01").config
    assert read_plan(lightning).state_bytes() == 70 * 2 * 64 * 128 * 128
    rwkv = {"model_type": "rwkv6", "num_hidden_layers": 2, "hidden_size": 512, "head_size": 64}
    assert read_plan(rwkv).state_bytes() == 2 * 2 * (512 * 64 + 2 * 512)


def test_states_that_stand_beside_windows_or_come_in_two_generations() -> None:
    # Worked out by hand from the same sources as the shapes, 16 bits.
    flash = read_plan(next(s for s in SHAPES if s.name == "Phi-4-mini-flash").config)
    assert flash.counts == {"state": 9, "sliding": 8, "full": 1, "shared": 14}
    assert flash.state_bytes() == 9 * 2 * (5_120 * 3 + 5_120 * 16)
    assert flash.kv_bytes(1_000) == (8 * 512 + 1_000) * 2 * 20 * 64 * 2
    linear = read_plan(next(s for s in SHAPES if s.name.startswith("Ring-mini")).config)
    assert linear.state_bytes() == 16 * 2 * 16 * 128 * 128
    # vllm 0.33.0 models/bailing_moe_linear.py: Ling 2.5 has lightning attention, no convolution.
    ling = mla("bailing_hybrid", 80, 64, 8_192, head_dim=128, layer_group_size=8)
    assert read_plan(ling | {"group_norm_size": 8}).state_bytes() == 70 * 2 * 64 * 128 * 128
    newer = ling | {"group_norm_size": 1, "short_conv_kernel_size": 4}
    inputs, state = 3 * 64 * 128 * 3, 64 * 128 * 128
    assert read_plan(newer).state_bytes() == 70 * 2 * (inputs + state)


def test_keys_of_states_that_no_layer_has_are_their_class_s() -> None:
    # ibm-granite/granite-4.0-micro: all its layers attend, and its file still describes Mamba-2.
    granite = llama(40, 40, 8, 2_560, model_type="granitemoehybrid")
    granite |= {"mamba_d_state": 256, "mamba_d_conv": 4, "mamba_d_head": 64, "mamba_n_heads": 64}
    plan = read_plan(granite | {"layer_types": ["attention"] * 40})
    assert plan.kv_bytes_per_token(FAR) == 40 * 2 * 8 * 64 * 2
    assert plan.counts == {"full": 40}


def test_layers_left_behind_the_last_group_attend_to_everything() -> None:
    ring = llama(7, 8, 2, 512, model_type="bailing_moe_linear", layer_group_size=3)
    kinds = [layer.kinds[0] for layer in read_plan(ring).layers]
    assert kinds == ["state", "state", "full", "state", "state", "full", "full"]


def test_cross_attention_is_sized_by_the_encoder_alone() -> None:
    whisper = next(shape for shape in SHAPES if shape.name.startswith("Whisper")).config
    size = size_cache(whisper, 448, encoder_len=1_500)
    assert size.kv_bytes == 448 * 163_840
    assert size.cross_bytes == 1_500 * 163_840
    assert dict(size.layers) == {"full": 32, "cross": 32}


def test_a_nested_section_wins_over_outer_keys_of_the_same_name() -> None:
    inner = llama(10, 8, 2, 512)
    outer = {"model_type": "llava", "num_hidden_layers": 99, "num_key_value_heads": 8}
    assert far(outer | {"text_config": inner}) == far(inner)


def test_a_nested_section_without_a_type_is_of_the_type_its_wrapper_has() -> None:
    gemma = copy.deepcopy(next(shape for shape in SHAPES if shape.name == "Gemma-3-4B"))
    del gemma.config["text_config"]["model_type"]
    assert far(gemma.config) == gemma.right
    with pytest.raises(ConfigRefusedError, match=r"text_config\.model_type"):
        read_plan(gemma.config | {"model_type": "nobody"})


def test_a_nested_section_may_leave_sizes_to_its_class_and_says_so() -> None:
    # llava-hf/llava-1.5-7b-hf: its text_config names the type and no size. A file is otherwise.
    text = {"model_type": "llama", "max_position_embeddings": 4_096, "vocab_size": 32_064}
    plan = read_plan({"model_type": "llava", "text_config": text})
    assert plan.kv_bytes_per_token(0) == 524_288
    assert all("class default of llama" in fact.rule for fact in plan.layers[0].facts)
    with pytest.raises(ConfigRefusedError, match="num_hidden_layers"):
        read_plan(text)
