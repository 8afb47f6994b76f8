"""The figures that the course promises, on validation and on hidden sets."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from milestones.runs import LABELS, RAW_COLUMNS
from solutions.world import draw, figures
from solutions.world.tune import N_TRIALS, SCHEMES, folds, read_tuned


@pytest.fixture(scope="module")
def measured() -> figures.Figures:
    tuned = {scheme: best["settings"] for scheme, best in read_tuned().items()}
    return figures.Figures(draw.draw_public()[0], tuned)


def test_validation_shows_every_figure(measured: figures.Figures) -> None:
    values = measured.measure(draw.draw_public()[1])
    assert figures.out_of_band(values) == [], values
    assert {required.name for required in figures.REQUIRED} <= set(values)


@pytest.mark.parametrize("seed", [21, 22, 23])
def test_a_fresh_hidden_set_shows_every_figure(measured: figures.Figures, seed: int) -> None:
    values = measured.measure(draw.draw_hidden(np.random.default_rng(seed)))
    assert figures.out_of_band(values) == [], values


def test_a_figure_outside_its_band_is_named() -> None:
    inside = {
        "throughput_ratio": 9000.0,
        "linear_r2": 0.48,
        "roofline_r2": 0.98,
        "roofline_mape": 0.075,
        "traffic_r2": 0.99,
        "traffic_mape": 0.03,
        "boosting_mape": 0.08,
    }
    assert figures.out_of_band(inside) == []
    worse = {
        "throughput_ratio": 6900.0,
        "linear_r2": 0.55,
        "roofline_r2": 0.992,
        "roofline_mape": 0.06,
        "traffic_r2": 0.97,
        "traffic_mape": 0.051,
        "boosting_mape": 0.065,
    }
    for name, value in worse.items():
        assert figures.out_of_band(inside | {name: value}) == [name]


def test_the_boosting_search_was_long_enough_and_of_both_kinds() -> None:
    found = read_tuned()
    assert tuple(found) == SCHEMES
    for best in found.values():
        assert best["trials"] >= N_TRIALS >= 50
        assert 0 < best["cross_validated_mape"] < 0.5
    held_out = found["models_held_out"]["cross_validated_mape"]
    assert held_out > found["random"]["cross_validated_mape"]


def test_a_fold_of_held_out_models_shares_no_model() -> None:
    train = draw.draw_public()[0]
    for fit_rows, test_rows in folds(train, "models_held_out"):
        assert not set(train["model"].iloc[fit_rows]) & set(train["model"].iloc[test_rows])
    for fit_rows, test_rows in folds(train, "random"):
        assert set(train["model"].iloc[fit_rows]) & set(train["model"].iloc[test_rows])
    with pytest.raises(ValueError, match="none of"):
        next(folds(train, "by hand"))


def test_raw_columns_are_the_fourteen_numeric_ones_and_no_label() -> None:
    train = draw.draw_public()[0]
    numeric = train.select_dtypes("number").columns
    assert list(RAW_COLUMNS) == [c for c in numeric if c not in LABELS]
    assert len(RAW_COLUMNS) == 14


def test_roofline_terms_are_what_their_names_say() -> None:
    run = draw.draw_public()[0].head(50)
    base = figures.roofline_terms(run)

    def changed(**change: pd.Series) -> list[bool]:
        ratio = figures.roofline_terms(run.assign(**change)) / base
        return [bool(np.allclose(ratio[:, term], 1)) for term in range(4)]

    # True where a term stays: overhead, weights, KV, FLOPs.
    assert changed(gpu_bandwidth_gbps=2 * run["gpu_bandwidth_gbps"]) == [True, False, False, True]
    assert changed(gpu_tflops=2 * run["gpu_tflops"]) == [True, True, True, False]
    assert changed(context_len=2 * run["context_len"]) == [True, True, False, True]
    assert changed(kv_bits=run["kv_bits"] // 2) == [True, True, False, True]
    assert changed(weight_bits=run["weight_bits"] // 2) == [True, False, True, True]
    assert changed(params_b=2 * run["params_b"]) == [True, False, True, False]
    np.testing.assert_allclose(
        figures.roofline_terms(run.assign(gpu_bandwidth_gbps=2 * run["gpu_bandwidth_gbps"]))[
            :, 1:3
        ],
        base[:, 1:3] / 2,
    )


def test_kv_bytes_of_known_models() -> None:
    shape = pd.DataFrame(
        {
            "n_layers": [80, 32, 32],
            "n_kv_heads": [8, 8, 32],
            "head_dim": 128,
            "kv_bits": 16,
            "batch_size": 1,
            "context_len": 1,
        }
    )
    assert figures.kv_bytes(shape).tolist() == [327_680, 131_072, 524_288]


def test_scores_on_numbers_small_enough_for_paper() -> None:
    test = pd.DataFrame(
        {
            "batch_size": [1, 2, 4],
            "decode_step_ms": [10.0, 10.0, 10.0],
            "tokens_per_s": [100.0, 200.0, 400.0],
        }
    )
    perfect = figures.score_step(test, np.array([10.0, 10.0, 10.0]))
    assert (perfect.mape, perfect.r2) == (0.0, 1.0)
    off = figures.score_step(test, np.array([20.0, 10.0, 5.0]))
    assert off.mape == pytest.approx((1 + 0 + 0.5) / 3)
    # predicted tokens 50, 200, 800; mean 233.3; SST = 46,666.7; SSE = 162,500
    assert off.r2 == pytest.approx(1 - 162_500 / 46_666.6667)


def test_roofline_finds_planted_coefficients() -> None:
    train = draw.draw_public()[0]
    planted = np.array([1.5, 1.2, 0.0, 0.7])
    steps = figures.roofline_terms(train) @ planted
    np.testing.assert_allclose(
        figures.fit_roofline(train.assign(decode_step_ms=steps)), planted, atol=1e-9
    )
