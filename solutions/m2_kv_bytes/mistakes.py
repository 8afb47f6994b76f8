"""The named mistakes of milestone 2."""

from solutions.mistake import Edit, NamedMistake

PER_TOKEN, FOR_RUNS, FROM_CONFIG = (
    "kv_bytes_per_token",
    "kv_bytes_for_runs",
    "kv_bytes_from_config",
)

MISTAKES = (
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
        (Edit(FROM_CONFIG, 'config.get("head_dim") or config.get("kv_channels")', "None"),),
        caught_by="plain_configs",
        also=("layers_that_hold_less", "unreadable_configs"),
        hint="An explicit `head_dim` in the config wins over hidden_size / num_attention_heads.",
    ),
    NamedMistake(
        "config_query_heads",
        (
            Edit(
                FROM_CONFIG,
                'first("num_key_value_heads", "num_kv_heads", default=n_heads)',
                "n_heads",
            ),
        ),
        caught_by="plain_configs",
        also=("other_spellings", "layers_that_hold_less"),
        hint="`num_key_value_heads` decides, not `num_attention_heads`; the latter stands in only "
        "when the former is absent.",
    ),
    NamedMistake(
        "batch_forgotten",
        (Edit(FROM_CONFIG, " * batch_size", ""),),
        caught_by="plain_configs",
        also=("other_spellings", "layers_that_hold_less", "latent_attention"),
        hint="This is the cache of one request; the question is about the whole batch.",
    ),
    NamedMistake(
        "window_that_is_switched_off",
        (Edit(FROM_CONFIG, 'if config.get("use_sliding_window") is False:', "if False:"),),
        caught_by="plain_configs",
        hint="With `use_sliding_window: false` the window in the config is not used.",
    ),
    NamedMistake(
        "multi_query_flag_overrides_all",
        (Edit(FROM_CONFIG, 'config.get("new_decoder_architecture")', "False"),),
        caught_by="other_spellings",
        hint="With `new_decoder_architecture` the KV heads are in `num_kv_heads`, even where "
        "`multi_query` is true.",
    ),
    NamedMistake(
        "multi_query_flag_ignored",
        (Edit(FROM_CONFIG, 'config.get("multi_query")', "False"),),
        caught_by="other_spellings",
        hint="`multi_query: true` means one KV head for all query heads.",
    ),
    NamedMistake(
        "window_ignored",
        (Edit(FROM_CONFIG, "min(context_len, window)", "context_len"),),
        caught_by="layers_that_hold_less",
        hint="A sliding layer never holds more than its window, however long the context.",
    ),
    NamedMistake(
        "recurrent_layers_counted",
        (
            Edit(
                FROM_CONFIG,
                'if kind == "full_attention":',
                'if kind in ("full_attention", "linear_attention"):',
            ),
        ),
        caught_by="layers_that_hold_less",
        hint="A linear or recurrent layer keeps a state of constant size: no KV cache.",
    ),
    NamedMistake(
        "latent_kept_twice",
        (
            Edit(
                FROM_CONFIG,
                'first("kv_lora_rank") + first("qk_rope_head_dim")',
                '2 * (first("kv_lora_rank") + first("qk_rope_head_dim"))',
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
                'first("kv_lora_rank") + first("qk_rope_head_dim")',
                'first("kv_lora_rank")',
            ),
        ),
        caught_by="latent_attention",
        also=("unreadable_configs",),
        hint="Beside the latent each token keeps one rope key of `qk_rope_head_dim` numbers.",
    ),
    NamedMistake(
        "guess_instead_of_refusal",
        (
            Edit(
                FROM_CONFIG,
                'raise ValueError(f"layer_types holds an unknown kind, {kind!r}")',
                "tokens_held += context_len",
            ),
        ),
        caught_by="unreadable_configs",
        hint="A layer of an unknown kind is an error to report, with the key that holds it.",
    ),
)
