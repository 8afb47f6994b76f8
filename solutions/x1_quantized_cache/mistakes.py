"""The named mistakes of lab x1."""

from solutions.mistake import Edit, NamedMistake

TO_INT, FROM_INT, FROM_FP8, TO_FP8 = "to_int", "from_int", "from_fp8", "to_fp8"
GROUPS, PROFILE, PROFILE_LM = "through_groups", "profile", "profile_lm"
BYTES, SEEN, PERPLEXITY, SCALED = "cache_bytes", "as_seen", "perplexity", "scaled_change"

WITH_INT = ("schemes_right", "perplexity_right")
"""The checks that whole numbers with a scale go through, beside their own."""
WITH_GROUPS = ("schemes_right", "perplexity_right", "outliers_told", "model_measured")
WITH_FP8 = ("fp8_edges", "schemes_right")

OPENED = "rest_bits, bias, _ = FP8[kind]"

# Some of these divide by zero or overflow, as they should: numpy warns, and a test that turns
# warnings into errors would otherwise see an exception where a student sees a number.
QUIET = "with np.errstate(all='ignore'):\n        "

MISTAKES = (
    NamedMistake(
        "one_step_too_many",
        (Edit(TO_INT, "2 ** (bits - 1) - 1", "2 ** (bits - 1)"),),
        caught_by="int_codes_right",
        also=WITH_INT,
        hint="With 8 bits codes run from -127 to 127: the largest number is 127 steps, not 128. "
        "The code 128 does not fit in an int8 and comes back as -128.",
    ),
    NamedMistake(
        "cut_off_instead_of_rounded",
        (Edit(TO_INT, "np.rint(x / scale)", "np.trunc(x / scale)"),),
        caught_by="int_codes_right",
        also=WITH_INT,
        hint="Codes are cut off here, as `astype` does by itself. Round to the nearest first: that "
        "halves the error.",
    ),
    NamedMistake(
        "halves_rounded_up",
        (Edit(TO_INT, "np.rint(x / scale)", "np.floor(x / scale + 0.5)"),),
        caught_by="int_codes_right",
        hint="A number halfway between two codes goes up here. Ties go to the even code: else all "
        "ties push one way.",
    ),
    NamedMistake(
        "largest_without_its_sign",
        (Edit(TO_INT, "np.abs(x).max(", "x.max("),),
        caught_by="int_codes_right",
        also=WITH_INT,
        hint="The scale is made from the largest number above zero. One below zero may be larger "
        "in size, and must fit too.",
    ),
    NamedMistake(
        "one_scale_for_everything",
        (Edit(TO_INT, "axis=SHARED_OVER[share], keepdims=True", "keepdims=True"),),
        caught_by="int_codes_right",
        also=WITH_INT,
        hint="All numbers share one scale here, whatever `share` says. Take the largest over the "
        "axes that it names.",
    ),
    NamedMistake(
        "zero_over_zero",
        (
            Edit(TO_INT, "scale = np.where(scale > 0, scale, 1)", "codes = x / 1"),
            Edit(
                TO_INT,
                "return np.rint(x / scale).astype(np.int8), scale",
                QUIET + "codes = np.rint(x / scale)\n    return codes, scale",
            ),
        ),
        caught_by="int_codes_right",
        hint="Where all numbers that share a scale are 0, this divides 0 by 0. Their codes are 0, "
        "and any scale does.",
    ),
    NamedMistake(
        "divided_on_the_way_back",
        (Edit(FROM_INT, "codes * scale", "codes / scale"),),
        caught_by="int_round_trip",
        also=WITH_INT,
        hint="A code counts steps of length `scale`: multiply on the way back.",
    ),
    NamedMistake(
        "codes_for_numbers",
        (Edit(FROM_INT, "codes * scale", "codes * 1.0"),),
        caught_by="int_round_trip",
        also=WITH_INT,
        hint="These are the codes themselves. Each counts steps of length `scale`.",
    ),
    NamedMistake(
        "subnormals_read_as_normal",
        (Edit(FROM_FP8, "field == 0", "field < 0"),),
        caught_by="fp8_values_right",
        also=("schemes_right",),
        hint="With exponent field 0 there is no leading 1, and the exponent is 1 - bias: code 0 is "
        "0.",
    ),
    NamedMistake(
        "field_of_ones_is_special",
        (Edit(FROM_FP8, "codes % 128 == 127", "field == 15"),),
        caught_by="fp8_values_right",
        hint="In E4M3 an exponent field of ones is ordinary: only with all seven bits set is it "
        "NaN. As in IEEE formats it would end at 240, not 448.",
    ),
    NamedMistake(
        "bias_one_too_large",
        (Edit(FROM_FP8, OPENED, f"{OPENED}\n    bias += 1"),),
        caught_by="fp8_values_right",
        also=("schemes_right",),
        hint="Half the right value: the exponent is one too small. The bias is 7 in E4M3 and 15 in "
        "E5M2, so that an exponent field of 7, or of 15, is a factor of 1.",
    ),
    NamedMistake(
        "bias_one_too_small",
        (Edit(FROM_FP8, OPENED, f"{OPENED}\n    bias -= 1"),),
        caught_by="fp8_values_right",
        also=("schemes_right",),
        hint="Twice the right value: the exponent is one too large. The bias is 7 in E4M3 and 15 "
        "in E5M2, so that an exponent field of 7, or of 15, is a factor of 1.",
    ),
    NamedMistake(
        "subnormals_one_exponent_lower",
        (Edit(FROM_FP8, "rest.astype(float), 1 - bias", "rest.astype(float), -bias"),),
        caught_by="fp8_values_right",
        also=("schemes_right",),
        hint="With exponent field 0 the exponent is 1 - bias, as with field 1; here it is -bias.",
    ),
    NamedMistake(
        "no_zero_below_zero",
        (Edit(FROM_FP8, "-value, value)", "0 - value, value)"),),
        caught_by="fp8_values_right",
        hint="Code 128 is -0.0: a sign and nothing else. 0 - 0.0 is 0.0 and loses the sign.",
    ),
    NamedMistake(
        "cut_off_in_fp8",
        (Edit(TO_FP8, "np.rint(", "np.floor("),),
        caught_by="fp8_rounding",
        also=WITH_FP8,
        hint="This takes the code below. The nearest may be the one above.",
    ),
    NamedMistake(
        "halves_up_in_fp8",
        (
            Edit(
                TO_FP8,
                "np.rint(np.ldexp(size, rest_bits - exponent))",
                "np.floor(np.ldexp(size, rest_bits - exponent) + 0.5)",
            ),
        ),
        caught_by="fp8_rounding",
        also=("fp8_edges",),
        hint="A tie goes away from zero here. It goes to the even code.",
    ),
    NamedMistake(
        "subnormals_flushed",
        (
            Edit(
                TO_FP8,
                "steps = np.rint(",
                "size = np.where(size < 2.0**least, 0, size)\n    steps = np.rint(",
            ),
        ),
        caught_by="fp8_rounding",
        also=WITH_FP8,
        hint="Numbers below the smallest normal one become 0 here. The subnormal codes are there "
        "for them: their steps are as long as those just above.",
    ),
    NamedMistake(
        "zero_has_the_exponent_zero",
        (
            Edit(
                TO_FP8,
                "exponent = np.frexp(np.maximum(size, 2.0**least))[1] - 1",
                "exponent = np.where(size == 0, -1, np.frexp(np.maximum(size, 2.0**least))[1] - 1)",
            ),
        ),
        caught_by="fp8_edges",
        also=("fp8_round_trip", "schemes_right"),
        hint="0 has no exponent of its own (`frexp` says 0, `log2` minus infinity). Its code is 0, "
        "or 128 with a sign: below the smallest normal number all have one exponent, 1 - bias.",
    ),
    NamedMistake(
        "wraps_around",
        (
            Edit(TO_FP8, "np.where(lost, 0, x)), largest)", "np.where(lost, 0, x)), 1e9)"),
            Edit(TO_FP8, "return codes.astype(np.uint8)", "return codes % 256"),
        ),
        caught_by="fp8_edges",
        also=("fp8_round_trip",),
        hint="What is beyond the largest number gets a code beyond the last one, and that wraps "
        "around. Saturate first: the largest number stands for all that is larger.",
    ),
    NamedMistake(
        "sign_by_comparison",
        (Edit(TO_FP8, "np.signbit(x)", "(x < 0)"),),
        caught_by="fp8_edges",
        also=("fp8_round_trip",),
        hint="-0.0 < 0 is false, so a zero below zero loses its sign. Read the sign bit.",
    ),
    NamedMistake(
        "nan_becomes_a_number",
        (Edit(TO_FP8, "np.where(lost, 127, codes)", "codes"),),
        caught_by="fp8_round_trip",
        hint="NaN comes out as an ordinary number. It must stay NaN: whoever reads it should see "
        "that something went wrong.",
    ),
    NamedMistake(
        "as_many_steps_as_codes",
        (Edit(GROUPS, "(2**bits - 1)", "2**bits"),),
        caught_by="groups_right",
        also=WITH_GROUPS,
        hint="2^b codes have 2^b - 1 steps between them: the largest number is the last code.",
    ),
    NamedMistake(
        "zero_point_at_zero",
        (
            Edit(
                GROUPS,
                "zero = parts.min(axis=-1, keepdims=True)",
                "zero = np.minimum(parts.min(axis=-1, keepdims=True), 0)",
            ),
        ),
        caught_by="groups_right",
        also=WITH_GROUPS,
        hint="The smallest number of a group is code 0, also where it lies above zero: else codes "
        "are spent on numbers that are not there.",
    ),
    NamedMistake(
        "errors_swapped",
        (Edit(PROFILE, '("channels", "tokens")', '("tokens", "channels")'),),
        caught_by="outliers_told",
        also=("model_measured",),
        hint="The two errors are swapped: first that of groups along channels, then that of groups "
        "along tokens.",
    ),
    NamedMistake(
        "grouped_the_other_way",
        (Edit(GROUPS, '{"tokens": 0, "channels": 2}', '{"tokens": 2, "channels": 0}'),),
        caught_by="groups_right",
        also=WITH_GROUPS,
        hint="A group along tokens holds one channel of `group` tokens in a row. This groups the "
        "other way.",
    ),
    NamedMistake(
        "waiting_tokens_quantized",
        (
            Edit(
                GROUPS,
                "moved[..., whole:]), axis=-1)",
                "through_groups(moved[..., whole:], bits, moved.shape[-1] - whole, 'channels')"
                " if whole < moved.shape[-1] else moved[..., whole:]), axis=-1)",
            ),
        ),
        caught_by="groups_right",
        also=WITH_GROUPS,
        hint="The last tokens do not fill a group, and are quantized here all the same. They wait: "
        "they come back as they are.",
    ),
    NamedMistake(
        "scales_for_free",
        (
            Edit(BYTES, ' + 16 * scales[scheme["share"]]', ""),
            Edit(BYTES, " + 32 * groups", ""),
        ),
        caught_by="bytes_right",
        hint="These are the codes alone. Scales and zero points take 16 bits each, and are read "
        "with them.",
    ),
    NamedMistake(
        "zero_points_for_free",
        (Edit(BYTES, "32 * groups", "16 * groups"),),
        caught_by="bytes_right",
        hint="A group has a scale and a zero point: 32 bits, not 16.",
    ),
    NamedMistake(
        "nobody_waits",
        (
            Edit(
                BYTES,
                'scheme["bits"] * (numbers - waiting) + 32 * groups + 16 * waiting',
                'scheme["bits"] * numbers + 32 * groups',
            ),
        ),
        caught_by="bytes_right",
        hint="Tokens that do not fill a group along tokens wait in 16 bits; here they are counted "
        "in few.",
    ),
    NamedMistake(
        "token_scales_without_heads",
        (Edit(BYTES, '"token": n_tokens * n_kv_heads', '"token": n_tokens'),),
        caught_by="bytes_right",
        hint="By token there is a scale for each token and each head.",
    ),
    NamedMistake(
        "last_byte_cut_off",
        (Edit(BYTES, "-(-n_layers * bits // 8)", "n_layers * bits // 8"),),
        caught_by="bytes_right",
        hint="The last bits are cut off here where they do not fill a byte. They take one all the "
        "same: round up.",
    ),
    NamedMistake(
        "rounded_up_in_each_layer",
        (Edit(BYTES, "-(-n_layers * bits // 8)", "n_layers * -(-bits // 8)"),),
        caught_by="bytes_right",
        hint="Each layer is rounded up to a whole byte here. Add up the bits of all layers first.",
    ),
    NamedMistake(
        "rounded_up_for_keys_and_for_values",
        (
            Edit(
                BYTES,
                "    for scheme in (keys, values):",
                "    for scheme in (keys, values):\n        bits = -(-bits // 8) * 8",
            ),
            Edit(BYTES, "-(-n_layers * bits // 8)", "n_layers * -(-bits // 8)"),
        ),
        caught_by="bytes_right",
        hint="Keys and values of each layer are rounded up to whole bytes here. Add up all bits "
        "first.",
    ),
    NamedMistake(
        "always_by_token",
        (Edit(SEEN, 'scheme["share"]', '"token"'),),
        caught_by="schemes_right",
        also=("perplexity_right",),
        hint="`share` says which numbers share a scale; here it is always a token's.",
    ),
    NamedMistake(
        "one_fp8_for_both",
        (
            Edit(
                SEEN,
                'from_fp8(to_fp8(x, scheme["format"]), scheme["format"])',
                'from_fp8(to_fp8(x, "e4m3"), "e4m3")',
            ),
        ),
        caught_by="schemes_right",
        hint="E5M2 is another format than E4M3: pass on which one is meant.",
    ),
    NamedMistake(
        "values_held_like_keys",
        (Edit(PERPLEXITY, "as_seen(v, values)", "as_seen(v, keys)"),),
        caught_by="perplexity_right",
        hint="Values go through the scheme of the keys here.",
    ),
    NamedMistake(
        "values_left_alone",
        (Edit(PERPLEXITY, "as_seen(v, values)", "v"),),
        caught_by="perplexity_right",
        hint="Only keys are quantized here. Values have a hook and a scheme of their own.",
    ),
    NamedMistake(
        "mean_of_perplexities",
        (
            Edit(
                PERPLEXITY,
                "float(np.exp(np.concatenate(found).mean()))",
                "float(np.mean([np.exp(each.mean()) for each in found]))",
            ),
        ),
        caught_by="perplexity_right",
        hint="This is the mean of the texts' perplexities. Take the mean of all losses first, each "
        "token counted once, and the exponential at the end.",
    ),
    NamedMistake(
        "loss_for_perplexity",
        (Edit(PERPLEXITY, "np.exp(np.concatenate(found).mean())", "np.concatenate(found).mean()"),),
        caught_by="perplexity_right",
        hint="This is the mean loss, in nats. Perplexity is its exponential.",
    ),
    NamedMistake(
        "mean_channel_for_median",
        (Edit(PROFILE, "np.median(largest)", "largest.mean()"),),
        caught_by="outliers_told",
        also=("model_measured",),
        hint="The mean channel is pulled up by the outlier itself; the median is not.",
    ),
    NamedMistake(
        "heads_taken_together",
        (Edit(PROFILE, "np.abs(x).max(axis=0)", "np.abs(x).max(axis=(0, 1))"),),
        caught_by="outliers_told",
        also=("model_measured",),
        hint="A channel is one number of one head. Here the heads' channels are merged.",
    ),
    NamedMistake(
        "error_in_its_own_units",
        (Edit(PROFILE, " / np.linalg.norm(x)", ""),),
        caught_by="outliers_told",
        also=("model_measured",),
        hint="Errors are relative: divide by the size of the numbers, or no two tensors compare.",
    ),
    NamedMistake(
        "profiles_of_the_last_layer",
        (Edit(PROFILE_LM, "found[layer, ", "found[:, "),),
        caught_by="model_measured",
        hint="The hooks are told which layer they are in: each overwrites all layers here.",
    ),
    NamedMistake(
        "keys_profiled_twice",
        (
            Edit(PROFILE_LM, "found[layer, 1] = profile(v, bits, group)", "pass"),
            Edit(PROFILE_LM, "found[layer, 0] = profile", "found[layer] = profile"),
        ),
        caught_by="model_measured",
        hint="Both rows of a layer are its keys' profile here. The second is that of its values.",
    ),
    NamedMistake(
        "cost_grows_with_the_error",
        (Edit(SCALED, ") ** 2", ")"),),
        caught_by=SCALED,
        hint="The error grows with the step, the cost with the square of the error.",
    ),
    NamedMistake(
        "a_bit_is_a_factor_of_four",
        (
            Edit(
                SCALED,
                "((2 ** (bits - 1) - 1) / (2 ** (new_bits - 1) - 1)) ** 2",
                "4.0 ** (bits - new_bits)",
            ),
        ),
        caught_by=SCALED,
        hint="A bit less is a bit more than half of the codes: from 7 to 3, not to 3.5. With few "
        "bits that shows.",
    ),
    NamedMistake(
        "cost_scaled_backwards",
        (
            Edit(
                SCALED,
                "(2 ** (bits - 1) - 1) / (2 ** (new_bits - 1) - 1)",
                "(2 ** (new_bits - 1) - 1) / (2 ** (bits - 1) - 1)",
            ),
        ),
        caught_by=SCALED,
        hint="Fewer bits cost more: the step is longer where there are fewer codes.",
    ),
)
