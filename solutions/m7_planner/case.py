"""The one workload that every student writes a plan for, and the what-ifs around it."""

from __future__ import annotations

from typing import Any

# Prices in the middle of the catalog's bands, in USD per GPU and hour.
CASE: dict[str, Any] = {
    "model": {  # the shape of Qwen2.5-32B
        "n_layers": 64,
        "hidden_size": 5120,
        "n_heads": 40,
        "n_kv_heads": 8,
        "head_dim": 128,
        "intermediate_size": 27648,
        "params_b": 32.7639,
    },
    "weight_bits": 8,
    "kv_bits": 16,
    "prompt_tokens": 5500,
    "output_tokens": 500,
    "requests_per_second": 24.0,
    "max_step_ms": 50.0,
    "gpus": [
        {
            "gpu": "L40S",
            "gpu_memory_gb": 48.0,
            "gpu_bandwidth_gbps": 864.0,
            "gpu_tflops": 362.0,
            "usd_per_hour": 1.90,
        },
        {
            "gpu": "A100-80GB",
            "gpu_memory_gb": 80.0,
            "gpu_bandwidth_gbps": 2039.0,
            "gpu_tflops": 312.0,
            "usd_per_hour": 1.50,
        },
        {
            "gpu": "H100-80GB",
            "gpu_memory_gb": 80.0,
            "gpu_bandwidth_gbps": 3350.0,
            "gpu_tflops": 989.0,
            "usd_per_hour": 2.80,
        },
        {
            "gpu": "H200",
            "gpu_memory_gb": 141.0,
            "gpu_bandwidth_gbps": 4800.0,
            "gpu_tflops": 989.0,
            "usd_per_hour": 3.60,
        },
        {
            "gpu": "B200",
            "gpu_memory_gb": 180.0,
            "gpu_bandwidth_gbps": 8000.0,
            "gpu_tflops": 2250.0,
            "usd_per_hour": 5.90,
        },
    ],
}


def what_ifs() -> dict[str, dict[str, Any]]:
    """Return the case and its three variations, by the name that their questions go by."""
    twice = {**CASE, "prompt_tokens": 11_000, "output_tokens": 1_000}
    return {
        "base": CASE,
        "double_context": twice | {"requests_per_second": 12.0},  # the same tokens a second
        "fp8_cache": {**CASE, "kv_bits": 8},
        "double_load": {**CASE, "requests_per_second": 48.0},
    }
