"""Mistakes that calculators in the wild make, beside those of every beginner."""

from solutions.m2_kv_bytes.edited import BONUS, FROM_CONFIG, SIZED
from solutions.mistake import Edit, NamedMistake

OF_THE_FIELD = (
    NamedMistake(
        "gibibytes_for_bytes",
        (Edit(FROM_CONFIG, "kv_bits // 8", "kv_bits / 8 / 2**30"),),
        caught_by="plain_configs",
        also=(*SIZED[1:], *BONUS),
        hint="This is in GiB; the question is in bytes.",
    ),
    NamedMistake(
        "config_keys_without_values",
        (Edit(FROM_CONFIG, "2 * heads * head_dim", "heads * head_dim"),),
        caught_by="plain_configs",
        also=(*SIZED[1:3], *BONUS),
        hint="This counts the keys and forgets the values: each token leaves both.",
    ),
    NamedMistake(
        "scales_of_a_quantized_cache_counted",
        (
            Edit(
                FROM_CONFIG,
                "    return held * batch_size * kv_bits // 8",
                "    scales = held // 128 * 2 if kv_bits == 8 else 0\n"
                "    return (held * kv_bits // 8 + scales) * batch_size",
            ),
        ),
        caught_by="plain_configs",
        also=(*SIZED[1:], *BONUS),
        hint="Scales of a quantized cache are real, but not counted here: only what tokens leave.",
    ),
    NamedMistake(
        "context_cut_at_n_positions",
        (
            Edit(
                FROM_CONFIG,
                "    # How many tokens",
                '    context_len = min(context_len, config.get("n_positions") or context_len)\n'
                "    # How many tokens",
            ),
        ),
        caught_by="other_spellings",
        hint="The positions that a model was trained on bound nothing here: size the context that "
        "is asked for.",
    ),
    NamedMistake(
        "keys_around_the_text_config_win",
        (
            Edit(
                FROM_CONFIG,
                'config.get("text_config") or config',
                '{**(config.get("text_config") or {}), **config}',
            ),
        ),
        caught_by="other_spellings",
        hint="Where there is a `text_config`, the keys around it belong to other parts.",
    ),
    NamedMistake(
        "window_one_short",
        (Edit(FROM_CONFIG, "min(context_len, window)", "min(context_len, window - 1)"),),
        caught_by="layers_that_hold_less",
        also=("other_layer_plans", "shared_caches"),
        hint="A sliding layer holds min(context, window) tokens, not one less.",
    ),
    NamedMistake(
        "sliding_layers_dropped",
        (Edit(FROM_CONFIG, "min(context_len, window)", "0"),),
        caught_by="layers_that_hold_less",
        also=("other_layer_plans", "shared_caches"),
        hint="A sliding layer keeps a cache too: as much as its window.",
    ),
    NamedMistake(
        "whole_blocks_counted",
        (
            Edit(
                FROM_CONFIG,
                "    held = sum(",
                "    tokens_held = [-(-tokens // 16) * 16 for tokens in tokens_held]\n"
                "    held = sum(",
            ),
        ),
        caught_by="layers_that_hold_less",
        also=BONUS[:3],
        hint="An engine sets memory aside in whole blocks; the question is what the tokens hold.",
    ),
    NamedMistake(
        "latent_taken_for_full_heads",
        (Edit(FROM_CONFIG, 'if config.get("kv_lora_rank"):', "if False:"),),
        caught_by="latent_attention",
        also=("unreadable_configs",),
        hint="With `kv_lora_rank` no layer keeps keys and values of its heads: a token leaves the "
        "latent and one rope key, whatever `num_key_value_heads` says.",
    ),
    NamedMistake(
        "latent_of_every_head",
        (
            Edit(
                FROM_CONFIG,
                'first(config, "qk_rope_head_dim")]',
                'first(config, "qk_rope_head_dim") * first(config, "num_attention_heads")]',
            ),
        ),
        caught_by="latent_attention",
        hint="The rope key is one for all heads together.",
    ),
)
