"""The named mistakes of milestone 6."""

from solutions.mistake import Edit, NamedMistake

EQUAL = "batch_of_equal_traffic"
FEATURES, FIT, PREDICT = "traffic_features", "fit_step_time", "predict_step_ms"

FIGURES = ("step_error", "throughput_r2")
INPUTS = 'inputs = features.drop(columns=["weight_bytes", "kv_bytes_read", "spec_ms"])'
LOG_FACTOR = 'log_factor = np.log(train["decode_step_ms"] / features["spec_ms"])'
FACTOR = "factor = np.exp(model.predict(inputs))"
ANSWER = 'return features["spec_ms"].to_numpy() * factor'
BANDWIDTH = '"gpu_bandwidth_gbps": runs["gpu_bandwidth_gbps"].astype(float),'
RAW = (
    'inputs = {table}.drop(columns=["run_id", "model", "gpu", "decode_step_ms", "tokens_per_s"], '
    'errors="ignore")'
)

MISTAKES = (
    NamedMistake(
        "weights_times_batch",
        (Edit(FEATURES, '"weight_bytes": weight_bytes', '"weight_bytes": weight_bytes * batch'),),
        caught_by="weight_bytes",
        hint="The weights are read once per step, not once per request.",
    ),
    NamedMistake(
        "weights_always_one_byte",
        (Edit(FEATURES, '1e9 * runs["weight_bits"] / 8', "1e9"),),
        caught_by="weight_bytes",
        also=FIGURES,
        hint="A parameter takes `weight_bits` / 8 bytes: 2 in most runs, 1 or half in some.",
    ),
    NamedMistake(
        "kv_of_one_request",
        (Edit(FEATURES, "kv_bytes = batch * runs", "kv_bytes = runs"),),
        caught_by="kv_bytes_read",
        also=FIGURES,
        hint="This is the cache of one request; a step reads the cache of the whole batch.",
    ),
    NamedMistake(
        "query_heads_for_kv_heads",
        (Edit(FEATURES, 'layers * runs["n_kv_heads"] * runs', 'layers * runs["n_heads"] * runs'),),
        caught_by="kv_bytes_read",
        also=FIGURES,
        hint="The cache holds keys and values of the KV heads, not of the query heads.",
    ),
    NamedMistake(
        "kv_bits_for_bytes",
        (Edit(FEATURES, 'runs["kv_bits"] / 8', 'runs["kv_bits"]'),),
        caught_by="kv_bytes_read",
        also=FIGURES,
        hint="This is 8 times too large: `kv_bits` are bits, and a byte has 8 of them.",
    ),
    NamedMistake(
        "one_token_of_cache",
        (Edit(FEATURES, 'batch * runs["context_len"] * bytes_per_token', "bytes_per_token"),),
        caught_by="kv_bytes_read",
        also=FIGURES,
        hint="These are the bytes of one token; a step reads all tokens of all requests.",
    ),
    NamedMistake(
        "logarithm_not_undone",
        (Edit(PREDICT, FACTOR, "factor = model.predict(inputs)"),),
        caught_by="usable_predictions",
        hint="The model predicts a logarithm; turn it back with exp before you return it.",
    ),
    NamedMistake(
        "divided_by_the_average_of_the_table",
        (
            Edit(
                FEATURES,
                '"kv_heads_in_flight": batch',
                '"kv_heads_in_flight": batch / batch.mean()',
            ),
        ),
        caught_by="row_by_row",
        also=FIGURES,
        hint="A feature here uses an average over the table it is given. Take such numbers from "
        "train, in `fit_step_time`, and keep them in the model.",
    ),
    NamedMistake(
        "name_of_the_gpu_as_a_feature",
        (
            Edit(
                FEATURES,
                BANDWIDTH,
                '"gpu": runs["gpu"].map({"L40S": 0, "A100-80GB": 1, "H100-80GB": 2, "H200": 3, '
                '"B200": 4}).astype(float),',
            ),
        ),
        caught_by="names_mean_nothing",
        hint="The name of the GPU is a feature here. Its bandwidth and peak say more, and a new "
        "GPU has them too.",
    ),
    NamedMistake(
        "raw_columns_only",
        (
            Edit(FIT, INPUTS, RAW.format(table="train")),
            Edit(FIT, LOG_FACTOR, 'log_factor = np.log(train["decode_step_ms"])'),
            Edit(PREDICT, INPUTS, RAW.format(table="runs")),
            Edit(PREDICT, ANSWER, "return factor"),
        ),
        caught_by="step_error",
        also=("throughput_r2",),
        hint="The model sees raw columns only. Trees cannot multiply six of them for a model they "
        "have not seen; give it the traffic.",
    ),
    NamedMistake(
        "tokens_for_milliseconds",
        (
            Edit(
                PREDICT, ANSWER, 'return 1000 * runs["batch_size"] / (features["spec_ms"] * factor)'
            ),
        ),
        caught_by="usable_predictions",
        hint="These are tokens per second; asked for is the step in ms.",
    ),
    NamedMistake(
        "seconds_for_milliseconds",
        (Edit(PREDICT, ANSWER, f"{ANSWER} / 1000"),),
        caught_by="usable_predictions",
        hint="These are seconds; asked for is the step in ms.",
    ),
    NamedMistake(
        "large_steps_only",
        (
            Edit(FIT, LOG_FACTOR, 'log_factor = train["decode_step_ms"]'),
            Edit(PREDICT, FACTOR, "factor = np.maximum(model.predict(inputs), 0.01)"),
            Edit(PREDICT, ANSWER, "return factor"),
        ),
        caught_by="throughput_r2",
        also=("step_error",),
        hint="Trained on milliseconds as they are, the model cares about slow steps only, and the "
        "fast ones decide the throughput. Learn a logarithm.",
    ),
    NamedMistake(
        "traffic_of_keys_alone",
        (Edit(EQUAL, "2 * n_layers", "n_layers"),),
        caught_by=EQUAL,
        hint="This counts the keys and forgets the values: each token leaves both.",
    ),
    NamedMistake(
        "traffic_of_one_token",
        (Edit(EQUAL, " * context_len", ""),),
        caught_by=EQUAL,
        hint="A step reads the keys and values of every token of a request, not of one.",
    ),
    NamedMistake(
        "traffic_in_bits",
        (Edit(EQUAL, "weight_bits / 8", "weight_bits"),),
        caught_by=EQUAL,
        hint="The weights are counted in bits and the cache in bytes.",
    ),
    NamedMistake(
        "traffic_upside_down",
        (Edit(EQUAL, "weight_bytes / request_bytes", "request_bytes / weight_bytes"),),
        caught_by=EQUAL,
        hint="That is how many copies of the weights one request's cache amounts to: upside down.",
    ),
)
