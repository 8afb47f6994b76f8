"""The named mistakes of milestone 4."""

from solutions.mistake import Edit, NamedMistake

SOFTMAX, FULL, NEW, STEP, COUNT = (
    "softmax",
    "full_logits",
    "new_cache",
    "decode_step",
    "count_key_projections",
)
PREFILL = "prefill_tokens"
DECODED = ("large_scores", "every_step", "grouped_heads", "old_entries_stay", "caches_are_apart")
"""The checks that read logits of decode steps."""


def _both(old: str, new: str) -> tuple[Edit, ...]:
    return Edit(FULL, old, new), Edit(STEP, old, new)


def _other_decoded(caught_by: str) -> tuple[str, ...]:
    return tuple(name for name in DECODED if name != caught_by)


STABLE = """odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)"""
# numpy warns where these overflow, as it should; a test that turns warnings into errors would
# otherwise see an exception where a student sees NaN.
UNSTABLE = """with np.errstate(over="ignore", invalid="ignore"):
        odds = np.exp({})
        return odds / odds.sum(axis=-1, keepdims=True)"""

MISTAKES = (
    NamedMistake(
        "no_causal_mask",
        (Edit(FULL, "scores[later] = -np.inf", "pass"),),
        caught_by="only_the_past_counts",
        also=("full_logits_right", "large_scores", "grouped_heads"),
        hint="Every token sees the whole sequence here. A score whose key comes after its query "
        "must be masked before the softmax.",
    ),
    NamedMistake(
        "mask_one_too_late",
        (Edit(FULL, "k=1", "k=2"),),
        caught_by="only_the_past_counts",
        also=("full_logits_right", "large_scores", "grouped_heads"),
        hint="Each token sees one token of its future. A query at t sees keys 0 to t, itself "
        "included, and no more.",
    ),
    NamedMistake(
        "scale_without_root",
        _both("/ np.sqrt(head_dim)", "/ head_dim"),
        caught_by="full_logits_right",
        also=DECODED,
        hint="Scores are divided by the square root of head_dim, not by head_dim.",
    ),
    NamedMistake(
        "scale_of_the_model_width",
        _both("/ np.sqrt(head_dim)", "/ np.sqrt(x.shape[-1])"),
        caught_by="full_logits_right",
        also=DECODED,
        hint="The scale belongs to one head: the square root of head_dim, not of the model's "
        "width.",
    ),
    NamedMistake(
        "no_norm_before_unembedding",
        _both('norm(x) @ params["unembedding"]', 'x @ params["unembedding"]'),
        caught_by="full_logits_right",
        also=DECODED,
        hint="The vector is normed once more before the unembedding: logits = norm(x) @ "
        "unembedding.",
    ),
    NamedMistake(
        "no_maximum_in_softmax",
        (Edit(SOFTMAX, STABLE, UNSTABLE.format("scores")),),
        caught_by="large_scores",
        hint="The exponential of a score above 709 is infinite. Take each row's largest score off "
        "before exponentiating; the weights stay the same.",
    ),
    NamedMistake(
        "one_maximum_for_all_rows",
        (Edit(SOFTMAX, STABLE, UNSTABLE.format("scores - scores.max()")),),
        caught_by="large_scores",
        hint="One maximum for all rows lets a row far below it vanish to 0 / 0. Each row needs "
        "its own.",
    ),
    NamedMistake(
        "kv_heads_dealt_round",
        _both("head // group", "head % n_kv_heads"),
        caught_by="grouped_heads",
        hint="The query heads that share a KV head are neighbours: with 6 and 3 heads, query "
        "heads 0 and 1 use KV head 0. This deals them out in turn.",
    ),
    NamedMistake(
        "first_kv_head_for_all",
        _both("head // group", "0"),
        caught_by="grouped_heads",
        also=("full_logits_right", *_other_decoded("grouped_heads")),
        hint="Every query head reads KV head 0 here. That is right with one KV head only.",
    ),
    NamedMistake(
        "position_one_ahead",
        (Edit(STEP, 'params["position"][t]', 'params["position"][t + 1]'),),
        caught_by="every_step",
        also=_other_decoded("every_step"),
        hint="The new token's position is the number of tokens already in the cache: 0 for the "
        "first. This is one ahead.",
    ),
    NamedMistake(
        "position_always_zero",
        (Edit(STEP, 'params["position"][t]', 'params["position"][0]'),),
        caught_by="every_step",
        also=_other_decoded("every_step"),
        hint="Every token gets the position of the first. The new token's position is the number "
        "of tokens already in the cache.",
    ),
    NamedMistake(
        "values_not_cached",
        (Edit(STEP, 'cache["v"][i, : t + 1]', 'np.stack([cache["v"][i, t]] * (t + 1))'),),
        caught_by="every_step",
        also=_other_decoded("every_step"),
        hint="Every old token counts with the newest value here. The cache must keep the values "
        "beside the keys.",
    ),
    NamedMistake(
        "empty_slots_attended",
        (
            Edit(
                STEP,
                'cache["k"][i, : t + 1], cache["v"][i, : t + 1]',
                'cache["k"][i], cache["v"][i]',
            ),
        ),
        caught_by="every_step",
        also=_other_decoded("every_step"),
        hint="Slots of the cache that hold no token yet take weight too: a key of zeros has score "
        "0, not minus infinity. Read the filled part only.",
    ),
    NamedMistake(
        "layers_share_a_cache",
        (Edit(STEP, "[i, ", "[0, "),),
        caught_by="every_step",
        also=("grouped_heads", "old_entries_stay", "caches_are_apart"),
        hint="All layers write to one place, so each reads what the last one left. Every layer "
        "keeps keys and values of its own.",
    ),
    NamedMistake(
        "keys_of_unnormed_vectors",
        (Edit(STEP, 'h @ layer["w_k"]', 'x @ layer["w_k"]'),),
        caught_by="every_step",
        also=_other_decoded("every_step"),
        hint="The new key is made of x, where it is made of norm(x), like the query and the value.",
    ),
    NamedMistake(
        "computed_again_from_tokens",
        (
            Edit(
                STEP,
                't = cache["length"]',
                'cache.setdefault("tokens", []).append(token)\n'
                '    return full_logits(params, cache["tokens"])[-1], cache',
            ),
        ),
        caught_by="old_entries_stay",
        hint="This step computes the old tokens again from their numbers. Old keys and values come "
        "from the cache, as the parameters of their time made them.",
    ),
    NamedMistake(
        "one_cache_for_all",
        (
            Edit(
                NEW,
                'return {"length": 0, "k": np.zeros(shape), "v": np.zeros(shape)}',
                'new_cache.kept = getattr(new_cache, "kept", {})\n'
                '    new_cache.kept.update({"length": 0, "k": np.zeros(shape), '
                '"v": np.zeros(shape)})\n'
                "    return new_cache.kept",
            ),
        ),
        caught_by="caches_are_apart",
        hint="Two sequences share one cache here: each must get its own from `new_cache`, and "
        "nothing may live in a global variable.",
    ),
    NamedMistake(
        "new_token_left_out",
        (Edit(COUNT, "n_tokens * (n_tokens + 1) // 2", "n_tokens * (n_tokens - 1) // 2"),),
        caught_by="projections_counted",
        hint="Without a cache the step that reads token number t computes t keys, the new one "
        "included: 1 + 2 + ... + n.",
    ),
    NamedMistake(
        "full_square",
        (Edit(COUNT, "n_tokens * (n_tokens + 1) // 2", "n_tokens**2"),),
        caught_by="projections_counted",
        hint="Early steps are short: the step that reads token number t computes t keys, not n. "
        "The sum is about half the square.",
    ),
    NamedMistake(
        "count_of_one_step",
        (Edit(COUNT, "n_tokens if use_cache", "1 if use_cache"),),
        caught_by="projections_counted",
        hint="With a cache each step computes one key; the question is about all n steps.",
    ),
    NamedMistake(
        "prefix_never_kept",
        (Edit(PREFILL, "1 if prefix_cached else n_requests", "n_requests"),),
        caught_by=PREFILL,
        hint="Here each request computes the shared tokens again, also with prefix caching.",
    ),
    NamedMistake(
        "prefix_always_kept",
        (Edit(PREFILL, "1 if prefix_cached else n_requests", "1"),),
        caught_by=PREFILL,
        hint="Without prefix caching nothing is kept from one request to the next.",
    ),
    NamedMistake(
        "prefix_for_free",
        (Edit(PREFILL, "1 if prefix_cached", "0 if prefix_cached"),),
        caught_by=PREFILL,
        hint="The first request finds the cache empty and has to compute the shared tokens.",
    ),
    NamedMistake(
        "own_tokens_shared_too",
        (Edit(PREFILL, "n_requests * own_tokens", "own_tokens"),),
        caught_by=PREFILL,
        hint="Only the beginning is shared: each request computes its own tokens.",
    ),
)
