"""What vLLM sets aside: whole blocks, windows, copies across GPUs, FP8 formats, states."""

from __future__ import annotations

import pytest

from solutions.capacity import ConfigRefusedError, size_cache
from tests.solutions.capacity_shapes import SHAPES, Config, llama, mla

TOKEN = 2 * 64 * 2  # bytes of a token in one head of 64, 16 bits
SMALL = llama(1, 8, 2, 512)
V32 = next(shape for shape in SHAPES if shape.name == "DeepSeek-V3.2").config
BAMBA = next(shape for shape in SHAPES if shape.name == "Bamba-9B").config


def per_gpu(config: Config, context: int, **how: int) -> int:
    return size_cache(config, context, **how).allocated_bytes_per_gpu


@pytest.mark.parametrize(("context", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2), (33, 3)])
def test_blocks_are_whole(context: int, blocks: int) -> None:
    assert per_gpu(SMALL, context) == blocks * 16 * 2 * TOKEN


def test_a_window_holds_one_block_more_since_it_may_begin_in_the_middle_of_one() -> None:
    window = SMALL | {"model_type": "mistral", "sliding_window": 32}
    assert per_gpu(window, 1_000) == 3 * 16 * 2 * TOKEN
    assert per_gpu(window, 20) == 2 * 16 * 2 * TOKEN, "no more than the context fills"


def test_a_chunk_holds_itself_and_the_token_of_a_step() -> None:
    chunk = SMALL | {"model_type": "llama4_text", "attention_chunk_size": 32, "head_dim": 64}
    assert per_gpu(chunk, 1_000) == 3 * 16 * 2 * TOKEN
    assert per_gpu(chunk, 32) == 2 * 16 * 2 * TOKEN


@pytest.mark.parametrize(("tp", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1), (32, 1)])
def test_heads_are_shared_out_and_copied_where_there_are_fewer_than_gpus(
    tp: int, heads: int
) -> None:
    grouped = llama(1, 32, 8, 2_048)
    size = size_cache(grouped, 16, tp=tp)
    assert size.allocated_bytes_per_gpu == 16 * heads * TOKEN
    assert size.kv_bytes == 16 * 8 * TOKEN, "what the architecture keeps does not change"


def test_a_latent_is_copied_to_every_gpu() -> None:
    deep = mla("deepseek_v3", 3, 16, 512)
    assert per_gpu(deep, 16, tp=8) == per_gpu(deep, 16)
    assert size_cache(deep, 16, tp=8).allocated_bytes == 8 * size_cache(deep, 16).kv_bytes


@pytest.mark.parametrize("tp", [3, 5, 12])
def test_heads_that_gpus_cannot_share_evenly_are_refused(tp: int) -> None:
    with pytest.raises(ConfigRefusedError, match=r"^tp: .* 8 KV heads"):
        size_cache(llama(1, 32, 8, 2_048), 16, tp=tp)


def test_query_heads_that_gpus_cannot_share_are_told() -> None:
    shared, latent = llama(1, 14, 1, 896), mla("deepseek_v3", 1, 128, 7_168)
    for config, tp, told in ((shared, 2, 0), (shared, 4, 1), (latent, 8, 0), (latent, 3, 1)):
        notes = size_cache(config, 16, tp=tp).notes
        assert [f"query heads on {tp} GPUs" in note for note in notes] == [True] * told


def test_heads_of_a_state_are_no_query_heads() -> None:
    mamba = {"model_type": "mamba2", "num_hidden_layers": 2, "hidden_size": 32, "state_size": 8}
    mamba |= {"num_heads": 8, "head_dim": 8, "n_groups": 2, "conv_kernel": 4}
    assert size_cache(mamba | {"num_attention_heads": 4}, 16, tp=8).notes == ()


def test_fp8_halves_keys_and_values_and_its_scales_cost_nothing_a_token() -> None:
    assert size_cache(SMALL, 16, kv_bits=8).kv_bytes * 2 == size_cache(SMALL, 16).kv_bytes


def test_fp8_of_a_sparse_latent_is_656_bytes_and_its_index_key_132() -> None:
    # vLLM 0.33.0 v1/attention/backends/mla/flashmla_sparse.py; half of 576 x 2 would be wrong.
    token = size_cache(V32, 1, kv_bits=8).kv_bytes
    assert token == 61 * (656 + 132)
    assert token != 61 * (576 + 132)
    plain = mla("deepseek_v3", 61, 128, 7_168)
    assert size_cache(plain, 1, kv_bits=8).kv_bytes == 61 * 576


def test_only_layers_with_an_indexer_of_their_own_keep_index_keys() -> None:
    types = ["full", "shared", "shared", "full"]
    glm = mla("glm_moe_dsa", 4, 16, 512, index_topk=8, index_head_dim=128, indexer_types=types)
    assert size_cache(glm, 1).kv_bytes == 4 * 576 * 2 + 2 * 132
    every = {key: value for key, value in glm.items() if key != "indexer_types"}
    assert size_cache(every, 1).kv_bytes == 4 * (576 * 2 + 132)


def test_groups_of_a_state_are_copied_where_there_are_fewer_than_gpus() -> None:
    # One group of input and output maps, 128 numbers each, 3 columns, 2 bytes, on every GPU.
    heads, group = 128 * 64 * (3 + 128) * 2, 2 * 128 * 3 * 2
    attention = 3 * 16 * 8 * 2 * 128 * 2
    assert per_gpu(BAMBA, 16, tp=1) == 29 * (heads + group) + attention
    assert per_gpu(BAMBA, 16, tp=4) == 29 * (heads // 4 + group) + attention // 4


def test_a_state_is_kept_in_the_width_its_config_names() -> None:
    wide = BAMBA | {"mamba_ssm_cache_dtype": "float32"}
    assert size_cache(BAMBA, 1).state_bytes_engine == size_cache(BAMBA, 1).state_bytes
    assert size_cache(wide, 1).state_bytes_engine == size_cache(BAMBA, 1).state_bytes_fp32
    assert size_cache(wide, 1).state_bytes == size_cache(BAMBA, 1).state_bytes
    more = size_cache(wide, 1).state_bytes_fp32 - size_cache(wide, 1).state_bytes
    assert per_gpu(wide, 1) - per_gpu(BAMBA, 1) == more


def test_cross_attention_takes_blocks_of_the_encoder() -> None:
    bart = {"model_type": "bart", "d_model": 128, "decoder_layers": 1}
    bart |= {"decoder_attention_heads": 2}
    assert per_gpu(bart, 16, encoder_len=17) == (16 + 32) * 2 * TOKEN
