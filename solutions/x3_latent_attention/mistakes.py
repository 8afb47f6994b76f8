"""The named mistakes of lab x3."""

from solutions.mistake import Edit, NamedMistake

VALUES, ROPE, WHOLE, FULL, NEW, EXTEND, ABSORBED, STEP, BETWEEN, WORK, CUT = (
    "kv_values_per_token",
    "rope",
    "attention_unabsorbed",
    "full_logits",
    "new_latent_cache",
    "extend_cache",
    "absorbed_attention",
    "decode_step",
    "score_matrix",
    "multiplications",
    "cache_cut",
)
OF_ROPE = (
    "whole_sequence",
    "latent_cache",
    "absorbed_step",
    "same_logits",
    "matrix_of_a_distance",
)
"""The checks beside `rope_turns` that read what `rope` returns."""

SCORES = "latents @ (w_uk[:, h] @ q[h])"
LATENT_KEPT = 'latent = x_t @ layer["w_dkv"]'
QUIET = Edit(
    ABSORBED,
    "def absorbed_attention",
    '@np.errstate(over="ignore", invalid="ignore")\ndef absorbed_attention',
)
"""Numpy warns where a mistake overflows on purpose, and a test would see an exception for NaN."""

MISTAKES = (
    # ---------------------------------------------------------------- what a token costs
    NamedMistake(
        "latent_counted_twice",
        (
            Edit(
                VALUES,
                'return config["num_hidden_layers"]',
                'return 2 * config["num_hidden_layers"]',
            ),
        ),
        caught_by="values_counted",
        hint="Keys and values come of one latent, which is kept once: there is no factor 2.",
    ),
    NamedMistake(
        "rope_key_per_head",
        (
            Edit(
                VALUES,
                '+ config["qk_rope_head_dim"]',
                '+ config["num_attention_heads"] * config["qk_rope_head_dim"]',
            ),
        ),
        caught_by="values_counted",
        hint="The rotary key is shared: a layer keeps one for all its heads.",
    ),
    NamedMistake(
        "rope_key_not_counted",
        (Edit(VALUES, ' + config["qk_rope_head_dim"]', ""),),
        caught_by="values_counted",
        hint="The rotary key is cached beside the latent: it cannot be made of it.",
    ),
    NamedMistake(
        "heads_of_a_latent_model_counted",
        (
            Edit(VALUES, 'if "kv_lora_rank" in config:', "if False:"),
            Edit(VALUES, 'config["head_dim"]', 'config.get("head_dim", config.get("v_head_dim"))'),
        ),
        caught_by="values_counted",
        hint="A config with `kv_lora_rank` keeps latents: its `num_key_value_heads` are computed "
        "and never kept.",
    ),
    NamedMistake(
        "query_heads_counted",
        (Edit(VALUES, 'config["num_key_value_heads"]', 'config["num_attention_heads"]'),),
        caught_by="values_counted",
        hint="Query heads are not kept. Count the KV heads.",
    ),
    # ---------------------------------------------------------------- a matrix for each distance
    # (before the turns of `rope`, some of which give the same matrices)
    NamedMistake(
        "distance_ignored",
        (Edit(BETWEEN, "rope(w_uq, np.full(len(w_uq), distance))", "w_uq"),),
        caught_by="matrix_of_a_distance",
        hint="This is the matrix without turns. With them it changes with the distance: that is "
        "why there is none to absorb.",
    ),
    NamedMistake(
        "distance_the_other_way",
        (Edit(BETWEEN, "distance)) @", "-distance)) @"),),
        caught_by="matrix_of_a_distance",
        hint="The query stands after the key: of its turn, that of the distance is left over.",
    ),
    NamedMistake(
        "turned_in_the_latent",
        (
            Edit(
                BETWEEN,
                "rope(w_uq, np.full(len(w_uq), distance)) @ w_uk.T",
                "rope(w_uq @ w_uk.T, np.full(len(w_uq), distance))",
            ),
        ),
        caught_by="matrix_of_a_distance",
        hint="RoPE is applied in the latent here. It turns a head's nope_dim numbers, between the "
        "two matrices.",
    ),
    # ---------------------------------------------------------------- positions
    NamedMistake(
        "turned_clockwise",
        (
            Edit(
                ROPE,
                "[a * cos - b * sin, a * sin + b * cos]",
                "[a * cos + b * sin, b * cos - a * sin]",
            ),
        ),
        caught_by="rope_turns",
        also=OF_ROPE,
        hint="(1, 0) at position 1 becomes (cos 1, sin 1). Here it is turned the other way.",
    ),
    NamedMistake(
        "neighbours_paired",
        (
            Edit(ROPE, "x[..., :half], x[..., half:]", "x[..., 0::2], x[..., 1::2]"),
            Edit(
                ROPE,
                "np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)",
                "np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)",
            ),
        ),
        caught_by="rope_turns",
        also=OF_ROPE,
        hint="The pairs here are number i and number i + half of the size, not neighbours.",
    ),
    NamedMistake(
        "turned_half_as_slowly",
        (Edit(ROPE, "(-np.arange(half) / half)", "(-np.arange(half) / (2 * half))"),),
        caught_by="rope_turns",
        also=OF_ROPE,
        hint="Pair i turns by position * 10,000^(-i / half), with half the number of pairs.",
    ),
    # ---------------------------------------------------------------- the unabsorbed form
    NamedMistake(
        "scale_without_rope_dim",
        (
            Edit(
                WHOLE,
                'np.sqrt(layer["nope_dim"] + layer["rope_dim"])',
                'np.sqrt(layer["nope_dim"])',
            ),
        ),
        caught_by="whole_sequence",
        also=("same_logits",),
        hint="The score is a dot product over nope_dim + rope_dim numbers, and so is its root.",
    ),
    NamedMistake(
        "positions_forgotten",
        (Edit(WHOLE, " + q_turned[:, h] @ key_turned.T", ""),),
        caught_by="whole_sequence",
        also=("same_logits",),
        hint="A score has two parts: the one of the latent, and that of the turned query and key.",
    ),
    NamedMistake(
        "content_keys_turned_too",
        (
            Edit(
                WHOLE,
                'k = (latents @ layer["w_uk"]).reshape(n, heads, -1)',
                'k = rope((latents @ layer["w_uk"]).reshape(n, heads, -1), positions)',
            ),
        ),
        caught_by="whole_sequence",
        also=("same_logits",),
        hint="Keys that come of the latent are not turned: the rotary key alone carries positions.",
    ),
    NamedMistake(
        "latents_turned_unabsorbed",
        (
            Edit(
                WHOLE,
                'latents = x @ layer["w_dkv"]',
                'latents = rope(x @ layer["w_dkv"], positions)',
            ),
        ),
        caught_by="whole_sequence",
        also=("same_logits",),
        hint="RoPE is applied to the latent here. Latents carry no position: scores would depend "
        "on where a key stands instead of on its distance, and values would be turned with it.",
    ),
    NamedMistake(
        "future_seen",
        (Edit(WHOLE, "scores[future] = -np.inf", "pass"),),
        caught_by="whole_sequence",
        also=("same_logits",),
        hint="Each token sees the whole sequence here; a key after its query must be masked.",
    ),
    # ---------------------------------------------------------------- the cache
    NamedMistake(
        "first_row_of_zeros",
        (Edit(NEW, "np.zeros((0, ", "np.zeros((1, "),),
        caught_by="latent_cache",
        also=("same_logits",),
        hint="A new cache has no row at all: a row of zeros would be attended to like a token.",
    ),
    NamedMistake(
        "room_for_the_latent_alone",
        (Edit(NEW, 'layer["latent_dim"] + layer["rope_dim"]', 'layer["latent_dim"]'),),
        caught_by="latent_cache",
        also=("same_logits",),
        hint="A row holds the latent and the rotary key: latent_dim + rope_dim numbers.",
    ),
    NamedMistake(
        "rope_on_the_latent",
        (
            Edit(
                EXTEND, LATENT_KEPT, 'latent = rope((x_t @ layer["w_dkv"])[None], [len(cache)])[0]'
            ),
        ),
        caught_by="latent_cache",
        also=("same_logits",),
        hint="RoPE is applied to the latent here. It must be cached as it is: the query that meets "
        "it is not turned, and the values are made of it too.",
    ),
    NamedMistake(
        "rotary_key_not_turned",
        (
            Edit(
                EXTEND, 'rope((x_t @ layer["w_kr"])[None], [len(cache)])[0]', 'x_t @ layer["w_kr"]'
            ),
        ),
        caught_by="latent_cache",
        also=("same_logits",),
        hint="The rotary key goes into the cache turned to its position, which never changes.",
    ),
    NamedMistake(
        "key_one_position_ahead",
        (Edit(EXTEND, "[len(cache)]", "[len(cache) + 1]"),),
        caught_by="latent_cache",
        also=("same_logits",),
        hint="The first token stands at position 0: a new token's position is the number of rows "
        "before it.",
    ),
    NamedMistake(
        "key_before_latent",
        (Edit(EXTEND, "[latent, key_turned]", "[key_turned, latent]"),),
        caught_by="latent_cache",
        also=("same_logits",),
        hint="A row holds the latent first and the rotary key after it.",
    ),
    # ---------------------------------------------------------------- the absorbed form
    NamedMistake(
        "scale_of_the_latent",
        (
            Edit(
                ABSORBED, 'layer["nope_dim"] + layer["rope_dim"]', 'latent_dim + layer["rope_dim"]'
            ),
        ),
        caught_by="absorbed_step",
        also=("same_logits",),
        hint="Absorbing changes no score: the root stays that of nope_dim + rope_dim, although the "
        "vectors that meet are longer.",
    ),
    NamedMistake(
        "rotary_key_not_attended",
        (Edit(ABSORBED, " + keys_turned @ q_turned[h]", ""),),
        caught_by="absorbed_step",
        also=("same_logits",),
        hint="The cached rotary keys take part in every score, beside the latents.",
    ),
    NamedMistake(
        "query_one_position_ahead",
        (Edit(ABSORBED, "[len(cache) - 1]", "[len(cache)]"),),
        caught_by="absorbed_step",
        also=("same_logits",),
        hint="The new token is the last row of the cache, so its position is one less than the "
        "number of rows.",
    ),
    NamedMistake(
        "heads_dealt_round",
        (
            Edit(
                ABSORBED,
                'layer["w_uv"].reshape(latent_dim, heads, -1)',
                'layer["w_uv"].reshape(latent_dim, -1, heads).transpose(0, 2, 1)',
            ),
        ),
        caught_by="absorbed_step",
        also=("same_logits",),
        hint="A head's columns of w_uk and w_uv lie side by side: the first v_dim columns of w_uv "
        "are head 0's.",
    ),
    NamedMistake(
        "keys_built_per_head",
        (QUIET, Edit(ABSORBED, SCORES, "(latents @ w_uk[:, h]) @ q[h]")),
        caught_by="no_key_per_head",
        hint="This builds a head's key of every cached token. Multiply w_uk with the query "
        "instead, once, and meet the latents with that.",
    ),
    NamedMistake(
        "values_built_per_head",
        (
            QUIET,
            Edit(
                ABSORBED,
                "(softmax(scores) @ latents) @ w_uv[:, h]",
                "softmax(scores) @ (latents @ w_uv[:, h])",
            ),
        ),
        caught_by="no_key_per_head",
        hint="This builds a head's value of every cached token. Mix the latents first, and pass "
        "the mixture through w_uv once.",
    ),
    # ---------------------------------------------------------------- whole models
    NamedMistake(
        "input_not_normed",
        (Edit(FULL, "attention_unabsorbed(layer, norm(x))", "attention_unabsorbed(layer, x)"),),
        caught_by="same_logits",
        hint="A layer's input is norm(x) in both forms; the logits come of norm(x) once more.",
    ),
    NamedMistake(
        "inputs_not_added_back",
        (Edit(FULL, "x = x + attention_unabsorbed", "x = attention_unabsorbed"),),
        caught_by="same_logits",
        hint="A layer adds to x what its attention returns; here it takes its place.",
    ),
    NamedMistake(
        "cache_of_unnormed_inputs",
        (Edit(STEP, "extend_cache(layer, caches[i], h)", "extend_cache(layer, caches[i], x)"),),
        caught_by="same_logits",
        hint="The cached row is made of x here; it is made of norm(x), like the query.",
    ),
    NamedMistake(
        "layers_share_a_cache",
        (Edit(STEP, "caches[i]", "caches[0]"),),
        caught_by="same_logits",
        hint="Each layer has a cache of its own: its latents are made of its own inputs.",
    ),
    NamedMistake(
        "absorbed_once_and_kept",
        (
            Edit(
                STEP,
                '    x = params["embedding"][token]',
                "    if not len(caches[0]):\n"
                '        decode_step.absorbed = [{w: layer[w] for w in ("w_uk", "w_uv")} '
                'for layer in params["layers"]]\n'
                '    x = params["embedding"][token]',
            ),
            Edit(
                STEP,
                "absorbed_attention(layer, caches[i], h)",
                "absorbed_attention(layer | decode_step.absorbed[i], caches[i], h)",
            ),
        ),
        caught_by="old_keys_follow",
        hint="w_uk and w_uv of the first step are used to the end here. The cache holds latents; "
        "keys of all tokens are made of them by the weights of each step.",
    ),
    NamedMistake(
        "computed_again_from_tokens",
        (
            Edit(
                STEP,
                '    x = params["embedding"][token]',
                "    if not len(caches[0]):\n"
                "        decode_step.tokens = []\n"
                "    decode_step.tokens.append(token)\n"
                "    caches = [np.vstack([c, np.zeros(c.shape[1])]) for c in caches]\n"
                "    return full_logits(params, decode_step.tokens)[-1], caches\n"
                '    x = params["embedding"][token]',
            ),
        ),
        caught_by="old_keys_follow",
        hint="This computes the old tokens again. Their latents come from the cache, as the "
        "weights of their time made them.",
    ),
    # ---------------------------------------------------------------- counting
    NamedMistake(
        "only_new_keys_built",
        (Edit(WORK, "(n_before + n_new) * per_token", "n_new * per_token"),),
        caught_by="work_counted",
        hint="The cache holds latents: keys and values of the old tokens are built as well.",
    ),
    NamedMistake(
        "future_pairs_counted",
        (Edit(WORK, "n_new * (n_new + 1) // 2", "n_new * n_new"),),
        caught_by="work_counted",
        hint="A new token sees those before it and itself: n (n + 1) / 2 pairs among the new ones.",
    ),
    NamedMistake(
        "values_of_a_pair_forgotten",
        (Edit(WORK, "2 * latent + rope_dim", "latent + rope_dim"),),
        caught_by="work_counted",
        hint="A pair costs its score and its share of the mixture: the latent is read twice.",
    ),
    NamedMistake(
        "absorbed_for_every_old_token",
        (Edit(WORK, "n_new * per_token", "(n_before + n_new) * per_token"),),
        caught_by="work_counted",
        hint="In the absorbed form only new tokens pass through w_uk and w_uv, as queries and "
        "outputs.",
    ),
    NamedMistake(
        "bits_ignored",
        (
            Edit(
                CUT,
                "(values_per_token * bits) / (old_values_per_token * old_bits)",
                "values_per_token / old_values_per_token",
            ),
        ),
        caught_by=CUT,
        hint="The bits are left out: a cache is counted in bytes.",
    ),
    NamedMistake(
        "what_is_left",
        (Edit(CUT, "1 - (", "("),),
        caught_by=CUT,
        hint="That is the share that is left; asked is the share that is saved.",
    ),
    NamedMistake(
        "share_of_the_new",
        (
            Edit(
                CUT,
                "1 - (values_per_token * bits) / (old_values_per_token * old_bits)",
                "(old_values_per_token * old_bits) / (values_per_token * bits) - 1",
            ),
        ),
        caught_by=CUT,
        hint="The saving is a share of the old cache, not of the new one.",
    ),
)
