"""The named mistakes of milestone 1."""

from solutions.mistake import Edit, NamedMistake

PROFILE, PREDICT, BASELINE = "profile_runs", "linear_predictions", "linear_baseline_r2"
BOTH_BASELINES = "baseline_from_any_table"

# Where two mistakes give the same answers, the first hint is shown: those that are wrong on more
# tables come first.

MISTAKES = (
    NamedMistake(
        "five_gpus_taken_for_granted",
        (Edit(PROFILE, 'runs["gpu"].nunique()', "5"),),
        caught_by="counts",
        hint="Count the GPUs of the table you are given: not every table has all five.",
    ),
    NamedMistake(
        "models_counted_by_rows",
        (Edit(PROFILE, 'runs["model"].nunique()', 'runs["model"].count()'),),
        caught_by="counts",
        hint="`n_models` is the number of different models, not of rows that name one.",
    ),
    NamedMistake(
        "grouped_counted_as_multi_head",
        (Edit(PROFILE, 'runs["n_kv_heads"] == runs["n_heads"]', 'runs["n_kv_heads"] > 1'),),
        caught_by="attention_layouts",
        hint="More than one KV head is not yet MHA: only as many KV heads as query heads is. "
        "Fewer is GQA.",
    ),
    NamedMistake(
        "one_kv_head_is_always_mqa",
        (
            Edit(
                PROFILE,
                '[runs["n_kv_heads"] == runs["n_heads"], runs["n_kv_heads"] == 1],',
                '[(runs["n_kv_heads"] == runs["n_heads"]) & (runs["n_heads"] > 1), '
                'runs["n_kv_heads"] == 1],',
            ),
        ),
        caught_by="attention_layouts",
        hint="Ask for MHA first: a model with one query head and one KV head shares nothing.",
    ),
    NamedMistake(
        "absent_layout_left_out",
        (
            Edit(
                PROFILE,
                '{kind: int((layout == kind).sum()) for kind in ("MHA", "GQA", "MQA")}',
                "pd.Series(layout).value_counts().to_dict()",
            ),
        ),
        caught_by="attention_layouts",
        hint="A layout that does not occur counts 0; its key must not be missing.",
    ),
    NamedMistake(
        "mean_for_median",
        (Edit(PROFILE, '"context_len"].median()', '"context_len"].mean()'),),
        caught_by="context_lengths",
        hint="This is the mean. The median is the value in the middle of the sorted contexts, and "
        "a few very long ones do not move it.",
    ),
    NamedMistake(
        "upper_middle_for_median",
        (
            Edit(
                PROFILE,
                'runs["context_len"].median()',
                'runs["context_len"].sort_values().iloc[len(runs) // 2]',
            ),
        ),
        caught_by="context_lengths",
        hint="With an even number of runs, two values stand in the middle: the median is "
        "their mean.",
    ),
    NamedMistake(
        "ratio_upside_down",
        (Edit(PROFILE, "fastest / slowest", "slowest / fastest"),),
        caught_by="throughput_range",
        hint="The ratio is fastest over slowest: a number above 1.",
    ),
    NamedMistake(
        "ratio_of_step_times",
        (
            Edit(
                PROFILE,
                "fastest / slowest",
                'runs["decode_step_ms"].max() / runs["decode_step_ms"].min()',
            ),
        ),
        caught_by="throughput_range",
        hint="This is the ratio of step times. A slow step may serve many requests: throughput "
        "counts tokens per second.",
    ),
    NamedMistake(
        "counts_for_fractions",
        (Edit(PROFILE, "value_counts(normalize=True)", "value_counts()"),),
        caught_by="share_by_gpu",
        hint="These are counts. A share is a fraction of all runs of the table: they sum to one.",
    ),
    NamedMistake(
        "percent_for_fractions",
        (
            Edit(
                PROFILE,
                "value_counts(normalize=True).to_dict()",
                "value_counts(normalize=True).mul(100).to_dict()",
            ),
        ),
        caught_by="share_by_gpu",
        hint="These are percentages. A share is a fraction: they sum to one, not to 100.",
    ),
    NamedMistake(
        "step_time_as_feature",
        (Edit(PREDICT, "[RAW_COLUMNS]", '[[*RAW_COLUMNS, "decode_step_ms"]]'),),
        caught_by="linear_baseline",
        also=(BOTH_BASELINES,),
        hint="`decode_step_ms` is a label: it holds the answer. Only the 14 raw columns are known "
        "before a run.",
    ),
    NamedMistake(
        "scored_on_train",
        (Edit(BASELINE, "actual = test", "test = train\n    actual = test"),),
        caught_by="linear_baseline",
        also=(BOTH_BASELINES,),
        hint="This is the R² of the runs the line was fitted on. Score it on `test`.",
    ),
    NamedMistake(
        "fitted_on_test",
        (Edit(BASELINE, "linear_predictions(train, test)", "linear_predictions(test, test)"),),
        caught_by="linear_baseline",
        also=(BOTH_BASELINES,),
        hint="The line was fitted on the table it is scored on. Fit on `train`, score on `test`.",
    ),
    NamedMistake(
        "correlation_squared",
        (Edit(BASELINE, "1 - sse / sst", "np.corrcoef(actual, predicted)[0, 1] ** 2"),),
        caught_by="linear_baseline",
        also=(BOTH_BASELINES,),
        hint="This is the squared correlation. It forgives a wrong level and a wrong slope; "
        "1 - SSE / SST does not.",
    ),
    NamedMistake(
        "no_intercept",
        (Edit(PREDICT, "LinearRegression()", "LinearRegression(fit_intercept=False)"),),
        caught_by="linear_baseline",
        also=(BOTH_BASELINES,),
        hint="The line is forced through zero. Fit it with an intercept.",
    ),
    NamedMistake(
        "mean_of_train_in_sst",
        (Edit(BASELINE, "actual.mean()", 'train["tokens_per_s"].mean()'),),
        caught_by="linear_baseline",
        also=(BOTH_BASELINES,),
        hint="SST is taken about the mean of the runs that are scored, those of `test`.",
    ),
    NamedMistake(
        "always_the_public_table",
        (
            Edit(
                BASELINE,
                "linear_predictions(train, test)",
                'linear_predictions(pd.read_csv(DATA / "train.csv"), test)',
            ),
        ),
        caught_by=BOTH_BASELINES,
        hint="The line is fitted on `data/train.csv` whatever is passed. Use the argument `train`.",
    ),
    NamedMistake(
        "run_id_as_number",
        (
            Edit(
                PREDICT,
                "return model.predict(runs[RAW_COLUMNS])",
                "numbers = train.apply(pd.to_numeric, errors='coerce').dropna(axis=1)\n"
                "    numbers = numbers.drop(columns=['decode_step_ms', 'tokens_per_s'])\n"
                "    model = LinearRegression().fit(numbers, train['tokens_per_s'])\n"
                "    return model.predict(runs[numbers.columns].astype(float))",
            ),
        ),
        caught_by=BOTH_BASELINES,
        hint="A `run_id` went in as a number. It is a name, even where it is written in digits.",
    ),
    NamedMistake(
        "one_readers_tokens",
        (Edit("throughput", "1000 * batch_size", "1000"),),
        caught_by="throughput",
        hint="These are the tokens of one reader. Each step gives every request of the batch one.",
    ),
    NamedMistake(
        "step_taken_for_seconds",
        (Edit("throughput", "1000 * batch_size", "batch_size"),),
        caught_by="throughput",
        hint="The step is in milliseconds: a second holds 1000 of them.",
    ),
    NamedMistake(
        "seconds_for_a_token",
        (Edit("throughput", "1000 * batch_size / decode_step_ms", "decode_step_ms / batch_size"),),
        caught_by="throughput",
        hint="That is milliseconds for a token. Tokens per second are the other way round.",
    ),
)
