"""The named mistakes of milestone 3."""

from solutions.mistake import Edit, NamedMistake

PER_TOKEN, REQUESTS, CONTEXT = "kv_bytes_per_token", "max_concurrent_requests", "max_context_len"
GPUS = "gpus_needed"

# Where two mistakes give the same answers, the first hint is shown: those that are wrong on more
# questions come first.

IN_REQUESTS = ("any_machine", "memory_fraction", "nothing_fits", "trade_off")
IN_CONTEXT = ("memory_fraction", "nothing_fits", "trade_off")
IN_BOTH = ("any_machine", "memory_fraction", "nothing_fits", "longest_context", "trade_off", GPUS)

MISTAKES = (
    NamedMistake(
        "rounded_up",
        (
            Edit(
                REQUESTS, "int(free_bytes // request_bytes)", "int(-(-free_bytes // request_bytes))"
            ),
        ),
        caught_by="known_machine",
        also=IN_REQUESTS,
        hint="This rounds up. A request that fits only in part does not fit.",
    ),
    NamedMistake(
        "gib_for_gb",
        (Edit(REQUESTS, "gpu_memory_gb * 1e9", "gpu_memory_gb * 2**30"),),
        caught_by="known_machine",
        also=IN_REQUESTS,
        hint="This counts 2^30 bytes in a gigabyte. GPU memory is sold in decimal GB, 1e9 bytes.",
    ),
    NamedMistake(
        "weights_forgotten",
        (Edit(REQUESTS, " - weight_bytes", ""),),
        caught_by="known_machine",
        also=IN_REQUESTS,
        hint="The weights take their share of the memory before the first request does.",
    ),
    NamedMistake(
        "not_rounded",
        (Edit(REQUESTS, "int(free_bytes // request_bytes)", "free_bytes / request_bytes"),),
        caught_by="known_machine",
        also=IN_REQUESTS,
        hint="Requests come whole: round down what fits.",
    ),
    NamedMistake(
        "cache_always_sixteen_bits",
        (Edit(PER_TOKEN, "kv_bits // 8", "2"),),
        caught_by="known_machine",
        also=IN_BOTH,
        hint="The cache is counted in 16 bits whatever `kv_bits` says; 8 bits take half.",
    ),
    NamedMistake(
        "keys_without_values",
        (Edit(PER_TOKEN, "2 * n_layers", "n_layers"),),
        caught_by="known_machine",
        also=IN_BOTH,
        hint="This counts the keys and forgets the values: each token leaves both.",
    ),
    NamedMistake(
        "weight_bits_as_bytes",
        (Edit(REQUESTS, "weight_bits / 8", "weight_bits"),),
        caught_by="known_machine",
        also=IN_REQUESTS,
        hint="These weights are 8 times too large: `weight_bits` are bits, and a byte has 8.",
    ),
    NamedMistake(
        "weights_always_sixteen_bits",
        (Edit(REQUESTS, "weight_bits / 8", "2"),),
        caught_by="known_machine",
        also=IN_REQUESTS,
        hint="Two bytes a weight is right for 16 bits only; `weight_bits` may be 8 or 4.",
    ),
    NamedMistake(
        "context_ignored",
        (Edit(REQUESTS, " * context_len", ""),),
        caught_by="known_machine",
        also=IN_REQUESTS,
        hint="This is the number of tokens that fit, not of requests: each request has "
        "`context_len` tokens.",
    ),
    NamedMistake(
        "weights_held_once_per_request",
        (
            Edit(
                REQUESTS,
                "int(free_bytes // request_bytes)",
                "int((free_bytes + weight_bytes) // (request_bytes + weight_bytes))",
            ),
        ),
        caught_by="known_machine",
        also=IN_REQUESTS,
        hint="Here every request brings weights of its own. They are in memory once, for all.",
    ),
    NamedMistake(
        "fraction_of_what_the_weights_leave",
        (
            Edit(
                REQUESTS,
                "memory_fraction * gpu_memory_gb * 1e9 - weight_bytes",
                "memory_fraction * (gpu_memory_gb * 1e9 - weight_bytes)",
            ),
        ),
        caught_by="any_machine",
        also=("known_machine", "memory_fraction", "nothing_fits", "trade_off"),
        hint="The fraction applies to the whole memory, before the weights are taken off.",
    ),
    NamedMistake(
        "whole_memory_used",
        (Edit(REQUESTS, "memory_fraction * gpu_memory_gb", "gpu_memory_gb"),),
        caught_by="any_machine",
        also=("known_machine", "memory_fraction", "nothing_fits", "trade_off"),
        hint="This fills all of the memory. Only `memory_fraction` of it may be used.",
    ),
    NamedMistake(
        "fraction_fixed",
        (
            Edit(REQUESTS, "memory_fraction * gpu_memory_gb", "0.92 * gpu_memory_gb"),
            Edit(CONTEXT, "memory_fraction * gpu_memory_gb", "0.92 * gpu_memory_gb"),
        ),
        caught_by="memory_fraction",
        hint="0.92 is only the default. Use the `memory_fraction` that is passed.",
    ),
    NamedMistake(
        "fewer_than_none",
        (
            Edit(
                REQUESTS,
                "max(0, int(free_bytes // request_bytes))",
                "int(free_bytes // request_bytes)",
            ),
        ),
        caught_by="nothing_fits",
        hint="Where the weights do not fit, the quotient is negative. The answer is 0.",
    ),
    NamedMistake(
        "context_below_zero",
        (
            Edit(
                CONTEXT,
                "max(0, int(free_bytes // (token_bytes * n_requests)))",
                "int(free_bytes // (token_bytes * n_requests))",
            ),
        ),
        caught_by="nothing_fits",
        hint="Where the weights do not fit, no context is possible: the answer is 0.",
    ),
    NamedMistake(
        "rounded_to_nearest",
        (Edit(REQUESTS, "int(free_bytes // request_bytes)", "round(free_bytes / request_bytes)"),),
        caught_by="known_machine",
        also=IN_REQUESTS,
        hint="This rounds to the nearest whole number: 3.567 requests are 3, not 4.",
    ),
    NamedMistake(
        "requests_ignored",
        (Edit(CONTEXT, "(token_bytes * n_requests)", "token_bytes"),),
        caught_by="longest_context",
        also=IN_CONTEXT,
        hint="This is the context of one request alone; `n_requests` share the memory.",
    ),
    NamedMistake(
        "context_gib_for_gb",
        (Edit(CONTEXT, "gpu_memory_gb * 1e9", "gpu_memory_gb * 2**30"),),
        caught_by="longest_context",
        also=IN_CONTEXT,
        hint="This counts 2^30 bytes in a gigabyte. GPU memory is sold in decimal GB, 1e9 bytes.",
    ),
    NamedMistake(
        "weights_shared_out",
        (
            Edit(
                CONTEXT,
                "free_bytes // (token_bytes * n_requests)",
                "(free_bytes + weight_bytes - n_requests * weight_bytes) "
                "// (token_bytes * n_requests)",
            ),
        ),
        caught_by="longest_context",
        also=IN_CONTEXT,
        hint="Here every request brings weights of its own. They are in memory once, for all.",
    ),
    NamedMistake(
        "context_in_powers_of_two",
        (
            Edit(
                CONTEXT,
                "max(0, int(free_bytes // (token_bytes * n_requests)))",
                "max((2**i for i in range(31) if 2**i * token_bytes * n_requests <= free_bytes), "
                "default=0)",
            ),
        ),
        caught_by="trade_off",
        also=("longest_context", "memory_fraction"),
        hint="Only powers of two were tried. Any whole number of tokens may be the longest.",
    ),
    NamedMistake(
        "context_in_blocks_of_sixteen",
        (
            Edit(
                CONTEXT,
                "int(free_bytes // (token_bytes * n_requests))",
                "int(free_bytes // (token_bytes * n_requests)) // 16 * 16",
            ),
        ),
        caught_by="trade_off",
        also=("longest_context", "memory_fraction"),
        hint="This keeps to whole blocks of 16 tokens, as paged engines do. Here memory is not "
        "split into blocks.",
    ),
    NamedMistake(
        "gpus_rounded_down",
        (Edit(GPUS, "math.ceil(", "math.floor("),),
        caught_by=GPUS,
        hint="This rounds down: the rest needs memory too. Requests are rounded down, GPUs up.",
    ),
    NamedMistake(
        "weights_on_every_gpu",
        (
            Edit(
                GPUS,
                "math.ceil((weight_bytes + cache_bytes) / usable_bytes)",
                "math.ceil(cache_bytes / abs(usable_bytes - weight_bytes))",
            ),
        ),
        caught_by=GPUS,
        hint="Here every GPU holds all of the weights. Split over several, each holds its part.",
    ),
    NamedMistake(
        "gpus_for_the_weights_alone",
        (Edit(GPUS, "weight_bytes + cache_bytes", "weight_bytes"),),
        caught_by=GPUS,
        hint="This holds the weights and no request: the caches take memory too.",
    ),
    NamedMistake(
        "gpus_filled_whole",
        (Edit(GPUS, "memory_fraction * gpu_memory_gb", "gpu_memory_gb"),),
        caught_by=GPUS,
        hint="This fills all of each GPU. Only `memory_fraction` of its memory may be used.",
    ),
)
