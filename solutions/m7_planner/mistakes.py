"""The named mistakes of milestone 7."""

from solutions.mistake import Edit, NamedMistake

FIT, OPTIONS, PLAN, WRITTEN = "requests_that_fit", "options_on", "plan", "capacity_plan"
BROKEN_FLEETS = ("plans_hold", "cost_ratio")
NOT_RUNNING = (*BROKEN_FLEETS, "none_only_where_nothing_holds", "own_step", "limited_by")
CASE_CHANGES = ("written_plan",)
TEXT, IN_WORDS = "written_plan", "plan_in_words"
TEXT_END = 'at 61 requests.\n"""'
USD = "usd_per_million"
EVERY_PLAN = ("cost_of_a_million_tokens", "fits_in_memory")


def _keep_lines(*starts: str) -> str:
    """Return a statement that drops every line of the text that does not start so."""
    return (
        '\nwritten_plan = "\\n".join('
        f"line for line in written_plan.splitlines() if line.startswith({starts!r}))"
    )


MISTAKES = (
    NamedMistake(
        "memory_ignored",
        (Edit(FIT, "return max(0, math.floor(left / a_request))", "return 256"),),
        caught_by="fits_in_memory",
        also=(*NOT_RUNNING, *CASE_CHANGES),
        hint="Nothing here asks whether the requests fit: weights and every request's cache "
        "share 92 % of the GPU's memory.",
    ),
    NamedMistake(
        "weights_forgotten",
        (Edit(FIT, " - weights", ""),),
        caught_by="fits_in_memory",
        also=(*NOT_RUNNING, *CASE_CHANGES),
        hint="The weights are in memory too, once on every GPU, before the first request.",
    ),
    NamedMistake(
        "gib_for_gb",
        (Edit(FIT, "* 1e9 - weights", "* 2**30 - weights"),),
        caught_by="fits_in_memory",
        also=(*NOT_RUNNING, *CASE_CHANGES),
        hint="`gpu_memory_gb` is in decimal GB, 1e9 bytes; this takes 2**30 and gains 7 % that is "
        "not there.",
    ),
    NamedMistake(
        "output_tokens_take_no_memory",
        (Edit(FIT, ' + workload["output_tokens"]', ""),),
        caught_by="fits_in_memory",
        also=(*NOT_RUNNING, *CASE_CHANGES),
        hint="A request's cache holds its answer as well as its prompt: at its end it is prompt + "
        "output tokens long.",
    ),
    NamedMistake(
        "no_headroom",
        (Edit(OPTIONS, "(1 + headroom) * step", "step"),),
        caught_by="plans_hold",
        also=("cost_ratio", *CASE_CHANGES),
        hint="These are bare predictions: at a wall the real step is above the prediction as often "
        "as below. Promise with headroom taken from your own errors.",
    ),
    NamedMistake(
        "load_rounded_down",
        (Edit(OPTIONS, "np.ceil", "np.floor"),),
        caught_by="plans_hold",
        also=("cost_ratio", "limited_by", *CASE_CHANGES),
        hint="The number of GPUs is rounded down, so the fleet makes fewer tokens than the load "
        "demands. GPUs come whole: round up.",
    ),
    NamedMistake(
        "latency_ignored",
        (
            Edit(
                PLAN,
                'kept = on["promised_ms"] <= workload["max_step_ms"]',
                'kept = on["promised_ms"] > 0',
            ),
        ),
        caught_by="plans_hold",
        also=("cost_ratio", "none_only_where_nothing_holds", "limited_by"),
        hint="Nothing keeps the step below `max_step_ms`: a full GPU is cheap and may be too slow "
        "for its readers.",
    ),
    NamedMistake(
        "cheapest_by_the_hour",
        (Edit(PLAN, "rank = (cost[i], -room[i])", 'rank = (gpu["usd_per_hour"],)'),),
        caught_by="cost_ratio",
        also=("limited_by", *CASE_CHANGES),
        hint="This takes the GPU that is cheapest by the hour. What counts is what the whole fleet "
        "costs, and a GPU that holds more requests needs fewer hours.",
    ),
    NamedMistake(
        "one_request_at_a_time",
        (Edit(OPTIONS, "demand / (1000 * requests / promised)", "demand / (1000 / promised)"),),
        caught_by="cost_ratio",
        also=("plans_hold", "limited_by", *CASE_CHANGES),
        hint="This buys GPUs as if each served one request at a time. A step gives one token to "
        "every request in the batch.",
    ),
    NamedMistake(
        "none_too_often",
        (
            Edit(
                PLAN,
                "            continue\n        made",
                "            best = None\n            break\n        made",
            ),
        ),
        caught_by="none_only_where_nothing_holds",
        also=BROKEN_FLEETS,
        hint="One GPU that cannot serve the workload says nothing of the others: None is right "
        "only if none of those on offer can.",
    ),
    NamedMistake(
        "cost_of_what_could_be_made",
        (
            Edit(
                PLAN,
                "(demand * 3600 / 1e6)",
                '(on["n_gpus"][i] * on["requests_per_gpu"][i] / on["decode_step_ms"][i] * 3.6)',
            ),
        ),
        caught_by="cost_of_a_million_tokens",
        also=CASE_CHANGES,
        hint="This divides by the tokens that the fleet could make. Idle capacity is paid for too: "
        "divide by the tokens demanded.",
    ),
    NamedMistake(
        "fleet_of_one",
        (
            Edit(
                PLAN,
                '"fleet_usd_per_hour": float(on["fleet_usd_per_hour"][i])',
                '"fleet_usd_per_hour": gpu["usd_per_hour"]',
            ),
        ),
        caught_by="well_formed",
        also=CASE_CHANGES,
        hint="`fleet_usd_per_hour` is the price of all GPUs together: n_gpus times usd_per_hour.",
    ),
    NamedMistake(
        "always_none",
        (Edit(PLAN, "if best is None:", "if True:"),),
        caught_by="well_formed",
        also=(*EVERY_PLAN, *NOT_RUNNING),
        hint="This refuses every workload, whatever is asked. None is right only where no GPU and "
        "no number of requests keeps the promises.",
    ),
    NamedMistake(
        "step_per_request",
        (
            Edit(
                PLAN,
                'float(on["decode_step_ms"][i])',
                'float(on["decode_step_ms"][i] / on["requests_per_gpu"][i])',
            ),
        ),
        caught_by="own_step",
        also=CASE_CHANGES,
        hint="`decode_step_ms` is the whole step, in which every request of the batch gets one "
        "token; this divides it by the requests.",
    ),
    NamedMistake(
        "always_memory",
        (Edit(PLAN, 'limit = "load"', 'limit = "memory"'),),
        caught_by="limited_by",
        also=CASE_CHANGES,
        hint="A plan with room for one more request in memory and in the step is limited by its "
        "load, not by memory.",
    ),
    NamedMistake(
        "figures_from_elsewhere",
        (Edit(WRITTEN, '"n_gpus": ', '"n_gpus": 1 + '),),
        caught_by="written_plan",
        hint="The figures in `capacity_plan` are not those that your planner gives for the case. "
        "Run plan(CASE) and its what-ifs again, and copy what they say.",
    ),
    NamedMistake(
        "price_of_one_reader",
        (Edit(USD, "1000 * requests_per_gpu", "1000"),),
        caught_by=USD,
        hint="This is the price if one request has the GPU to itself: a step gives each a token.",
    ),
    NamedMistake(
        "price_by_the_second",
        (Edit(USD, " * 3600", ""),),
        caught_by=USD,
        hint="The price is for an hour and the tokens are for a second.",
    ),
    NamedMistake(
        "price_of_a_token",
        (Edit(USD, " * 1e6", ""),),
        caught_by=USD,
        hint="That is the price of one token; asked for is that of a million.",
    ),
    NamedMistake(
        "template_left_as_it_is",
        (Edit(TEXT, TEXT_END, TEXT_END + _keep_lines("#", ">")),),
        caught_by=IN_WORDS,
        hint="This is the template as it was handed out: write under the quoted lines.",
    ),
    NamedMistake(
        "headings_alone",
        (Edit(TEXT, TEXT_END, TEXT_END + _keep_lines("#")),),
        caught_by=IN_WORDS,
        hint="These are headings with nothing under them.",
    ),
    NamedMistake(
        "prompts_for_answers",
        (
            Edit(
                TEXT,
                TEXT_END,
                TEXT_END
                + _keep_lines("#", ">")
                + '\nwritten_plan = written_plan.replace("> ", "")',
            ),
        ),
        caught_by=IN_WORDS,
        hint="These are the template's own questions. They want answers.",
    ),
    NamedMistake(
        "part_left_out",
        (Edit(TEXT, "### How sure it is\n", ""),),
        caught_by=IN_WORDS,
        hint="One of the template's parts has lost its heading, so that nobody can find it.",
    ),
    NamedMistake(
        "words_of_another_plan",
        (Edit(TEXT, "28.80 USD an hour, and 0.667", "33.60 USD an hour, and 0.778"),),
        caught_by=IN_WORDS,
        hint="The words sell another plan than the figures: they name other costs.",
    ),
    NamedMistake(
        "what_ifs_of_another_plan",
        (Edit(TEXT, "17.70 USD an hour", "14.40 USD an hour"),),
        caught_by=IN_WORDS,
        hint="The words tell another cost of a what-if than the figures.",
    ),
)
