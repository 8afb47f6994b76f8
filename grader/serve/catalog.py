"""The models and GPUs that the page offers to pick from: those of `data/catalog`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd

from grader.errors import BadInputError
from grader.serve.workload import GpuOffer, ModelShape

SHAPE = tuple(ModelShape.model_fields)
SPECIFIED = ("gpu", "gpu_memory_gb", "gpu_bandwidth_gbps", "gpu_tflops")
assert set(SPECIFIED) < set(GpuOffer.model_fields)


def read_catalog(data: Path) -> dict[str, Any]:
    """Return models, smallest first, and GPUs, those of the runs first, as a page embeds them.

    A price is the middle of its band on a scale of ratios, since bands span factors, rounded to
    five cents; where no list price was found there is none.

    Raises:
        BadInputError: the catalog is not there, or is no such table.
    """
    try:
        models = pd.read_csv(data / "catalog" / "models.csv")
        gpus = pd.read_csv(data / "catalog" / "gpus.csv")
        return {
            "models": [_model(row) for row in models.to_dict("records")],
            "gpus": sorted(
                (_gpu(row) for row in gpus.to_dict("records")), key=lambda gpu: not gpu["in_runs"]
            ),
        }
    except (OSError, ValueError, KeyError) as error:
        raise BadInputError(
            f"{data / 'catalog'}: cannot be read ({error}); get the course's data again with git"
        ) from None


def _model(row: dict[Any, Any]) -> dict[str, Any]:
    shape = {key: row[key] for key in SHAPE}
    about = {"name": row["model"], "attention": row["attention"], "longest": row["max_context"]}
    return {**about, "slides": isinstance(row["sliding_window"], str), "shape": shape}


def _gpu(row: dict[Any, Any]) -> dict[str, Any]:
    low, high = row["usd_per_hour_low"], row["usd_per_hour_high"]
    priced = not math.isnan(low)
    return {
        **{key: row[key] for key in SPECIFIED},
        "usd_per_hour": round(math.sqrt(low * high) * 20) / 20 if priced else None,
        "band": [low, high] if priced else None,
        "in_runs": bool(row["in_runs"]),
    }
