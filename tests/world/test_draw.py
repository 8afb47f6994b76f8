"""What is drawn is what the parameters say, and nothing public is ever drawn again."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from milestones.runs import COLUMNS
from solutions.world import draw
from solutions.world.gpus import DATA
from solutions.world.shapes import (
    NEAR_OCTAVES,
    attention_kind,
    octaves_from_public,
    read_catalog,
    shapes_of,
    twin_key,
)
from solutions.world.step import step_ms

HIDDEN_SEEDS = (11, 12, 13)


@pytest.fixture(scope="module")
def public() -> tuple[pd.DataFrame, pd.DataFrame]:
    return draw.draw_public()


@pytest.fixture(scope="module")
def hidden_sets() -> list[pd.DataFrame]:
    return [draw.draw_hidden(np.random.default_rng(seed)) for seed in HIDDEN_SEEDS]


@pytest.mark.parametrize(("table", "name"), [(0, "train.csv"), (1, "validation.csv")])
def test_the_committed_data_is_what_is_drawn_byte_for_byte(
    public: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path, table: int, name: str
) -> None:
    draw.write_csv(public[table], tmp_path / name)
    assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes()


def test_a_table_read_back_is_the_table_that_was_written(
    public: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    pd.testing.assert_frame_equal(pd.read_csv(DATA / "train.csv"), public[0], check_exact=True)


def test_written_bytes_use_newlines_and_six_significant_digits(
    public: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path
) -> None:
    few = public[0].head(3).assign(decode_step_ms=[1 / 3, 1234567.0, 2.0])
    draw.write_csv(few, tmp_path / "few.csv")
    text = (tmp_path / "few.csv").read_bytes().decode("utf-8")
    assert "\r" not in text
    assert text.endswith("\n")
    steps = [line.split(",")[-2] for line in text.splitlines()[1:]]
    assert steps == ["0.333333", "1.23457e+06", "2"]


def test_tables_have_the_contract_columns_and_sizes(
    public: tuple[pd.DataFrame, pd.DataFrame], hidden_sets: list[pd.DataFrame]
) -> None:
    train, validation = public
    assert (len(train), len(validation)) == (12_000, 4_000)
    assert train["model"].nunique() == 40
    assert pd.concat(public)["model"].nunique() == 48
    for table in (train, validation, *hidden_sets):
        assert tuple(table.columns) == COLUMNS
        assert table["run_id"].is_unique
        assert not table.isna().any().any()
        assert len(table["gpu"].unique()) == 5


def test_half_of_a_test_set_is_of_eight_unseen_shapes(
    public: tuple[pd.DataFrame, pd.DataFrame], hidden_sets: list[pd.DataFrame]
) -> None:
    train, validation = public
    for table in (validation, *hidden_sets):
        unseen = table[~table["model"].isin(train["model"])]
        assert len(unseen) == 2_000
        assert unseen["model"].nunique() == 8
        assert table["model"].nunique() == 48
        shapes = unseen.drop_duplicates("model")
        assert set(attention_kind(shapes)) == {"MHA", "GQA", "MQA"}


def test_every_run_fits_and_no_context_is_longer_than_its_model_allows(
    public: tuple[pd.DataFrame, pd.DataFrame], hidden_sets: list[pd.DataFrame]
) -> None:
    longest = read_catalog().set_index("model")["max_context"]
    for table in (*public, *hidden_sets):
        weights = table["params_b"] * 1e9 * table["weight_bits"] / 8
        per_token = 2 * table["n_layers"] * table["n_kv_heads"] * table["head_dim"]
        tokens = table["batch_size"] * table["context_len"]
        cache = per_token * tokens * table["kv_bits"] / 8
        assert (weights + cache <= 0.92 * table["gpu_memory_gb"] * 1e9).all()
        assert (table["context_len"] <= table["model"].map(longest)).all()
        assert draw.fits(table).all()
    one = public[0].head(1)
    assert not draw.fits(one.assign(batch_size=10**6)).any()


def test_labels_agree_with_each_other_and_with_the_world(
    hidden_sets: list[pd.DataFrame],
) -> None:
    for table in hidden_sets:
        tokens = 1000 * table["batch_size"] / table["decode_step_ms"]
        np.testing.assert_array_equal(table["tokens_per_s"], draw.significant(tokens.to_numpy()))
        off = table["decode_step_ms"] / step_ms(table)
        assert off.median() == pytest.approx(1.0, abs=0.02)
        assert off.between(0.8, 1.45).all()


def test_twins_and_near_shapes_of_public_ones_are_never_drawn() -> None:
    known = pd.concat([shapes_of("train"), shapes_of("validation")])
    names: set[str] = set()
    for seed in range(40):
        unseen = draw.draw_unseen_shapes(np.random.default_rng(seed))
        keys = twin_key(unseen)
        assert len(unseen) == 8
        assert keys.is_unique
        assert not keys.isin(twin_key(known)).any()
        assert octaves_from_public(unseen).min() >= NEAR_OCTAVES
        kinds = attention_kind(unseen).value_counts()
        assert kinds["MQA"] >= 1
        assert kinds["MHA"] >= 2
        assert kinds["GQA"] >= 3
        names |= set(unseen["model"])
    assert len(names) >= 35  # the pool is used, not a corner of it


def test_roles_are_consistent_with_the_catalog() -> None:
    catalog = read_catalog()
    public = pd.concat([shapes_of("train"), shapes_of("validation")])
    assert len(shapes_of("train")) == 40
    assert len(shapes_of("validation")) == 8
    assert not public.drop(columns=["model", "max_context"]).duplicated().any()
    assert not twin_key(shapes_of("validation")).isin(twin_key(shapes_of("train"))).any()
    assert twin_key(shapes_of("twin")).isin(twin_key(public)).all()
    assert (octaves_from_public(shapes_of("near")) < NEAR_OCTAVES).all()
    everything = pd.concat([public, *(shapes_of(role) for role in ("pool", "twin", "near"))])
    assert twin_key(everything).nunique() >= 70
    assert everything["params_b"].between(0.1, 73).all()
    windowed = catalog.loc[catalog["sliding_window"].notna(), "model"]
    assert not everything["model"].isin(windowed).any()


def test_the_same_seed_gives_the_same_runs_and_another_seed_others() -> None:
    def digest(seed: int) -> str:
        table = draw.draw_hidden(np.random.default_rng(seed))
        return hashlib.sha256(table.to_csv(index=False).encode()).hexdigest()

    assert digest(5) == digest(5)
    assert digest(5) != digest(6)


def test_no_question_of_the_public_data_is_asked_again(
    public: tuple[pd.DataFrame, pd.DataFrame], hidden_sets: list[pd.DataFrame]
) -> None:
    train, validation = public
    assert not draw.repeats(validation, train).any()
    for table in hidden_sets:
        assert not draw.repeats(table, pd.concat(public)).any()
    assert draw.repeats(train.head(5), train).all()


def test_a_run_that_would_repeat_is_drawn_again() -> None:
    # One shape, few questions: without avoidance about half of the second table would repeat.
    mix = draw.Mix(
        share_by_weight_bits=((16, 1.0),),
        share_of_8_bit_cache=0.0,
        share_by_gpu=(("H100-80GB", 1.0),),
        batch_high=4,
        context_high=300,
    )
    shape = shapes_of("train").head(1)
    first = draw.draw_runs(np.random.default_rng(1), shape, 90, mix=mix)
    free = draw.draw_runs(np.random.default_rng(2), shape, 60, mix=mix)
    second = draw.draw_runs(np.random.default_rng(2), shape, 60, mix=mix, avoid=first)
    assert draw.repeats(free, first).sum() > 10
    assert not draw.repeats(second, first).any()


def plain_runs(n_models: int, n_gpus: int, n_each: int) -> pd.DataFrame:
    models, gpus, _ = np.meshgrid(range(n_models), range(n_gpus), range(n_each), indexing="ij")
    return pd.DataFrame(
        {
            "model": [f"m{m}" for m in models.ravel()],
            "gpu": [f"g{g}" for g in gpus.ravel()],
        }
    )


def test_run_noise_session_noise_and_outliers_have_their_rates() -> None:
    noise = draw.PUBLIC_NOISE
    assert noise.run_sd == 0.01
    assert 0.02 <= noise.session_sd <= 0.03
    assert noise.outlier_share == 0.01
    runs = plain_runs(200, 5, 200)
    factor = draw.draw_noise(np.random.default_rng(3), runs, noise)
    logs = pd.Series(np.log(factor))
    pairs = logs.groupby(runs["model"] + runs["gpu"])
    within = logs - pairs.transform("median")
    is_outlier = within > 0.06  # six run deviations; an outlier is at least log(1.1) = 0.095 slow
    assert is_outlier.mean() == pytest.approx(noise.outlier_share, abs=0.001)
    assert within[~is_outlier].std() == pytest.approx(noise.run_sd, rel=0.03)
    assert pairs.median().std() == pytest.approx(noise.session_sd, rel=0.08)
    assert pairs.median().mean() == pytest.approx(0.0, abs=0.003)
    slow = within[is_outlier].map(np.exp)
    assert slow.quantile(0.02) == pytest.approx(1.10, abs=0.02)
    assert slow.quantile(0.98) == pytest.approx(1.20, abs=0.02)


def test_without_noise_the_labels_are_the_step() -> None:
    silent = draw.Noise(run_sd=0, session_sd=0, outlier_share=0)
    runs = draw.draw_runs(np.random.default_rng(1), shapes_of("train"), 400, noise=silent)
    np.testing.assert_array_equal(runs["decode_step_ms"], draw.significant(step_ms(runs)))


def test_a_known_pair_is_measured_in_a_new_session(
    public: tuple[pd.DataFrame, pd.DataFrame], hidden_sets: list[pd.DataFrame]
) -> None:
    def sessions(table: pd.DataFrame) -> pd.Series:
        off = pd.Series(np.log(table["decode_step_ms"].to_numpy() / step_ms(table)))
        return off.groupby(table["model"] + " " + table["gpu"]).median()

    seen, again = sessions(public[0]).align(sessions(hidden_sets[0]), join="inner")
    assert len(seen) > 150
    assert abs(float(np.corrcoef(seen, again)[0, 1])) < 0.25
    difference_sd = np.sqrt(2) * draw.PUBLIC_NOISE.session_sd
    assert (seen - again).std() == pytest.approx(difference_sd, rel=0.25)


def test_the_mix_is_what_it_says_where_everything_fits() -> None:
    mix = replace(draw.PUBLIC_MIX, context_high=512)
    small = shapes_of("train").head(1)
    runs = draw.draw_runs(np.random.default_rng(9), small, 30_000, mix=mix)
    for bits, share in mix.share_by_weight_bits:
        assert (runs["weight_bits"] == bits).mean() == pytest.approx(share, abs=0.01)
    assert (runs["kv_bits"] == 8).mean() == pytest.approx(mix.share_of_8_bit_cache, abs=0.01)
    for gpu, share in mix.share_by_gpu:
        assert (runs["gpu"] == gpu).mean() == pytest.approx(share, abs=0.01)
    octaves = np.log2(runs["batch_size"])
    assert octaves.median() == pytest.approx(np.log2(0.501 * 512.499) / 2, abs=0.15)
    assert (runs["batch_size"] == 1).mean() == pytest.approx(0.158, abs=0.03)
    powers = (octaves == octaves.round()).mean()
    assert powers > mix.share_of_power_of_two_batches
    assert runs["context_len"].between(mix.context_low, mix.context_high).all()
    assert runs["context_len"].median() == pytest.approx(np.sqrt(256 * 512), rel=0.02)


def test_most_public_runs_are_in_sixteen_bits(
    public: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    share = pd.concat(public)["weight_bits"].value_counts(normalize=True)
    assert share[16] == pytest.approx(0.86, abs=0.03)
    assert share[4] > 0.01


def test_points_cover_the_cube_evenly_within_each_shape() -> None:
    of_shape = np.arange(2_000) % 8
    points = draw.spread_evenly(np.random.default_rng(2), of_shape, 8)
    assert points.min() >= 0
    assert points.max() < 1
    spreads = [
        np.histogram(points[of_shape == shape, axis], bins=10, range=(0, 1))[0].var()
        for shape in range(8)
        for axis in range(3)
    ]
    assert np.mean(spreads) < 22.5 / 2  # 25 points a bin; independent draws have variance 22.5


def test_milestone_tables_differ_and_span_the_public_range() -> None:
    tables = draw.draw_tables(np.random.default_rng(4), 5, 3_000)
    assert len({len(table) for table in tables}) > 1
    public = set(shapes_of("train")["model"]) | set(shapes_of("validation")["model"])
    for table in tables:
        assert tuple(table.columns) == COLUMNS
        assert 1_800 <= len(table) <= 3_000
        assert set(table["model"]) <= public
        assert table["tokens_per_s"].max() / table["tokens_per_s"].min() > 7_000
        assert draw.fits(table).all()
    assert len({round(float((t["gpu"] == "B200").mean()), 3) for t in tables}) == 5


def test_a_hidden_set_is_drawn_within_seconds() -> None:
    draw.draw_public()
    started = time.process_time()
    draw.draw_hidden(np.random.default_rng(1))
    assert time.process_time() - started < 4
