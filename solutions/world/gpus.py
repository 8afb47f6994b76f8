"""The five GPU classes of the runs, read from the public catalog."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

DATA = Path(__file__).resolve().parents[2] / "data"
GPU_CATALOG = DATA / "catalog" / "gpus.csv"


@dataclass(frozen=True)
class Gpu:
    """One GPU class. Memory in decimal GB, bandwidth in GB/s, dense 16-bit TFLOP/s, USD/hour."""

    gpu: str
    gpu_memory_gb: float
    gpu_bandwidth_gbps: float
    gpu_tflops: float
    usd_per_hour_low: float
    usd_per_hour_high: float


@cache
def gpus_of_runs() -> tuple[Gpu, ...]:
    """Give the five classes the runs use, in the order of their bandwidth."""
    table = pd.read_csv(GPU_CATALOG)
    chosen = table[table["in_runs"].astype(bool)].sort_values("gpu_bandwidth_gbps")
    return tuple(
        Gpu(
            gpu=str(row["gpu"]),
            gpu_memory_gb=float(row["gpu_memory_gb"]),
            gpu_bandwidth_gbps=float(row["gpu_bandwidth_gbps"]),
            gpu_tflops=float(row["gpu_tflops"]),
            usd_per_hour_low=float(row["usd_per_hour_low"]),
            usd_per_hour_high=float(row["usd_per_hour_high"]),
        )
        for row in chosen.to_dict("records")
    )
