"""The figures a world must show: measured on a train table and a test table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import nnls
from sklearn.linear_model import LinearRegression

from milestones.figures import mape, r2
from milestones.runs import RAW_COLUMNS

FloatArray = npt.NDArray[np.float64]

# The roofline's overhead: nominal milliseconds per layer and per sequence.
OVERHEAD_MS_PER_LAYER = 0.04
OVERHEAD_MS_PER_SEQUENCE = 0.0015
OVERHEAD_MS_PER_LAYER_AND_SEQUENCE = 0.00003


@dataclass(frozen=True)
class Score:
    """MAPE of decode_step_ms as a fraction, R² of tokens_per_s."""

    mape: float
    r2: float


def score_step(test: pd.DataFrame, predicted_ms: FloatArray) -> Score:
    """Score predicted steps, shape (n,), on the labels of `test`."""
    tokens = 1000 * _float(test, "batch_size") / predicted_ms
    return Score(
        mape(predicted_ms, _float(test, "decode_step_ms")),
        r2(tokens, _float(test, "tokens_per_s")),
    )


def throughput_ratio(*tables: pd.DataFrame) -> float:
    """Fastest over slowest tokens_per_s of all rows of all tables."""
    tokens = pd.concat([table["tokens_per_s"] for table in tables])
    return float(tokens.max() / tokens.min())


def linear_baseline_r2(train: pd.DataFrame, test: pd.DataFrame) -> float:
    """R² of tokens_per_s on test, of a linear regression on the 14 raw columns of train."""
    columns = list(RAW_COLUMNS)
    model = LinearRegression().fit(train[columns], train["tokens_per_s"])
    predicted = np.asarray(model.predict(test[columns]), dtype=np.float64)
    return r2(predicted, _float(test, "tokens_per_s"))


def roofline_terms(runs: pd.DataFrame) -> FloatArray:
    """Four terms of a step in ms at spec speed, shape (n, 4).

    Overhead (of n_layers and batch_size only), weight bytes / bandwidth, KV bytes / bandwidth,
    FLOPs / peak.
    """
    n_layers, batch = _float(runs, "n_layers"), _float(runs, "batch_size")
    bytes_per_ms = _float(runs, "gpu_bandwidth_gbps") * 1e6
    overhead = (
        OVERHEAD_MS_PER_LAYER * n_layers
        + OVERHEAD_MS_PER_SEQUENCE * batch
        + OVERHEAD_MS_PER_LAYER_AND_SEQUENCE * n_layers * batch
    )
    flops = 2 * _float(runs, "params_b") * 1e9 * batch
    return np.column_stack(
        [
            overhead,
            weight_bytes(runs) / bytes_per_ms,
            kv_bytes(runs) / bytes_per_ms,
            flops / (_float(runs, "gpu_tflops") * 1e9),
        ]
    )


def fit_roofline(train: pd.DataFrame) -> FloatArray:
    """Fit four coefficients >= 0 to train, least squares of the relative error, shape (4,)."""
    step = _float(train, "decode_step_ms")
    coefficients, _ = nnls(roofline_terms(train) / step[:, None], np.ones(len(train)))
    return np.asarray(coefficients, dtype=np.float64)


def weight_bytes(runs: pd.DataFrame) -> FloatArray:
    """Bytes of weights read in a step: every parameter once, shape (n,)."""
    return _float(runs, "params_b") * 1e9 * _float(runs, "weight_bits") / 8


def kv_bytes(runs: pd.DataFrame) -> FloatArray:
    """Bytes of KV cache read in a step, over the whole batch, shape (n,)."""
    values = 2 * _float(runs, "n_layers") * _float(runs, "n_kv_heads") * _float(runs, "head_dim")
    tokens = _float(runs, "batch_size") * _float(runs, "context_len")
    return values * tokens * _float(runs, "kv_bits") / 8


def traffic_features(runs: pd.DataFrame) -> pd.DataFrame:
    """Traffic of a step, and shares of it that do not grow with the model."""
    terms = roofline_terms(runs)
    total = terms.sum(axis=1)
    return pd.DataFrame(
        {
            "weight_bytes": weight_bytes(runs),
            "kv_bytes_read": kv_bytes(runs),
            "overhead_share": terms[:, 0] / total,
            "weight_share": terms[:, 1] / total,
            "kv_share": terms[:, 2] / total,
            "compute_share": terms[:, 3] / total,
            "layer_weight_ms": terms[:, 1] / _float(runs, "n_layers"),
            "layer_kv_ms": terms[:, 2] / _float(runs, "n_layers"),
            "kv_heads_in_flight": _float(runs, "batch_size") * _float(runs, "n_kv_heads"),
            "heads_in_flight": _float(runs, "batch_size") * _float(runs, "n_heads"),
            "batch_size": _float(runs, "batch_size"),
            "head_dim": _float(runs, "head_dim"),
            "weight_bits": _float(runs, "weight_bits"),
            "kv_bits": _float(runs, "kv_bits"),
            "gpu_bandwidth_gbps": _float(runs, "gpu_bandwidth_gbps"),
            "gpu_tflops": _float(runs, "gpu_tflops"),
        }
    )


TRAFFIC_SETTINGS: dict[str, Any] = {
    "n_estimators": 500,
    "learning_rate": 0.05,
    "num_leaves": 31,
    "min_child_samples": 20,
    "feature_fraction": 0.7,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
}


@dataclass(frozen=True)
class TrafficModel:
    """A roofline and boosting that learns, as a factor, what the roofline gets wrong."""

    coefficients: FloatArray
    factor: lgb.LGBMRegressor

    def predict_ms(self, runs: pd.DataFrame) -> FloatArray:
        """Predict the step of each run in ms, shape (n,)."""
        learned = self.factor.predict(traffic_features(runs).to_numpy())
        base = roofline_terms(runs) @ self.coefficients
        return np.asarray(base * np.exp(np.asarray(learned)), dtype=np.float64)


def fit_traffic(train: pd.DataFrame) -> TrafficModel:
    """Fit the memory-traffic model: boosting on traffic features over a roofline."""
    coefficients = fit_roofline(train)
    factor = np.log(_float(train, "decode_step_ms") / (roofline_terms(train) @ coefficients))
    model = boosted(TRAFFIC_SETTINGS).fit(traffic_features(train).to_numpy(), factor)
    return TrafficModel(coefficients, model)


@dataclass(frozen=True)
class RawBoosting:
    """Boosting of the logarithm of the step on the 14 raw columns."""

    model: lgb.LGBMRegressor

    def predict_ms(self, runs: pd.DataFrame) -> FloatArray:
        """Predict the step of each run in ms, shape (n,)."""
        learned = self.model.predict(runs[list(RAW_COLUMNS)].to_numpy(dtype=np.float64))
        return np.asarray(np.exp(np.asarray(learned)), dtype=np.float64)


def fit_raw_boosting(train: pd.DataFrame, settings: dict[str, Any]) -> RawBoosting:
    """Fit boosting on the raw columns with the given LightGBM settings."""
    columns = train[list(RAW_COLUMNS)].to_numpy(dtype=np.float64)
    return RawBoosting(boosted(settings).fit(columns, np.log(_float(train, "decode_step_ms"))))


def raw_boosting_score(train: pd.DataFrame, test: pd.DataFrame, settings: dict[str, Any]) -> Score:
    """Score boosting on the raw columns, fitted on train."""
    return score_step(test, fit_raw_boosting(train, settings).predict_ms(test))


@dataclass(frozen=True)
class Required:
    """One figure of the world and the band it must lie in, both ends included."""

    name: str
    sentence: str
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Say whether the value lies in the band."""
        return self.low <= value <= self.high


REQUIRED = (
    Required("throughput_ratio", "fastest / slowest tokens per second", 7000.0, np.inf),
    Required("linear_r2", "linear regression on raw columns, R²", 0.42, 0.54),
    Required("roofline_r2", "four-coefficient roofline, R²", 0.965, 0.99),
    Required("roofline_mape", "four-coefficient roofline, MAPE", 0.065, 0.083),
    Required("traffic_r2", "memory-traffic model, R²", 0.98, 1.0),
    Required("traffic_mape", "memory-traffic model, MAPE", 0.0, 0.050),
    Required("boosting_mape", "best tuned boosting on raw columns, MAPE", 0.066, np.inf),
)


class Figures:
    """Measures the figures of a world: models are fitted on train once, tests are scored.

    `tuned` maps a scheme of the search (models_held_out, random) to LightGBM settings; without
    it the figures of tuned boosting are left out.
    """

    def __init__(
        self, train: pd.DataFrame, tuned: Mapping[str, dict[str, Any]] | None = None
    ) -> None:
        """Fit every model on train."""
        self.train = train
        self.roofline = fit_roofline(train)
        self.traffic = fit_traffic(train)
        self.boosting = {
            scheme: fit_raw_boosting(train, settings) for scheme, settings in (tuned or {}).items()
        }

    def measure(self, test: pd.DataFrame) -> dict[str, float]:
        """Measure the figures on a labelled test table, by the names in REQUIRED.

        Further entries: boosting_mape_<scheme> and boosting_r2_<scheme>.
        """
        roofline = score_step(test, roofline_terms(test) @ self.roofline)
        traffic = score_step(test, self.traffic.predict_ms(test))
        measured = {
            "throughput_ratio": throughput_ratio(self.train, test),
            "linear_r2": linear_baseline_r2(self.train, test),
            "roofline_r2": roofline.r2,
            "roofline_mape": roofline.mape,
            "traffic_r2": traffic.r2,
            "traffic_mape": traffic.mape,
        }
        scores = {s: score_step(test, m.predict_ms(test)) for s, m in self.boosting.items()}
        if scores:
            measured["boosting_mape"] = min(score.mape for score in scores.values())
        for scheme, score in scores.items():
            measured[f"boosting_mape_{scheme}"] = score.mape
            measured[f"boosting_r2_{scheme}"] = score.r2
        return measured


def out_of_band(measured: Mapping[str, float]) -> list[str]:
    """Name the figures that lie outside their bands, in the order of REQUIRED."""
    return [r.name for r in REQUIRED if r.name in measured and not r.holds(measured[r.name])]


def boosted(settings: dict[str, Any]) -> lgb.LGBMRegressor:
    """Make a LightGBM regressor that gives the same numbers on every run."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    fixed: dict[str, Any] = {"random_state": 0, "verbose": -1, "n_jobs": threads}
    fixed |= {"deterministic": True, "force_row_wise": True}
    return lgb.LGBMRegressor(**settings, **fixed)


def _float(runs: pd.DataFrame, column: str) -> FloatArray:
    return runs[column].to_numpy(dtype=np.float64)
