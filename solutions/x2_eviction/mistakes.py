"""The named mistakes of lab x2."""

from milestones.x2_eviction.checks import TO_SINGLE_PRECISION
from solutions.mistake import Edit, NamedMistake

AGE, ATTEND, RECEIVED, HEAVY, DECODE, REACH = (
    "sinks_and_recent",
    "attend",
    "attention_received",
    "heavy_and_recent",
    "decode",
    "reach",
)
KEPT, TURNED, ADDED, HITTERS = (
    "first_and_last_kept",
    "keys_turned_to_their_place",
    "attention_added_up",
    "heavy_hitters_kept",
)
WHOLE, STREAMED, HEAVY_DECODED, GONE = (
    "room_for_all",
    "streams_decoded",
    "heavy_hitters_decoded",
    "evicted_is_gone",
)
NEWEST = "n_entries - (room - n_sinks)"

MISTAKES = (
    NamedMistake(
        "sinks_forgotten",
        (
            Edit(AGE, NEWEST, "n_entries - room"),
            Edit(AGE, "np.concatenate((np.arange(n_sinks), newest))", "newest"),
        ),
        caught_by=KEPT,
        also=(STREAMED, GONE),
        hint="These are the newest entries alone: the first n_sinks stay, too, and take their "
        "share of the room.",
    ),
    NamedMistake(
        "sinks_beyond_the_room",
        (Edit(AGE, NEWEST, "n_entries - room"),),
        caught_by=KEPT,
        also=(STREAMED, GONE),
        hint="The sinks come on top of a full room here. They are part of it: the newest have "
        "room - n_sinks.",
    ),
    NamedMistake(
        "newest_left_out",
        (Edit(AGE, f"{NEWEST}, n_entries", f"{NEWEST} - 1, n_entries - 1"),),
        caught_by=KEPT,
        also=(STREAMED, GONE),
        hint="The newest entry does not stay here: entries are counted from 0, so the last one is "
        "number n_entries - 1, and np.arange ends before its end.",
    ),
    NamedMistake(
        "oldest_for_newest",
        (Edit(AGE, f"np.arange({NEWEST}, n_entries)", "np.arange(n_sinks, room)"),),
        caught_by=KEPT,
        also=(STREAMED, GONE),
        hint="After the sinks come the next oldest here. The newest entries are those with the "
        "highest numbers.",
    ),
    NamedMistake(
        "always_in_the_text",
        (Edit(ATTEND, "if within_cache:", "if False:"),),
        caught_by=TURNED,
        also=(STREAMED, HEAVY_DECODED),
        hint="Keys are always turned to their positions in the text here. With within_cache, "
        "entries are counted 0, 1, 2, ... as they stand in the cache.",
    ),
    NamedMistake(
        "always_in_the_cache",
        (Edit(ATTEND, "if within_cache:", "if True:"),),
        caught_by=TURNED,
        also=(STREAMED, HEAVY_DECODED),
        hint="Keys are always turned to their places in the cache here. Without within_cache an "
        "entry keeps the position it has in the text.",
    ),
    NamedMistake(
        "query_left_in_the_text",
        (
            Edit(
                ATTEND,
                "    if within_cache:",
                "    own = positions[:, -1:]\n    if within_cache:",
            ),
            Edit(ATTEND, "head_dim), positions[:, -1:])", "head_dim), own)"),
        ),
        caught_by=TURNED,
        also=(STREAMED, HEAVY_DECODED),
        hint="The keys are turned to their places in the cache and the query is not: it stands "
        "where its own key stands, last.",
    ),
    NamedMistake(
        "query_not_turned",
        (
            Edit(
                ATTEND,
                "turn(q.reshape(n_kv_heads, -1, head_dim), positions[:, -1:])",
                "q.reshape(n_kv_heads, -1, head_dim)",
            ),
        ),
        caught_by=TURNED,
        also=(WHOLE, STREAMED, HEAVY_DECODED),
        hint="The keys are turned and the query is not: a score then depends on where the key "
        "stands, and not on how far it is from the query.",
    ),
    NamedMistake(
        "query_heads_dealt_round",
        (
            Edit(
                ATTEND,
                "q.reshape(n_kv_heads, -1, head_dim)",
                "q.reshape(-1, n_kv_heads, head_dim).transpose(1, 0, 2)",
            ),
            Edit(
                ATTEND,
                "(weights @ values).reshape(q.shape), weights.reshape(len(q), n)",
                "(weights @ values).transpose(1, 0, 2).reshape(q.shape), "
                "weights.transpose(1, 0, 2).reshape(len(q), n)",
            ),
        ),
        caught_by=TURNED,
        also=(WHOLE, STREAMED, HEAVY_DECODED),
        hint="Query heads are dealt out to KV heads in turn here. Those that share one are "
        "neighbours: head h reads KV head h // (n_heads / n_kv_heads).",
    ),
    NamedMistake(
        "root_forgotten",
        (Edit(ATTEND, " / math.sqrt(head_dim)", ""),),
        caught_by=TURNED,
        also=(WHOLE, STREAMED, HEAVY_DECODED),
        hint="Scores are not divided by the root of head_dim here, so that the weights are too "
        "unequal.",
    ),
    NamedMistake(
        "divided_by_the_whole_size",
        (Edit(ATTEND, "math.sqrt(head_dim)", "head_dim"),),
        caught_by=TURNED,
        also=(WHOLE, STREAMED, HEAVY_DECODED),
        hint="Scores are divided by head_dim here. It is its root: weights come out too equal.",
    ),
    NamedMistake(
        "softmax_over_the_heads",
        (
            Edit(
                ATTEND,
                "softmax(scores)",
                "softmax(scores.reshape(len(q), n).T).T.reshape(scores.shape)",
            ),
        ),
        caught_by=TURNED,
        also=(WHOLE, STREAMED, HEAVY_DECODED),
        hint="The softmax goes over the query heads here. It goes over the entries: the weights of "
        "each query head add up to 1.",
    ),
    NamedMistake(
        "mean_of_the_group",
        (Edit(RECEIVED, ".sum(axis=1)", ".mean(axis=1)"),),
        caught_by=ADDED,
        hint="That is the mean over the query heads of a group. What an entry received is added "
        "up, so that a row adds up to the size of the group.",
    ),
    NamedMistake(
        "weights_dealt_round",
        (
            Edit(
                RECEIVED,
                "reshape(n_kv_heads, -1, weights.shape[-1]).sum(axis=1)",
                "reshape(-1, n_kv_heads, weights.shape[-1]).sum(axis=0)",
            ),
        ),
        caught_by=ADDED,
        also=(HEAVY_DECODED,),
        hint="Every other query head is added up here. The query heads that share a KV head are "
        "neighbours.",
    ),
    NamedMistake(
        "lightest_kept",
        (Edit(HEAVY, "n_older - n_heavy :]", ": n_heavy]"),),
        caught_by=HITTERS,
        also=(HEAVY_DECODED,),
        hint="The entries with the lowest scores stay here. argsort puts the lowest first.",
    ),
    NamedMistake(
        "heaviest_alone",
        (
            Edit(HEAVY, "n_heavy = room // 2", "n_heavy = room"),
            Edit(HEAVY, "newest = np.tile", "n_older = n\n    newest = np.tile"),
            Edit(HEAVY, "n_older = n - (room - n_heavy)", "n_older = n"),
        ),
        caught_by=HITTERS,
        also=(HEAVY_DECODED,),
        hint="All room goes to the heaviest here. The newest entries have had no time to be looked "
        "at: room - room // 2 of them stay whatever their scores.",
    ),
    NamedMistake(
        "heaviest_among_all",
        (
            Edit(HEAVY, "np.argsort(scores[:, :n_older], axis=1)", "np.argsort(scores, axis=1)"),
            Edit(HEAVY, "n_older - n_heavy :", "n - n_heavy :"),
            Edit(
                HEAVY,
                "np.concatenate((heavy, newest), axis=1)",
                "np.sort(np.concatenate((heavy, newest), axis=1), axis=1)",
            ),
        ),
        caught_by=HITTERS,
        also=(HEAVY_DECODED,),
        hint="The heavy hitters are chosen among all entries here, so that one may be of the "
        "newest and stands twice. They are chosen among those that are not the newest anyway.",
    ),
    NamedMistake(
        "one_choice_for_all_heads",
        (
            Edit(
                HEAVY,
                "np.argsort(scores[:, :n_older], axis=1)",
                "np.argsort(np.tile(scores.sum(axis=0), (n_kv_heads, 1))[:, :n_older], axis=1)",
            ),
        ),
        caught_by=HITTERS,
        also=(HEAVY_DECODED,),
        hint="All KV heads keep the same entries here. Each has scores of its own, and its own "
        "heavy hitters.",
    ),
    NamedMistake(
        "kept_in_the_order_of_scores",
        (
            Edit(
                HEAVY,
                "np.sort(by_score[:, n_older - n_heavy :], axis=1)",
                "by_score[:, n_older - n_heavy :]",
            ),
        ),
        caught_by=HITTERS,
        also=(HEAVY_DECODED,),
        hint="The heavy hitters stand in the order of their scores here. Entries stay in the order "
        "of the text, or their places in the cache mean nothing.",
    ),
    NamedMistake(
        "one_entry_too_many",
        (
            Edit(DECODE, 'cache["keys"].shape[1] == budget', 'cache["keys"].shape[1] > budget'),
            Edit(DECODE, "budget - 1)", "budget)"),
        ),
        caught_by=GONE,
        also=(STREAMED, HEAVY_DECODED),
        hint="Attention sees budget + 1 entries here: the new token's own counts, too. Make room "
        "before it comes in.",
    ),
    NamedMistake(
        "one_entry_too_few",
        (
            Edit(DECODE, "shape[1] == budget", "shape[1] == budget - 1"),
            Edit(DECODE, "budget - 1)", "budget - 2)"),
        ),
        caught_by=STREAMED,
        also=(WHOLE, HEAVY_DECODED, GONE),
        hint="Attention never sees more than budget - 1 entries here. A cache makes room when it "
        "is full, and then for one.",
    ),
    NamedMistake(
        "nothing_ever_evicted",
        (Edit(DECODE, 'cache["keys"].shape[1] == budget', "False"),),
        caught_by=GONE,
        also=(STREAMED, HEAVY_DECODED),
        hint="No entry ever goes here, so that the cache grows with the text. When it holds budget "
        "entries, it makes room for the new one.",
    ),
    NamedMistake(
        "position_from_the_cache",
        (
            Edit(
                DECODE,
                "add(cache, key, value, position)",
                'add(cache, key, value, cache["keys"].shape[1])',
            ),
        ),
        caught_by=STREAMED,
        also=(HEAVY_DECODED,),
        hint="A new entry gets the number of entries for a position here. Once something was "
        "evicted that is no longer its position in the text.",
    ),
    NamedMistake(
        "own_entry_not_seen",
        (
            Edit(
                DECODE,
                """            add(cache, key, value, position)
            mixed, weights = attend(
                q, cache["keys"], cache["values"], cache["positions"], within_cache
            )
            cache["scores"]""",
                """            if not position:
                add(cache, key, value, position)
            mixed, weights = attend(
                q, cache["keys"], cache["values"], cache["positions"], within_cache
            )
            if position:
                add(cache, key, value, position)
                weights = np.concatenate((weights, np.zeros((len(weights), 1))), axis=1)
            cache["scores"]""",
            ),
        ),
        caught_by=WHOLE,
        also=(STREAMED, HEAVY_DECODED),
        hint="A token's entry comes in after its query has attended here. A token sees itself, so "
        "its entry comes in first.",
    ),
    NamedMistake(
        "final_norm_forgotten",
        (Edit(DECODE, 'norm(x) @ lm["unembedding"]', 'x @ lm["unembedding"]'),),
        caught_by=WHOLE,
        also=(STREAMED, HEAVY_DECODED),
        hint="The vector after the last layer becomes logits as it is here. It is normed first, as "
        "in `logits_of`.",
    ),
    NamedMistake(
        "gathered_in_float32",
        (Edit(DECODE, "np.array(rows)", "np.array(rows, dtype=np.float32)"),),
        caught_by=WHOLE,
        also=(STREAMED, HEAVY_DECODED),
        hint=TO_SINGLE_PRECISION,
    ),
    NamedMistake(
        "own_attention_not_added",
        (
            Edit(
                DECODE,
                """            cache["scores"] = cache["scores"] + attention_received(weights, """
                """lm["n_kv_heads"])
""",
                """            received = attention_received(weights, lm["n_kv_heads"])
            received[:, -1] = 0
            cache["scores"] = cache["scores"] + received
""",
            ),
        ),
        caught_by=HEAVY_DECODED,
        hint="An entry starts with nothing from its own query here. A score adds up the attention "
        "of all queries that saw the entry, its own among them.",
    ),
    NamedMistake(
        "last_glance_only",
        (
            Edit(
                DECODE,
                'cache["scores"] + attention_received',
                "attention_received",
            ),
        ),
        caught_by=HEAVY_DECODED,
        hint="A score holds the attention of the last query alone here. It is added up over all "
        "queries that saw the entry.",
    ),
    NamedMistake(
        "scores_start_again",
        (
            Edit(
                DECODE,
                "            add(cache, key",
                '            if cache["keys"].shape[1] == budget - 1 and position >= budget:\n'
                '                cache["scores"] = np.zeros_like(cache["scores"])\n'
                "            add(cache, key",
            ),
        ),
        caught_by=HEAVY_DECODED,
        hint="Scores start again at 0 when something is evicted here. What stays keeps what it "
        "received.",
    ),
    NamedMistake(
        "one_layer_of_reach",
        (Edit(REACH, "1 + n_layers * (budget - 1)", "budget"),),
        caught_by=REACH,
        hint="That is what one layer sees. An entry of the window was made of what its own token "
        "saw, one layer below.",
    ),
    NamedMistake(
        "shared_token_counted_again",
        (Edit(REACH, "1 + n_layers * (budget - 1)", "n_layers * budget"),),
        caught_by=REACH,
        hint="The oldest token of one window is the newest of the next one below: count it once. "
        "Each layer adds budget - 1.",
    ),
    NamedMistake(
        "beyond_the_text",
        (Edit(REACH, "min(n_tokens, 1 + n_layers * (budget - 1))", "1 + n_layers * (budget - 1)"),),
        caught_by=REACH,
        hint="A short text has fewer tokens than the window could reach.",
    ),
)
