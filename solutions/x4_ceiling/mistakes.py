"""The named mistakes of lab x4."""

from solutions.mistake import Edit, NamedMistake

LIMITS, RESERVED, WASTE, SCHEDULE = "ceilings", "reserved_tokens", "waste", "schedule"
BLOCKS, ENTROPY, PLANES, CACHE = "blocks_held", "entropy_bits", "byte_planes", "cache_entropy"
USD = "usd_per_million_served"

FROM_RESERVED = ("waste_measured", "schedules")
"""The checks of functions that ask `reserved_tokens`."""

MISTAKES = (
    # ------------------------------------------------------------ limits
    # These two before the others: only `first` shows them, and others may name it alike.
    NamedMistake(
        "memory_never_first",
        (Edit(LIMITS, "min(found, key=found.get)", 'min(["cache", "compute"], key=found.get)'),),
        caught_by="first_ceiling_named",
        hint="This leaves the memory out: a batch may stop growing because no more requests fit.",
    ),
    NamedMistake(
        "last_instead_of_first",
        (Edit(LIMITS, "min(found, key=found.get)", "max(found, key=found.get)"),),
        caught_by="first_ceiling_named",
        hint="This names the limit that is met last. A growing batch meets the smallest first.",
    ),
    NamedMistake(
        "keys_without_values",
        (Edit(LIMITS, "= 2 * model", "= model"),),
        caught_by="ceiling_batches",
        also=("first_ceiling_named",),
        hint="This counts the keys and forgets the values: each token leaves both.",
    ),
    NamedMistake(
        "four_operations",
        (Edit(LIMITS, "operations / operations_per_s)", "2 * operations / operations_per_s)"),),
        caught_by="ceiling_batches",
        also=("first_ceiling_named",),
        hint="This charges four operations per parameter and request. One multiplication and one "
        "addition are two.",
    ),
    NamedMistake(
        "weights_forgotten_in_memory",
        (Edit(LIMITS, "1e9 - weight_bytes", "1e9"),),
        caught_by="ceiling_batches",
        also=("first_ceiling_named",),
        hint="The weights take their share of the memory before the first request does.",
    ),
    NamedMistake(
        "fraction_fixed",
        (Edit(LIMITS, "memory_fraction * gpu", "0.92 * gpu"),),
        caught_by="ceiling_batches",
        also=("first_ceiling_named",),
        hint="0.92 is only the default. Use the `memory_fraction` that is passed.",
    ),
    # ------------------------------------------------------------ reservations and waste
    NamedMistake(
        "blocks_not_whole",
        (Edit(RESERVED, "math.ceil((prompt + made) / block_size) * block_size", "prompt + made"),),
        caught_by="reservations",
        also=FROM_RESERVED,
        hint="Memory is given out in whole blocks: the last one counts in full.",
    ),
    NamedMistake(
        "a_block_for_each_part",
        (
            Edit(
                RESERVED,
                "math.ceil((prompt + made) / block_size) * block_size",
                "(math.ceil(prompt / block_size) + math.ceil(made / block_size)) * block_size",
            ),
        ),
        caught_by="reservations",
        also=FROM_RESERVED,
        hint="Prompt and output lie in the same blocks, one after the other: round their sum up.",
    ),
    NamedMistake(
        "power_of_two_of_everything",
        (
            Edit(RESERVED, "while room < output", "while room < prompt + output"),
            Edit(RESERVED, "min(prompt + room, max_len)", "min(room, max_len)"),
        ),
        caught_by="reservations",
        also=FROM_RESERVED,
        hint="The prompt's length is known. Only the output is guessed as a power of two.",
    ),
    NamedMistake(
        "power_of_two_beyond_max_len",
        (Edit(RESERVED, "min(prompt + room, max_len)", "prompt + room"),),
        caught_by="reservations",
        also=FROM_RESERVED,
        hint="No request may have more than `max_len` tokens, so no piece needs to be longer.",
    ),
    NamedMistake(
        "paged_from_the_end",
        (Edit(RESERVED, "(prompt + made) / block_size", "(prompt + output) / block_size"),),
        caught_by="reservations",
        also=FROM_RESERVED,
        hint="These are the blocks of the finished request. With pages, blocks are taken as it "
        "grows: for prompt + made.",
    ),
    NamedMistake(
        "seen_at_the_end_only",
        (Edit(WASTE, "range(1, output + 1)", "[output]"),),
        caught_by="waste_measured",
        hint="This looks at each request once, when it is finished and fullest. Look after each of "
        "its output tokens.",
    ),
    NamedMistake(
        "share_in_use",
        (Edit(WASTE, "1 - held / reserved", "held / reserved"),),
        caught_by="waste_measured",
        hint="This is the share in use. The waste is the rest.",
    ),
    NamedMistake(
        "requests_weighted_alike",
        (
            Edit(WASTE, "    held = reserved = 0\n", "    shares = []\n"),
            Edit(
                WASTE,
                "        for made in range(1, output + 1):",
                "        held = reserved = 0\n        for made in range(1, output + 1):",
            ),
            Edit(
                WASTE,
                "    return 1 - held / reserved",
                "        shares.append(1 - held / reserved)\n    return float(np.mean(shares))",
            ),
        ),
        caught_by="waste_measured",
        hint="This averages the requests' shares. A long request wastes more memory for longer: "
        "add up tokens, and divide once.",
    ),
    # ------------------------------------------------------------ schedules
    NamedMistake(
        "whole_batches",
        (
            Edit(SCHEDULE, "steps = [], []", "steps = [], []\n    joining = True"),
            Edit(SCHEDULE, "while queue and used", "while joining and queue and used"),
            Edit(
                SCHEDULE,
                "request[2] < request[1]]\n",
                "request[2] < request[1]]\n        joining = not running\n",
            ),
        ),
        caught_by="schedules",
        hint="Here nobody joins before all of a batch have ended. With continuous batching a "
        "finished request's place is taken in the next step.",
    ),
    NamedMistake(
        "oldest_put_back",
        (Edit(SCHEDULE, "newest = running.pop()", "newest = running.pop(0)"),),
        caught_by="schedules",
        hint="This puts the oldest back. The newest goes, which has the least to lose.",
    ),
    NamedMistake(
        "begins_again",
        (Edit(SCHEDULE, "queue.appendleft(newest)", "queue.appendleft([*newest[:2], 0])"),),
        caught_by="schedules",
        hint="Who is put back loses its memory, not its text: the tokens it has made stay made.",
    ),
    NamedMistake(
        "put_back_to_the_end",
        (Edit(SCHEDULE, "queue.appendleft(newest)", "queue.append(newest)"),),
        caught_by="schedules",
        hint="Who is put back goes to the head of the queue, before all who have not started.",
    ),
    NamedMistake(
        "no_room_for_the_next_token",
        (Edit(SCHEDULE, "made + 1, output", "max(made, 1), output"),),
        caught_by="schedules",
        hint="A request needs room for the token that it makes in this step, too.",
    ),
    NamedMistake(
        "small_ones_overtake",
        (
            Edit(
                SCHEDULE,
                "while queue and used + need(queue[0]) <= capacity_tokens:",
                "for one in [one for one in queue if need(one) <= capacity_tokens - used]:\n"
                "            if used + need(one) > capacity_tokens:\n"
                "                continue",
            ),
            Edit(SCHEDULE, "used += need(queue[0])", "used += need(one)"),
            Edit(
                SCHEDULE,
                "running.append(queue.popleft())",
                "queue.remove(one)\n            running.append(one)",
            ),
        ),
        caught_by="schedules",
        hint="Here small requests pass a large one that waits. Nobody overtakes: the first that "
        "does not fit ends the joining.",
    ),
    # ------------------------------------------------------------ shared beginnings
    NamedMistake(
        "blocks_by_their_own_tokens",
        (Edit(BLOCKS, "prompt[:end]", "prompt[end - block_size : end]"),),
        caught_by="prefix_shared",
        hint="This shares blocks that hold the same tokens. Keys and values also depend on all "
        "tokens before them, so those must be the same too.",
    ),
    NamedMistake(
        "unfinished_blocks_shared",
        (
            Edit(
                BLOCKS,
                "        not_full += len(prompt) % block_size > 0",
                "        beginnings.add(tuple(prompt))",
            ),
        ),
        caught_by="prefix_shared",
        hint="A block that is not full is still written to by its owner, so it cannot be shared.",
    ),
    NamedMistake(
        "rounded_down",
        (Edit(BLOCKS, "math.ceil(len(prompt) / block_size)", "len(prompt) // block_size"),),
        caught_by="prefix_shared",
        hint="The last tokens need a block as well, if they do not fill it.",
    ),
    # ------------------------------------------------------------ bytes
    NamedMistake(
        "nats_for_bits",
        (Edit(ENTROPY, "np.log2", "np.log"),),
        caught_by="entropy_right",
        also=("cache_measured",),
        hint="This takes the natural logarithm, which gives nats. Bits need the one to base 2.",
    ),
    NamedMistake(
        "not_weighted",
        (Edit(ENTROPY, "-(shares * np.log2(shares)).sum()", "-np.log2(shares).mean()"),),
        caught_by="entropy_right",
        also=("cache_measured",),
        hint="Here each value counts alike. Each counts with its probability.",
    ),
    NamedMistake(
        "bits_of_all_bytes",
        (
            Edit(
                ENTROPY,
                "-(shares * np.log2(shares)).sum()",
                "-(counts[counts > 0] * np.log2(shares)).sum()",
            ),
        ),
        caught_by="entropy_right",
        also=("cache_measured",),
        hint="These are the bits of all the data. Bits per byte were asked.",
    ),
    NamedMistake(
        "planes_swapped",
        (Edit(PLANES, "[words >> 8, words & 255]", "[words & 255, words >> 8]"),),
        caught_by="planes_split",
        also=("cache_measured",),
        hint="The planes are swapped: the byte with the sign is the high one, and comes first. (In "
        "memory, most machines put the low byte first.)",
    ),
    NamedMistake(
        "bfloat16_from_the_low_half",
        (Edit(PLANES, "view(np.uint32) >> 16", "view(np.uint32) & 65535"),),
        caught_by="planes_split",
        hint="This is the lower half of the float32, the end of its mantissa. A bfloat16 is the "
        "upper half.",
    ),
    NamedMistake(
        "always_float16",
        (Edit(PLANES, 'if kind == "float16"', "if True"),),
        caught_by="planes_split",
        hint="These are the bytes of a float16, whatever `kind` says.",
    ),
    NamedMistake(
        "cache_in_bfloat16",
        (Edit(CACHE, '"float16")', '"bfloat16")'),),
        caught_by="cache_measured",
        hint="These are the planes of bfloat16. The cache is asked in float16.",
    ),
    NamedMistake(
        "all_layers_at_once",
        (Edit(CACHE, "kept[layer].ravel()", "np.concatenate([kept[i].ravel() for i in kept])"),),
        caught_by="cache_measured",
        hint="This measures all layers together. One layer was asked.",
    ),
    # ------------------------------------------------------------ price
    NamedMistake(
        "always_busy",
        (Edit(USD, "busy_share * 3_600_000", "3_600_000"),),
        caught_by=USD,
        hint="This GPU would never rest. It is paid for the whole hour and makes tokens in a part.",
    ),
    NamedMistake(
        "idle_for_free",
        (Edit(USD, "busy_share * 3_600_000", "3_600_000 / busy_share"),),
        caught_by=USD,
        hint="Idle time makes tokens dearer, not cheaper: there are fewer of them for the price.",
    ),
    NamedMistake(
        "one_request_alone",
        (Edit(USD, " * batch_size", ""),),
        caught_by=USD,
        hint="A step makes a token for each request of the batch, not one.",
    ),
)
