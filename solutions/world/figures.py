"""The figures a world must show: measured on a train table and a test table."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import nnls
from sklearn.linear_model import LinearRegression

FloatArray = npt.NDArray[np.float64]

RAW_COLUMNS = (
    "n_layers",
    "hidden_size",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "intermediate_size",
    "params_b",
    "weight_bits",
    "kv_bits",
    "gpu_memory_gb",
    "gpu_bandwidth_gbps",
    "gpu_tflops",
    "batch_size",
    "context_len",
)

# The roofline's overhead: nominal milliseconds per layer and per sequence.
OVERHEAD_MS_PER_LAYER = 0.04
OVERHEAD_MS_PER_SEQUENCE = 0.0015
OVERHEAD_MS_PER_LAYER_AND_SEQUENCE = 0.00003


@dataclass(frozen=True)
class Score:
    """MAPE of decode_step_ms as a fraction, R² of tokens_per_s."""

    mape: float
    r2: float


def mape(measured: FloatArray, predicted: FloatArray) -> float:
    """Mean of |predicted - measured| / measured, as a fraction."""
    return float(np.mean(np.abs(predicted - measured) / measured))


def r2(measured: FloatArray, predicted: FloatArray) -> float:
    """1 - SSE / SST about the measured mean."""
    sse = float(np.sum((measured - predicted) ** 2))
    sst = float(np.sum((measured - measured.mean()) ** 2))
    return 1 - sse / sst


def score_step(test: pd.DataFrame, predicted_ms: FloatArray) -> Score:
    """Score predicted steps, shape (n,), on the labels of `test`."""
    tokens = 1000 * _float(test, "batch_size") / predicted_ms
    return Score(
        mape(_float(test, "decode_step_ms"), predicted_ms),
        r2(_float(test, "tokens_per_s"), tokens),
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
    return r2(_float(test, "tokens_per_s"), predicted)


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


def roofline_score(train: pd.DataFrame, test: pd.DataFrame) -> Score:
    """Score the four-coefficient roofline fitted on train."""
    return score_step(test, roofline_terms(test) @ fit_roofline(train))


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


def traffic_score(train: pd.DataFrame, test: pd.DataFrame) -> Score:
    """Score boosting on traffic features: it learns what the roofline gets wrong, as a factor."""
    coefficients = fit_roofline(train)
    base_train = roofline_terms(train) @ coefficients
    base_test = roofline_terms(test) @ coefficients
    factor = np.log(_float(train, "decode_step_ms") / base_train)
    model = boosted(TRAFFIC_SETTINGS).fit(traffic_features(train).to_numpy(), factor)
    learned = np.asarray(model.predict(traffic_features(test).to_numpy()), dtype=np.float64)
    return score_step(test, base_test * np.exp(learned))


def raw_boosting_score(train: pd.DataFrame, test: pd.DataFrame, settings: dict[str, Any]) -> Score:
    """Score boosting on the 14 raw columns with the given LightGBM settings."""
    columns = list(RAW_COLUMNS)
    target = np.log(_float(train, "decode_step_ms"))
    model = boosted(settings).fit(train[columns].to_numpy(dtype=np.float64), target)
    learned = model.predict(test[columns].to_numpy(dtype=np.float64))
    return score_step(test, np.exp(np.asarray(learned, dtype=np.float64)))


def boosted(settings: dict[str, Any]) -> lgb.LGBMRegressor:
    """Make a LightGBM regressor that gives the same numbers on every run."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    fixed = {"random_state": 0, "verbose": -1, "n_jobs": threads}
    fixed |= {"deterministic": True, "force_row_wise": True}
    return lgb.LGBMRegressor(**settings, **fixed)


def _float(runs: pd.DataFrame, column: str) -> FloatArray:
    return runs[column].to_numpy(dtype=np.float64)
