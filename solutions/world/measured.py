"""Measured decode steps as runs, and what of them lies outside the world's scope."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from grader.errors import BadInputError
from solutions.world.gpus import gpus_of_runs
from solutions.world.shapes import SHAPE_COLUMNS, read_catalog

# Not looked at while calibrating: their rows say how far the world can be believed.
HELD_ASIDE = ("Qwen3-14B", "Llama-2-7B")

# Its layers are Llama-3.1-8B's own: composed from the same kernels, its rows would count twice in a
# fit and prove nothing held aside. They are compared, and neither calibrated on nor held aside.
TWIN = "Mistral-7B"

# Names in the measured files, and the catalog's name of the same shape. Mistral's window of 4,096
# tokens is ignored by the measured kernels and by the world alike.
CATALOG_NAME = {
    "Llama-2-7B": "llama-2-7b",
    "Llama-3.1-8B": "llama-3.1-8b",
    "Llama-3.1-70B": "llama-3.1-70b",
    "Mistral-7B": "mistral-7b-v0.1",
    "Qwen3-4B": "qwen3-4b",
    "Qwen3-8B": "qwen3-8b",
    "Qwen3-14B": "qwen3-14b",
    "meta-llama/Llama-2-7b-hf": "llama-2-7b",
    "huggyllama/llama-7b": "llama-7b",
    "meta-llama/Meta-Llama-3-8B": "llama-3-8b",
    "meta-llama/Llama-3.1-8B": "llama-3.1-8b",
    "mistralai/Mistral-7B-v0.1": "mistral-7b-v0.1",
    "Qwen/Qwen2-7B": "qwen2-7b",
    "EleutherAI/gpt-j-6b": "gpt-j-6b",
    "bigscience/bloom-7b1": "bloom-7b1",
    "facebook/opt-6.7b": "opt-6.7b",
}
GPU_NAME = {
    "A100-80GB": "A100-80GB",
    "H100-SXM": "H100-80GB",
    "H200-SXM": "H200",
    "B200": "B200",
    "L40S": "L40S",
}
WEIGHT_BITS = {"bfloat16": 16, "bf16": 16, "fp16": 16, "fp8": 8, "int8_wo": 8, "int4_wo": 4}
KV_BITS = {"bfloat16": 16, "bf16": 16, "fp16": 16, "fp8": 8}

NAMES = ("source", "framework", "model", "gpu", "weight_dtype", "kv_dtype")
NUMBERS = ("tp", "batch", "context_len", "decode_step_ms")

COMPOSED_SOURCE = "aiconfigurator-core-0.12.0"


def read_measured(path: Path) -> pd.DataFrame:
    """Read a file of measured steps, every row of which can be compared.

    Raises:
        BadInputError: the file, a column or a number is not what it must be; it says which.
    """
    try:
        measured = pd.read_csv(path, dtype=dict.fromkeys(NAMES, str))
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise BadInputError(f"{path}: cannot be read as a CSV: {error}") from None
    missing = [name for name in (*NAMES, *NUMBERS) if name not in measured.columns]
    if missing:
        raise BadInputError(f"{path}: has no column {', '.join(missing)}")
    for name in NUMBERS:
        numbers = pd.to_numeric(measured[name], errors="coerce")
        bad = ~(np.isfinite(numbers) & (numbers > 0)).to_numpy()
        if bad.any():
            found, line = measured[name][bad].tolist()[0], int(np.argmax(bad)) + 2
            raise BadInputError(
                f"{path}, line {line}: {name} is {str(found)!r}, expected a positive number"
            )
        measured[name] = numbers
    return measured


def out_of_scope(measured: pd.DataFrame) -> pd.Series:
    """Say of each row why the world does not speak about it; an empty string where it does."""
    reason = pd.Series("", index=measured.index)

    def mark(rows: pd.Series, why: str) -> None:
        reason[rows & (reason == "")] = why

    composed = measured["source"] == COMPOSED_SOURCE
    a100_weight_only = (
        (measured["framework"] == "TRTLLM")
        & (measured["gpu"] == "A100-80GB")
        & measured["weight_dtype"].isin(["int8_wo", "int4_wo"])
    )
    mark(measured["tp"] != 1, "several GPUs share the model: a run of the world is one GPU")
    mark(~measured["gpu"].isin(list(GPU_NAME)), "GPU is not one of the five classes")
    mark(
        measured["weight_dtype"].isin(["nvfp4"]),
        "nvfp4 weights compute in FP4: the world's 4-bit weights are INT4, widened to 16 bits",
    )
    mark(
        measured["weight_dtype"].isin(["sq"]),
        "SmoothQuant computes in INT8: the world's 8-bit weights on A100 are weight-only",
    )
    mark(
        measured["weight_dtype"].isin(["fp8_block"]),
        "block-scaled FP8 timings hold 60 to 500 us of host time a kernel",
    )
    mark(
        ~measured["weight_dtype"].isin(list(WEIGHT_BITS)),
        "weight format is unknown to the world",
    )
    mark(~measured["kv_dtype"].isin(list(KV_BITS)), "cache format is unknown to the world")
    mark(
        composed & (measured["framework"] != "VLLM") & ~a100_weight_only,
        "other framework: the world is calibrated to vLLM's kernels",
    )
    mark(~measured["model"].isin(list(CATALOG_NAME)), "model is not in the catalog, or windowed")
    return reason


def as_runs(measured: pd.DataFrame) -> pd.DataFrame:
    """Turn n in-scope measured rows into n rows with the columns the step reads.

    Keeps model (the measured name), measured_ms, source, framework, weight_dtype and kv_dtype.
    """
    catalog = read_catalog().set_index("model")
    shapes = catalog.loc[[CATALOG_NAME[m] for m in measured["model"]]].reset_index(drop=True)
    facts = {gpu.gpu: gpu for gpu in gpus_of_runs()}
    gpus = [facts[GPU_NAME[name]] for name in measured["gpu"]]
    runs = shapes[[c for c in SHAPE_COLUMNS if c != "model"]].copy()
    rows = measured.reset_index(drop=True)
    runs.insert(0, "model", rows["model"])
    runs["weight_bits"] = rows["weight_dtype"].map(WEIGHT_BITS).astype("int64")
    runs["kv_bits"] = rows["kv_dtype"].map(KV_BITS).astype("int64")
    runs["gpu"] = [gpu.gpu for gpu in gpus]
    runs["gpu_memory_gb"] = [gpu.gpu_memory_gb for gpu in gpus]
    runs["gpu_bandwidth_gbps"] = [gpu.gpu_bandwidth_gbps for gpu in gpus]
    runs["gpu_tflops"] = [gpu.gpu_tflops for gpu in gpus]
    runs["batch_size"] = rows["batch"].astype("float64")
    runs["context_len"] = rows["context_len"].astype("float64")
    for column in ("source", "framework", "weight_dtype", "kv_dtype"):
        runs[column] = rows[column]
    runs["measured_ms"] = rows["decode_step_ms"].astype("float64")
    for part in ("attn_ms", "gemm_ms", "elementwise_ms_modelled"):
        if part in rows:
            runs[part] = rows[part]
    return runs


def read_in_scope(path: Path) -> pd.DataFrame:
    """Read a measured file and keep the rows the world speaks about, as runs."""
    measured = read_measured(path)
    return as_runs(measured[out_of_scope(measured) == ""])
