"""The named mistakes of milestone 2."""

from solutions.m2_kv_bytes.edited import (
    BONUS,
    FIRST,
    FOR_RUNS,
    FROM_CONFIG,
    HEADS,
    KINDS,
    PER_TOKEN,
    SIZED,
)
from solutions.m2_kv_bytes.mistakes_of_the_field import OF_THE_FIELD
from solutions.m2_kv_bytes.mistakes_on_rungs import CORE_ONLY, LAST_RUNGS
from solutions.mistake import Edit, NamedMistake

# First, for a hint is the first that fits: a guess says more of a refusal than a wrong size does.
GUESSES = (
    NamedMistake(
        "guess_instead_of_refusal",
        (
            Edit(
                FROM_CONFIG,
                'raise ValueError(f"layer_types holds an unknown kind, {kind!r}")',
                "tokens_held.append(context_len)",
            ),
        ),
        caught_by="unreadable_configs",
        hint="A layer of an unknown kind is an error to report, with the key that holds it.",
    ),
    NamedMistake(
        "unknown_plan_ignored",
        (Edit(KINDS, "for key in LAYER_PLANS:", "for key in ():"),),
        caught_by="unreadable_configs",
        hint="A plan of layers in a key that you do not read must be refused by that key's name.",
    ),
    NamedMistake(
        "other_caches_ignored",
        (Edit(FROM_CONFIG, "for key in OTHER_CACHES:", "for key in ():"),),
        caught_by="unreadable_configs",
        hint="Some keys change what a layer keeps; the handout lists those to refuse by name.",
    ),
    NamedMistake(
        "plan_in_code_guessed",
        (Edit(KINDS, 'config.get("model_type") in PLAN_IN_CODE', "False"),),
        caught_by="unreadable_configs",
        hint="Some model types keep their plan in code: without `layer_types`, refuse.",
    ),
    NamedMistake(
        "some_layers_have_a_window",
        (Edit(KINDS, 'window and config.get("max_window_layers")', "False"),),
        caught_by="unreadable_configs",
        hint="`max_window_layers` gives only some layers the window: refuse it by name.",
    ),
    NamedMistake(
        "extra_layers_accepted",
        (
            Edit(FROM_CONFIG, "len(kinds) != n_layers", "len(kinds) < n_layers"),
            Edit(
                FROM_CONFIG, "zip(tokens_held, numbers, strict=True)", "zip(tokens_held, numbers)"
            ),
        ),
        caught_by="unreadable_configs",
        hint="`layer_types` must have exactly one entry a layer: no more, no fewer.",
    ),
    NamedMistake(
        "group_number_guessed",
        (
            Edit(
                HEADS,
                'first(config, "multi_query_group_num")',
                'first(config, "multi_query_group_num", default=1)',
            ),
        ),
        caught_by="unreadable_configs",
        hint="Under `multi_query_attention` the file must give the groups; no number is usual.",
    ),
    NamedMistake(
        "width_rounded_down",
        (Edit(FROM_CONFIG, "if rest:", "if False:"),),
        caught_by="unreadable_configs",
        hint="A width that the query heads do not divide leaves the head size open: refuse it.",
    ),
    NamedMistake(
        "window_guessed",
        (
            Edit(
                FROM_CONFIG,
                'raise ValueError("layer_types has sliding layers, but there is '
                'no sliding_window")',
                "window = 4_096",
            ),
        ),
        caught_by="unreadable_configs",
        hint="Sliding layers without a `sliding_window` leave the cache open: refuse.",
    ),
    NamedMistake(
        "rope_key_guessed",
        (
            Edit(
                FROM_CONFIG,
                'first(config, "qk_rope_head_dim")',
                'first(config, "qk_rope_head_dim", default=64)',
            ),
        ),
        caught_by="unreadable_configs",
        hint="A latent without `qk_rope_head_dim` leaves the cache open: refuse.",
    ),
    NamedMistake(
        "error_without_a_key",
        (Edit(FIRST, 'f"the config has no {keys[0]}"', '"this config cannot be read"'),),
        caught_by="unreadable_configs",
        hint="A message that names the key at fault, and few others, tells where to look.",
    ),
)

WRONG_SIZES = (
    NamedMistake(
        "keys_without_values",
        (Edit(PER_TOKEN, "2 * n_layers", "n_layers"),),
        caught_by="known_shapes",
        also=("other_shapes",),
        hint="This counts the keys and forgets the values: each token leaves both.",
    ),
    NamedMistake(
        "bits_for_bytes",
        (Edit(PER_TOKEN, "kv_bits // 8", "kv_bits"),),
        caught_by="known_shapes",
        also=("other_shapes",),
        hint="This is 8 times too large: `kv_bits` are bits, and a byte has 8 of them.",
    ),
    NamedMistake(
        "always_sixteen_bits",
        (Edit(PER_TOKEN, "kv_bits // 8", "2"),),
        caught_by="other_shapes",
        hint="Two bytes a number is right for 16 bits only; an 8-bit cache takes half.",
    ),
    NamedMistake(
        "one_layer_only",
        (Edit(PER_TOKEN, "2 * n_layers", "2"),),
        caught_by="known_shapes",
        also=("other_shapes",),
        hint="This is one layer's cache; every layer keeps keys and values of its own.",
    ),
    NamedMistake(
        "query_heads_for_kv_heads",
        (Edit(FOR_RUNS, '"n_kv_heads"', '"n_heads"'),),
        caught_by="every_run",
        hint="This counts query heads. Keys and values exist once per KV head, and with grouped "
        "queries several query heads share one.",
    ),
    NamedMistake(
        "head_dim_from_hidden_size",
        (Edit(FOR_RUNS, 'runs["head_dim"]', 'runs["hidden_size"] // runs["n_heads"]'),),
        caught_by="every_run",
        hint="Some models set head_dim on its own: it need not be hidden_size / n_heads. The table "
        "has a column for it.",
    ),
    NamedMistake(
        "runs_always_sixteen_bits",
        (Edit(FOR_RUNS, '* runs["kv_bits"] // 8', "* 2"),),
        caught_by="every_run",
        hint="Some runs keep their cache in 8 bits; `kv_bits` says which.",
    ),
    NamedMistake(
        "kib_for_bytes",
        (Edit(FOR_RUNS, "// 8).to_numpy()", "// 8).to_numpy() / 1024"),),
        caught_by="every_run",
        hint="This is in KiB; the question is in bytes.",
    ),
    NamedMistake(
        "explicit_head_dim_ignored",
        (Edit(FROM_CONFIG, 'config.get("head_dim") or', ""),),
        caught_by="plain_configs",
        also=BONUS[:3],
        hint="An explicit `head_dim` in the config wins over hidden_size / num_attention_heads.",
    ),
    NamedMistake(
        "config_query_heads",
        (
            Edit(
                HEADS,
                "first(config, *spellings, default=n_heads)",
                "n_heads",
            ),
        ),
        caught_by="plain_configs",
        also=(*SIZED[1:3], *BONUS[:3]),
        hint="`num_key_value_heads` decides, not `num_attention_heads`; the latter stands in only "
        "when the former is absent.",
    ),
    NamedMistake(
        "batch_forgotten",
        (Edit(FROM_CONFIG, " * batch_size", ""),),
        caught_by="plain_configs",
        also=(*SIZED[1:], *BONUS),
        hint="This is the cache of one request; the question is about the whole batch.",
    ),
    NamedMistake(
        "window_that_is_switched_off",
        (
            Edit(KINDS, ' and config.get("use_sliding_window") is not False', ""),
            Edit(KINDS, 'window and config.get("max_window_layers")', "False"),
            Edit(FROM_CONFIG, 'None if config.get("use_sliding_window") is False else ', ""),
        ),
        caught_by="plain_configs",
        hint="With `use_sliding_window: false` the window in the config is not used.",
    ),
    NamedMistake(
        "multi_query_flag_overrides_all",
        (Edit(HEADS, 'not config.get("new_decoder_architecture")', "True"),),
        caught_by="other_spellings",
        hint="With `new_decoder_architecture: true` the flag `multi_query` has no effect: the KV "
        "heads are those that the file names.",
    ),
    NamedMistake(
        "multi_query_flag_ignored",
        (Edit(HEADS, 'config.get("multi_query") and', "False and"),),
        caught_by="other_spellings",
        hint="`multi_query: true` means one KV head for all query heads.",
    ),
    NamedMistake(
        "window_ignored",
        (Edit(FROM_CONFIG, "min(context_len, window)", "context_len"),),
        caught_by="layers_that_hold_less",
        also=("other_layer_plans", "shared_caches"),
        hint="A sliding layer never holds more than its window, however long the context.",
    ),
    NamedMistake(
        "recurrent_layers_counted",
        (
            Edit(
                FROM_CONFIG,
                'if kind in ("full_attention", "attention"):',
                'if kind not in ("sliding_attention", "chunked_attention"):',
            ),
        ),
        caught_by="layers_that_hold_less",
        also=("unreadable_configs", "other_layer_plans"),
        hint="A linear or recurrent layer keeps a state of constant size: no KV cache.",
    ),
    NamedMistake(
        "latent_kept_twice",
        (
            Edit(
                FROM_CONFIG,
                '[first(config, "kv_lora_rank")',
                '2 * [first(config, "kv_lora_rank")',
            ),
            Edit(
                FROM_CONFIG,
                "tokens * each for tokens, each in zip(tokens_held, numbers, strict=True)",
                "tokens * each for tokens, each in zip(\n"
                "        tokens_held * (len(numbers) // n_layers), numbers, strict=True\n"
                "    )",
            ),
        ),
        caught_by="latent_attention",
        hint="The latent stands for keys and values together: there is no factor of 2.",
    ),
    NamedMistake(
        "rope_key_forgotten",
        (
            Edit(
                FROM_CONFIG,
                'first(config, "kv_lora_rank") + first(config, "qk_rope_head_dim")',
                'first(config, "kv_lora_rank")',
            ),
        ),
        caught_by="latent_attention",
        also=("unreadable_configs",),
        hint="Beside the latent each token keeps one rope key of `qk_rope_head_dim` numbers.",
    ),
    NamedMistake(
        "null_taken_for_a_value",
        (
            Edit(
                FIRST,
                "if config.get(key):",
                "if key in config:",
            ),
        ),
        caught_by="plain_configs",
        also=("heads_by_layer",),
        hint="A key whose value is null, 0, false or empty is as good as not there.",
    ),
    NamedMistake(
        "one_family_only",
        (
            Edit(FROM_CONFIG, ', "n_layer", "num_layers", "n_layers"', ""),
            Edit(FROM_CONFIG, ', "n_head", "n_heads"', ""),
            Edit(HEADS, ', "n_head", "n_heads"', ""),
        ),
        caught_by="other_spellings",
        hint="Layers and query heads have other names in other families; the handout lists them.",
    ),
    NamedMistake(
        "kv_heads_by_one_name",
        (Edit(HEADS, ', "num_kv_heads", "n_head_kv", "kv_n_heads"', ","),),
        caught_by="other_spellings",
        hint="KV heads have four names; with none of them they are as many as query heads.",
    ),
    NamedMistake(
        "attn_config_not_opened",
        (Edit(FROM_CONFIG, '{**config, **(config.get("attn_config") or {})}', "dict(config)"),),
        caught_by="other_spellings",
        hint="Some files name their KV heads one level down, as `kv_n_heads` in `attn_config`.",
    ),
    NamedMistake(
        "kv_channels_ignored",
        (Edit(FROM_CONFIG, ' or config.get("kv_channels")', ""),),
        caught_by="other_spellings",
        hint="`kv_channels` is another name of `head_dim`, and wins over width / query heads too.",
    ),
    NamedMistake(
        "named_heads_before_the_flag",
        (
            Edit(
                HEADS,
                'if config.get("multi_query") and not config.get("new_decoder_architecture"):',
                'if config.get("multi_query") and not config.get("num_kv_heads"):',
            ),
        ),
        caught_by="other_spellings",
        hint="`multi_query: true` decides, even where `num_kv_heads` names as many as query heads.",
    ),
    NamedMistake(
        "group_number_without_its_flag",
        (
            Edit(
                HEADS,
                'if config.get("multi_query_attention"):',
                'if "multi_query_group_num" in config:',
            ),
        ),
        caught_by="other_spellings",
        also=("unreadable_configs",),
        hint="`multi_query_group_num` counts only where `multi_query_attention` is true.",
    ),
    NamedMistake(
        "nested_config_not_found",
        (Edit(FROM_CONFIG, 'config.get("text_config") or config', "config"),),
        caught_by="other_spellings",
        also=("latent_attention", "unreadable_configs", "chunked_attention", "shared_caches"),
        hint="A multimodal file keeps the language model in `text_config`.",
    ),
    NamedMistake(
        "window_always_full",
        (Edit(FROM_CONFIG, "min(context_len, window)", "window"),),
        caught_by="layers_that_hold_less",
        also=("other_layer_plans", "shared_caches"),
        hint="A sliding layer never holds more than the context: take the smaller of the two.",
    ),
    NamedMistake(
        "window_in_every_layer",
        (Edit(KINDS, 'if config.get("layer_types"):', "if False:"),),
        caught_by="layers_that_hold_less",
        also=("unreadable_configs", "shared_caches"),
        hint="With `layer_types`, a window holds only in the layers that it calls sliding.",
    ),
    NamedMistake(
        "latent_always_sixteen_bits",
        (
            Edit(
                FROM_CONFIG,
                "    return held *",
                '    kv_bits = 16 if config.get("kv_lora_rank") else kv_bits\n    return held *',
            ),
        ),
        caught_by="latent_attention",
        hint="A latent is kept in `kv_bits` bits as keys and values are: 8 bits take half.",
    ),
)

CLOSING = (
    NamedMistake(
        "cache_in_gibibytes",
        (Edit("cache_gb", "/ 1e9", "/ 2**30"),),
        caught_by="cache_gb",
        hint="These are GiB, of 2^30 bytes. GPU memory is sold in GB, of 1e9 bytes.",
    ),
    NamedMistake(
        "cache_of_one_request",
        (Edit("cache_gb", " * n_requests", ""),),
        caught_by="cache_gb",
        hint="This is the cache of one request: each of them has its own.",
    ),
    NamedMistake(
        "cache_of_keys_alone",
        (Edit("cache_gb", "2 * n_layers", "n_layers"),),
        caught_by="cache_gb",
        hint="This counts the keys and forgets the values: each token leaves both.",
    ),
)

MISTAKES = (CORE_ONLY, *GUESSES, *WRONG_SIZES, *OF_THE_FIELD, *LAST_RUNGS, *CLOSING)
