"""Shapes of released models, retyped, and what one token of context adds to their caches.

`right` follows from the published description named in `source`, worked out by hand in `because`;
`wrong` is what a reader with a named mistake would say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]
FAR = 1_000_000  # tokens: beyond every window


@dataclass(frozen=True)
class Shape:
    """A config, the bytes that a token adds beyond every window, 16 bits, and where it is from."""

    name: str
    config: Config
    right: int
    because: str
    mistake: str
    wrong: int
    source: str


def llama(layers: int, heads: int, kv_heads: int, width: int, **more: Any) -> Config:
    """Return a plain config under Llama's key names."""
    return {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "hidden_size": width,
    } | more


def mla(model_type: str, layers: int, heads: int, width: int, **more: Any) -> Config:
    """Return a config with latent attention under DeepSeek's key names."""
    latent = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
    return llama(layers, heads, heads, width, model_type=model_type, v_head_dim=128) | latent | more


KIMI_FULL = [4, 8, 12, 16, 20, 24, 27]
MIMO_FULL = {0, 5, 11, 17, 23, 29, 35, 41, 47}
DEEPSEEK_PAPER = "Insights into DeepSeek-V3 (arXiv 2505.09343), table 1: KV cache per token"

SHAPES = (
    Shape(
        "Llama-3.1-405B",
        llama(126, 128, 8, 16_384),
        516_096,
        "126 x 2 x 8 x 128 x 2",
        "query heads for KV heads",
        126 * 2 * 128 * 128 * 2,
        DEEPSEEK_PAPER,
    ),
    Shape(
        "Qwen-2.5-72B",
        llama(
            80, 64, 8, 8_192, model_type="qwen2", sliding_window=131_072, use_sliding_window=False
        ),
        327_680,
        "80 x 2 x 8 x 128 x 2",
        "a window that is switched off",
        0,
        DEEPSEEK_PAPER,
    ),
    Shape(
        "DeepSeek-V3",
        mla("deepseek_v3", 61, 128, 7_168),
        70_272,
        "61 x (512 + 64) x 2",
        "128 KV heads as the file says",
        61 * 2 * 128 * 56 * 2,
        DEEPSEEK_PAPER,
    ),
    Shape(
        "Qwen3-0.6B",
        llama(28, 16, 8, 1_024, model_type="qwen3", head_dim=128),
        114_688,
        "28 x 2 x 8 x 128 x 2",
        "head_dim as hidden / heads",
        57_344,
        "Qwen/Qwen3-0.6B config.json",
    ),
    Shape(
        "Gemma-3-4B",
        {
            "model_type": "gemma3",
            "text_config": {
                "model_type": "gemma3_text",
                "hidden_size": 2_560,
                "num_hidden_layers": 34,
                "sliding_window": 1_024,
            },
        },
        20_480,
        "layers 6, 12, .. 30 are full: 5 x 2 x 4 x 256 x 2, with heads from the class",
        "windows counted as full",
        34 * 2 * 4 * 256 * 2,
        "google/gemma-3-4b-it config.json",
    ),
    Shape(
        "Gemma-3n-E4B",
        {
            "model_type": "gemma3n",
            "text_config": {
                "model_type": "gemma3n_text",
                "hidden_size": 2_048,
                "num_hidden_layers": 35,
                "num_attention_heads": 8,
                "num_key_value_heads": 2,
                "head_dim": 256,
                "sliding_window": 512,
                "num_kv_shared_layers": 15,
            },
        },
        8_192,
        "of the first 20 layers 4 are full: 4 x 2 x 2 x 256 x 2",
        "shared caches counted",
        7 * 2 * 2 * 256 * 2,
        "google/gemma-3n-E4B config.json",
    ),
    Shape(
        "Falcon-7B",
        {
            "model_type": "falcon",
            "num_hidden_layers": 32,
            "num_attention_heads": 71,
            "num_kv_heads": 71,
            "hidden_size": 4_544,
            "multi_query": True,
            "new_decoder_architecture": False,
        },
        8_192,
        "32 x 2 x 1 x 64 x 2",
        "num_kv_heads as stated",
        32 * 2 * 71 * 64 * 2,
        "tiiuae/falcon-7b config.json",
    ),
    Shape(
        "Kimi-Linear-48B",
        mla(
            "kimi_linear",
            27,
            32,
            2_304,
            linear_attn_config={
                "full_attn_layers": KIMI_FULL,
                "kda_layers": [i for i in range(1, 28) if i not in KIMI_FULL],
                "head_dim": 128,
                "num_heads": 32,
                "short_conv_kernel_size": 4,
            },
        ),
        8_064,
        "7 x (512 + 64) x 2",
        "a cache for every layer",
        27 * 576 * 2,
        "moonshotai/Kimi-Linear-48B-A3B-Base config.json",
    ),
    Shape(
        "MiniMax-Text-01",
        llama(
            80,
            64,
            8,
            6_144,
            model_type="minimax_text_01",
            head_dim=128,
            attn_type_list=[int(i % 8 == 7) for i in range(80)],
        ),
        40_960,
        "10 x 2 x 8 x 128 x 2",
        "hidden / heads",
        10 * 2 * 8 * 96 * 2,
        "MiniMaxAI/MiniMax-Text-01 config.json",
    ),
    Shape(
        "MiMo-V2-Flash",
        llama(
            48,
            64,
            4,
            4_096,
            model_type="mimo_v2_flash",
            head_dim=192,
            v_head_dim=128,
            swa_num_key_value_heads=8,
            swa_head_dim=192,
            swa_v_head_dim=128,
            sliding_window=128,
            sliding_window_size=128,
            attention_chunk_size=128,
            hybrid_layer_pattern=[int(i not in MIMO_FULL) for i in range(48)],
        ),
        9 * 4 * 320 * 2,
        "9 full layers x 4 heads x (192 + 128) x 2",
        "values as wide as keys",
        9 * 4 * 384 * 2,
        "XiaomiMiMo/MiMo-V2-Flash config.json",
    ),
    Shape(
        "Hunyuan-Large",
        llama(
            64,
            80,
            8,
            6_400,
            model_type="hunyuan",
            attention_head_dim=128,
            use_cla=True,
            cla_share_factor=2,
        ),
        131_072,
        "32 x 2 x 8 x 128 x 2",
        "cross-layer sharing ignored",
        262_144,
        "tencent/Tencent-Hunyuan-Large config.json",
    ),
    Shape(
        "LongCat-Flash",
        mla("longcat_flash", 28, 64, 6_144, num_layers=28) | {"num_hidden_layers": None},
        64_512,
        "28 x 2 attentions x 576 x 2",
        "one attention a layer",
        32_256,
        "meituan-longcat/LongCat-Flash-Chat config.json",
    ),
    Shape(
        "DeepSeek-V3.2",
        mla("deepseek_v32", 61, 128, 7_168, index_topk=2_048, index_head_dim=128),
        61 * (1_152 + 132),
        "61 x (576 x 2 + 128 + 4)",
        "index keys forgotten",
        70_272,
        "deepseek-ai/DeepSeek-V3.2-Exp config.json",
    ),
    Shape(
        "Step-3",
        {
            "model_type": "step3_vl",
            "text_config": {
                "model_type": "step3_text",
                "num_hidden_layers": 61,
                "num_attention_heads": 64,
                "num_attention_groups": 1,
                "head_dim": 256,
                "hidden_size": 7_168,
            },
        },
        62_464,
        "61 x 2 x 1 x 256 x 2",
        "64 KV heads",
        61 * 2 * 64 * 256 * 2,
        "stepfun-ai/step3 config.json",
    ),
    Shape(
        "Command R7B",
        llama(
            32, 32, 8, 4_096, model_type="cohere2", sliding_window=4_096, sliding_window_pattern=4
        ),
        32_768,
        "8 x 2 x 8 x 128 x 2",
        "windows counted as full",
        131_072,
        "CohereLabs/c4ai-command-r7b-12-2024 config.json",
    ),
    Shape(
        "Llama-4-Maverick",
        {
            "model_type": "llama4",
            "text_config": llama(
                48,
                40,
                8,
                5_120,
                model_type="llama4_text",
                head_dim=128,
                attention_chunk_size=8_192,
                no_rope_layers=[],
            ),
        },
        49_152,
        "12 x 2 x 8 x 128 x 2",
        "chunks counted as full",
        196_608,
        "meta-llama/Llama-4-Maverick-17B-128E-Instruct config.json",
    ),
    Shape(
        "Bamba-9B",
        llama(
            32,
            32,
            8,
            4_096,
            model_type="bamba",
            attn_layer_indices=[9, 18, 27],
            mamba_n_heads=128,
            mamba_d_head=64,
            mamba_n_groups=1,
            mamba_d_state=128,
            mamba_d_conv=4,
            mamba_expand=2,
        ),
        12_288,
        "3 x 2 x 8 x 128 x 2",
        "hybrid layers given a cache",
        131_072,
        "ibm-ai-platform/Bamba-9B config.json",
    ),
    Shape(
        "Whisper-large-v3",
        {
            "model_type": "whisper",
            "d_model": 1_280,
            "decoder_layers": 32,
            "decoder_attention_heads": 20,
            "encoder_layers": 32,
            "encoder_attention_heads": 20,
            "num_hidden_layers": 32,
        },
        163_840,
        "32 x 2 x 20 x 64 x 2",
        "cross attention counted a decoder token",
        327_680,
        "openai/whisper-large-v3 config.json",
    ),
    Shape(
        "OpenELM, cut to 3 layers",
        {
            "model_type": "openelm",
            "num_transformer_layers": 3,
            "num_query_heads": [12, 12, 16],
            "num_kv_heads": [3, 3, 4],
            "head_dim": 64,
            "model_dim": 1_280,
        },
        2_560,
        "(3 + 3 + 4) x 2 x 64 x 2",
        "the first layer for all",
        2_304,
        "apple/OpenELM-270M config.json",
    ),
    Shape(
        "Nemotron-Super-49B, cut to 4 layers",
        {
            "model_type": "nemotron-nas",
            "num_hidden_layers": 4,
            "num_attention_heads": 64,
            "num_key_value_heads": None,
            "hidden_size": 8_192,
            "block_configs": [
                {"attention": {"n_heads_in_group": 8, "no_op": False}},
                {"attention": {"n_heads_in_group": None, "no_op": True}},
                {"attention": {"n_heads_in_group": 8, "replace_with_linear": False}},
                {"attention": {"n_heads_in_group": None, "replace_with_linear": True}},
            ],
        },
        8_192,
        "2 x 2 x 8 x 128 x 2",
        "blocks without attention counted",
        16_384,
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1 config.json",
    ),
    Shape(
        "Qwen2.5-VL-7B, a flat file",
        llama(
            *(28, 28, 4, 3_584),
            model_type="qwen2_5_vl",
            sliding_window=32_768,
            max_window_layers=28,
            use_sliding_window=False,
        )
        | {"vision_config": {"depth": 32, "hidden_size": 1_280, "num_heads": 16}},
        57_344,
        "28 x 2 x 4 x 128 x 2",
        "query heads for KV heads",
        28 * 2 * 28 * 128 * 2,
        "Qwen/Qwen2.5-VL-7B-Instruct config.json",
    ),
    Shape(
        "LLaVA-1.5-7B, a flat file",
        llama(32, 32, 32, 4_096, model_type="llava"),
        524_288,
        "32 x 2 x 32 x 128 x 2",
        "a text_config of another size",
        40 * 2 * 40 * 128 * 2,
        "liuhaotian/llava-v1.5-7b config.json",
    ),
    Shape(
        "SantaCoder, its own code",
        {
            "model_type": "gpt2",
            "attention_head_type": "multiquery",
            "n_embd": 2_048,
            "n_head": 16,
            "n_layer": 24,
        },
        12_288,
        "24 x 2 x 1 x 128 x 2: all queries share one head",
        "GPT-2's heads",
        24 * 2 * 16 * 128 * 2,
        "bigcode/santacoder config.json, configuration_gpt2_mq.py",
    ),
    Shape(
        "OLMo-7B, its own code",
        {
            "model_type": "hf_olmo",
            "d_model": 4_096,
            "n_heads": 32,
            "n_layers": 32,
            "n_kv_heads": None,
            "multi_query_attention": False,
        },
        524_288,
        "32 x 2 x 32 x 128 x 2",
        "one head for all queries",
        32 * 2 * 128 * 2,
        "allenai/OLMo-7B config.json, olmo/config.py: effective_n_kv_heads",
    ),
    Shape(
        "Ring-mini-linear-2.0",
        llama(20, 16, 4, 2_048, model_type="bailing_moe_linear", head_dim=128, layer_group_size=5),
        8_192,
        "4 x 2 x 4 x 128 x 2: the last of each 5 layers",
        "a cache for every layer",
        20 * 2 * 4 * 128 * 2,
        "inclusionAI/Ring-mini-linear-2.0 config.json",
    ),
    Shape(
        "Phi-4-mini-flash",
        llama(32, 40, 20, 2_560, model_type="phi4flash", sliding_window=512, mb_per_layer=2)
        | {"mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2},
        5_120,
        "1 x 2 x 20 x 64 x 2: one layer of 32 keeps every token, and those behind it read it",
        "each layer with attention",
        16 * 2 * 20 * 64 * 2,
        "microsoft/Phi-4-mini-flash-reasoning config.json; vllm 0.10.2 models/phi4flash.py",
    ),
)
