"""The world's coefficients, each beside the range it was measured in and its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

FloatArray = npt.NDArray[np.float64]

COEFFICIENTS_FILE = Path(__file__).with_name("coefficients.csv")


@dataclass(frozen=True)
class Coefficients:
    """Values by (gpu, dtype, name). dtype is w16, w8, w4 (weights), kv16, kv8 (cache) or any."""

    values: Mapping[tuple[str, str, str], float]

    def of_rows(self, gpu: pd.Series, dtype: pd.Series, name: str) -> FloatArray:
        """Give coefficient `name` of each row; `gpu` and `dtype` are the rows' names, length n."""
        codes_gpu, gpus = pd.factorize(gpu)
        codes_dtype, dtypes = pd.factorize(dtype)
        table = np.full((len(gpus), len(dtypes)), np.nan)
        for g, gpu_name in enumerate(gpus):
            for d, dtype_name in enumerate(dtypes):
                key = (str(gpu_name), str(dtype_name), name)
                if key not in self.values:
                    raise KeyError(f"no coefficient {name} for GPU {gpu_name} and {dtype_name}")
                table[g, d] = self.values[key]
        return np.asarray(table[codes_gpu, codes_dtype], dtype=np.float64)


def read_table() -> pd.DataFrame:
    """Read coefficients.csv: gpu, dtype, name, value, unit, measured_low, measured_high, source."""
    return pd.read_csv(COEFFICIENTS_FILE)


def from_table(table: pd.DataFrame) -> Coefficients:
    """Index a table of coefficients by (gpu, dtype, name)."""
    keys = zip(table["gpu"], table["dtype"], table["name"], strict=True)
    pairs = zip(keys, table["value"], strict=True)
    return Coefficients({(str(g), str(d), str(n)): float(v) for (g, d, n), v in pairs})


@cache
def load() -> Coefficients:
    """Load the committed coefficients once."""
    return from_table(read_table())
