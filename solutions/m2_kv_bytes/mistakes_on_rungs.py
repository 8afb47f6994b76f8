"""Mistakes on the rungs that earn a bonus; and who makes none, for stopping at the core."""

from solutions.m2_kv_bytes.edited import BONUS, FROM_CONFIG, HEADS, KINDS
from solutions.mistake import Edit, NamedMistake

# Whoever stops at the core refuses these files and loses nothing but the bonus. It comes before all
# others: what refuses is told so, whatever else would refuse as well.
CORE_ONLY = NamedMistake(
    "core_only",
    (
        Edit(
            KINDS,
            "    plans = [",
            "    for key in BONUS_PLANS:\n        if config.get(key):\n"
            '            raise ValueError(f"{key} is not read here")\n    plans = [',
        ),
        Edit(
            FROM_CONFIG,
            "for key in OTHER_CACHES:",
            "for key in (*OTHER_CACHES, *BONUS_CACHES):",
        ),
        Edit(FROM_CONFIG, 'elif kind == "chunked_attention":', "elif False:"),
    ),
    caught_by="other_layer_plans",
    also=BONUS[1:],
    hint="Refusing these files is right as far as the core goes, and costs no point of it. To "
    "earn the bonus, read the key instead: the handout has its rule.",
)

LAST_RUNGS = (
    NamedMistake(
        "bonus_plans_ignored",
        (
            Edit(KINDS, "[key for key in BONUS_PLANS if config.get(key)]", "[]"),
            Edit(KINDS, 'config.get("model_type") in PLAN_IN_CODE', "False"),
        ),
        caught_by="other_layer_plans",
        also=("unreadable_configs", "chunked_attention"),
        hint="These files have a plan of layers: not every layer attends, or not in full.",
    ),
    NamedMistake(
        "plan_begins_in_full",
        (Edit(KINDS, "(i + 1) % every == 0", "i % every == 0"),),
        caught_by="other_layer_plans",
        hint="The last layer of each group of k attends in full, not the first: counted from 0, "
        "(i + 1) % k is 0.",
    ),
    NamedMistake(
        "plan_turned_around",
        (Edit(KINDS, "(i + 1) % every == 0", "(i + 1) % every != 0"),),
        caught_by="other_layer_plans",
        hint="One layer in k attends in full; the k - 1 others are what saves memory.",
    ),
    NamedMistake(
        "linear_layers_counted",
        (Edit(KINDS, '"linear_attention"', '"full_attention"'),),
        caught_by="other_layer_plans",
        hint="Between the layers of `full_attention_interval` stand linear ones: no KV cache.",
    ),
    NamedMistake(
        "layers_counted_from_one",
        (Edit(KINDS, "i % period == offset", "(i + 1) % period == offset"),),
        caught_by="other_layer_plans",
        hint="Layers are counted from 0: layer i attends where i % period is the offset.",
    ),
    NamedMistake(
        "offset_ignored",
        (Edit(KINDS, "i % period == offset", "i % period == 0"),),
        caught_by="other_layer_plans",
        hint="`attn_layer_offset` shifts the layers that attend, and so how many there are.",
    ),
    NamedMistake(
        "experts_given_a_cache",
        (Edit(KINDS, '"E": "mlp"', '"E": "full_attention"'),),
        caught_by="other_layer_plans",
        hint="`E` is a layer of experts and `-` a plain one: only `*` attends.",
    ),
    NamedMistake(
        "every_sign_but_mamba_attends",
        (Edit(KINDS, '"-": "mlp", "E": "mlp"', '"-": "full_attention", "E": "full_attention"'),),
        caught_by="other_layer_plans",
        hint="`M` is mamba, but `E` and `-` attend no more than it: only `*` does.",
    ),
    NamedMistake(
        "chunk_ignored",
        (
            Edit(
                FROM_CONFIG,
                'min(context_len, first(config, "attention_chunk_size"))',
                "context_len",
            ),
        ),
        caught_by="chunked_attention",
        hint="A chunked layer never holds more than one chunk, however long the context.",
    ),
    NamedMistake(
        "only_the_chunk_begun",
        (
            Edit(
                FROM_CONFIG,
                'min(context_len, first(config, "attention_chunk_size"))',
                'context_len % first(config, "attention_chunk_size")',
            ),
        ),
        caught_by="chunked_attention",
        hint="Memory is sized for a full chunk, not for the tokens of the one just begun: "
        "min(context, chunk).",
    ),
    NamedMistake(
        "chunks_in_every_layer",
        (
            Edit(
                FROM_CONFIG,
                "    tokens_held = []",
                '    if config.get("attention_chunk_size"):\n'
                '        kinds = ["chunked_attention"] * n_layers\n'
                "    tokens_held = []",
            ),
        ),
        caught_by="chunked_attention",
        hint="Some layers attend to the whole context: those without rope, 0 in `no_rope_layers`.",
    ),
    NamedMistake(
        "no_rope_read_as_its_name_says",
        (
            Edit(
                KINDS,
                '"chunked_attention" if rope else "full_attention"',
                '"full_attention" if rope else "chunked_attention"',
            ),
        ),
        caught_by="chunked_attention",
        hint="In `no_rope_layers` a 1 stands for a layer with rope, whatever the name says; those "
        "are chunked, and 0 attends in full.",
    ),
    NamedMistake(
        "shared_caches_counted",
        (Edit(FROM_CONFIG, "tokens_held[layer] = 0", "pass"),),
        caught_by="shared_caches",
        hint="The last `num_kv_shared_layers` layers read an earlier layer's cache and keep none.",
    ),
    NamedMistake(
        "first_layers_share",
        (
            Edit(
                FROM_CONFIG,
                "for layer in range(n_layers - n_shared, n_layers):",
                "for layer in range(n_shared):",
            ),
        ),
        caught_by="shared_caches",
        hint="It is the last layers that have no cache of their own; which ones matters, since "
        "sliding layers hold less than full ones.",
    ),
    NamedMistake(
        "only_shared_layers_counted",
        (
            Edit(
                FROM_CONFIG,
                "for layer in range(n_layers - n_shared, n_layers):",
                "for layer in range(n_layers - n_shared if n_shared else 0):",
            ),
        ),
        caught_by="shared_caches",
        hint="`num_kv_shared_layers` counts the layers without a cache, not those with one.",
    ),
    NamedMistake(
        "group_size_taken_for_kv_heads",
        (
            Edit(
                HEADS,
                'n_heads // attention["n_heads_in_group"]',
                'attention["n_heads_in_group"]',
            ),
        ),
        caught_by="heads_by_layer",
        hint="`n_heads_in_group` says how many query heads share one KV head: the layer has "
        "query heads / group of these.",
    ),
    NamedMistake(
        "first_block_for_all",
        (Edit(HEADS, "        return n_kv_heads\n", "        return n_kv_heads[:1] * n_layers\n"),),
        caught_by="heads_by_layer",
        hint="Every block has heads of its own, and some have none.",
    ),
    NamedMistake(
        "replaced_attention_counted",
        (
            Edit(
                HEADS,
                "n_kv_heads.append(0)",
                'n_kv_heads.append(0 if attention.get("no_op") else n_heads)',
            ),
        ),
        caught_by="heads_by_layer",
        hint="Where attention was replaced by a linear layer there is nothing to keep.",
    ),
    NamedMistake(
        "no_op_blocks_counted",
        (
            Edit(
                HEADS,
                "n_kv_heads.append(0)",
                'n_kv_heads.append(n_heads if attention.get("no_op") else 0)',
            ),
        ),
        caught_by="heads_by_layer",
        hint="A block whose attention is a `no_op` keeps nothing.",
    ),
)
