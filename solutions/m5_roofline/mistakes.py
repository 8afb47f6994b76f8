"""The named mistakes of milestone 5."""

from solutions.mistake import Edit, NamedMistake

TERMS, FIT = "roofline_terms", "fit_roofline"
RIDGE = "ridge_batch"

OVERHEAD = "overhead = 0.04 * layers + 0.002 * batch"
BANDWIDTH = 'runs["gpu_bandwidth_gbps"].to_numpy(dtype=float)'
BY_NAME = (
    'runs["gpu"].map({"L40S": 864.0, "A100-80GB": 2039.0, "H100-80GB": 3350.0, "H200": 4800.0, '
    '"B200": 8000.0}).fillna(3350.0).to_numpy()'
)
SOLVED = "coefficients, _ = nnls(relative_terms, np.ones(len(train)))"

MISTAKES = (
    NamedMistake(
        "weight_bits_for_bytes",
        (Edit(TERMS, '* runs["weight_bits"].to_numpy() / 8', '* runs["weight_bits"].to_numpy()'),),
        caught_by="weight_term",
        hint="This is 8 times too large: `weight_bits` are bits, and a byte has 8 of them.",
    ),
    NamedMistake(
        "weights_read_once_per_request",
        (Edit(TERMS, "weight_bytes = parameters *", "weight_bytes = batch * parameters *"),),
        caught_by="weight_term",
        also=("altered_rows",),
        hint="The weights are read once per step and used for all requests of the batch.",
    ),
    NamedMistake(
        "weights_always_two_bytes",
        (Edit(TERMS, 'runs["weight_bits"].to_numpy() / 8', "2"),),
        caught_by="altered_rows",
        also=("weight_term",),
        hint="Two bytes a parameter is right for 16 bits only; `weight_bits` says which runs "
        "have fewer.",
    ),
    NamedMistake(
        "kv_reads_ignored",
        (Edit(TERMS, "kv_bytes / bytes_per_ms", "0 * kv_bytes"),),
        caught_by="kv_term",
        also=("altered_rows",),
        hint="Each step reads the whole cache again; that term is not zero.",
    ),
    NamedMistake(
        "kv_of_one_request",
        (Edit(TERMS, 'kv_bytes = batch * runs["context_len"]', 'kv_bytes = runs["context_len"]'),),
        caught_by="kv_term",
        also=("altered_rows",),
        hint="This is the cache of one request; a step reads the cache of the whole batch.",
    ),
    NamedMistake(
        "query_heads_in_the_kv_term",
        (Edit(TERMS, 'runs["n_kv_heads"]', 'runs["n_heads"]'),),
        caught_by="kv_term",
        also=("altered_rows",),
        hint="The cache holds keys and values of the KV heads, not of the query heads.",
    ),
    NamedMistake(
        "keys_without_values",
        (Edit(TERMS, "bytes_per_token = 2 * layers", "bytes_per_token = layers"),),
        caught_by="kv_term",
        hint="A step reads keys and values: half of the cache is missing here.",
    ),
    NamedMistake(
        "operations_of_one_request",
        (Edit(TERMS, "flops = 2 * parameters * batch", "flops = 2 * parameters"),),
        caught_by="compute_term",
        also=("altered_rows",),
        hint="Every request of the batch needs its own operations: arithmetic is not shared.",
    ),
    NamedMistake(
        "one_operation_a_parameter",
        (Edit(TERMS, "flops = 2 * parameters * batch", "flops = parameters * batch"),),
        caught_by="compute_term",
        hint="A parameter is a multiplication and an addition: 2 operations for each request.",
    ),
    NamedMistake(
        "overhead_of_the_context",
        (Edit(TERMS, OVERHEAD, 'overhead = 0.04 * layers + 0.0001 * runs["context_len"]'),),
        caught_by="overhead_term",
        hint="What grows with the context is reading the cache, and term 3 has it already.",
    ),
    NamedMistake(
        "bandwidth_by_name",
        (Edit(TERMS, BANDWIDTH, BY_NAME),),
        caught_by="altered_rows",
        hint="The bandwidth is a column of the table. A GPU's name is not its data sheet.",
    ),
    NamedMistake(
        "overhead_of_the_average_run",
        (Edit(TERMS, OVERHEAD, "overhead = 0.04 * layers + 0.002 * batch.mean()"),),
        caught_by="row_by_row",
        hint="Use the batch of each row, not an average over the table that it happens to be in.",
    ),
    NamedMistake(
        "an_intercept_beside_the_overhead",
        (
            Edit(
                FIT,
                "relative_terms = roofline_terms(train) / step_ms[:, None]",
                "terms = np.column_stack([np.ones(len(train)), roofline_terms(train)])\n"
                "    relative_terms = terms / step_ms[:, None]",
            ),
        ),
        caught_by="coefficients",
        hint="The overhead term is the intercept; there is no fifth coefficient.",
    ),
    NamedMistake(
        "data_sheet_speed",
        (Edit(FIT, SOLVED, "coefficients = np.ones(4)"),),
        caught_by="step_error",
        hint="This takes the data sheet's speed for what hardware achieves; fit the coefficients.",
    ),
    NamedMistake(
        "shares_for_coefficients",
        (Edit(FIT, "float(c) for c in coefficients", "float(1 / c) for c in coefficients"),),
        caught_by="step_error",
        also=("throughput_r2",),
        hint="These are the achieved shares; a time is multiplied by the coefficient, 1 / share.",
    ),
    NamedMistake(
        "fitted_to_throughput",
        (Edit(FIT, '"decode_step_ms"', '"tokens_per_s"'),),
        caught_by="throughput_r2",
        also=("step_error",),
        hint="The terms are times: they add up to decode_step_ms, not to tokens_per_s.",
    ),
    NamedMistake(
        "no_overhead",
        (Edit(TERMS, OVERHEAD, "overhead = 0 * layers"),),
        caught_by="overhead_term",
        hint="Starting kernels and scheduling take time in every step. Without it the small models "
        "come out far too fast.",
    ),
    NamedMistake(
        "ridge_of_one_operation",
        (Edit(RIDGE, "2 / (gpu_tflops", "1 / (gpu_tflops"),),
        caught_by=RIDGE,
        hint="A parameter costs a request two operations: a multiplication and an addition.",
    ),
    NamedMistake(
        "ridge_of_sixteen_bits",
        (Edit(RIDGE, "weight_bits / 8", "2"),),
        caught_by=RIDGE,
        hint="This reads two bytes a weight whatever `weight_bits` says.",
    ),
    NamedMistake(
        "ridge_upside_down",
        (Edit(RIDGE, "read_s / compute_s", "compute_s / read_s"),),
        caught_by=RIDGE,
        hint="Upside down: computing grows with the batch until it takes as long as reading.",
    ),
    NamedMistake(
        "giga_for_tera",
        (Edit(RIDGE, "gpu_tflops * 1e12", "gpu_tflops * 1e9"),),
        caught_by=RIDGE,
        hint="The peak is in TFLOP/s, 1e12 operations a second, and the bandwidth in GB/s.",
    ),
)
