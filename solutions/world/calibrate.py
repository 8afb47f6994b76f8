"""Fit the coefficients to composed decode steps, each inside its measured range.

`python -m solutions.world.calibrate` recomputes the ranges (see ranges.py) and rewrites
coefficients.csv. Rows of the models held aside are not read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.optimize import least_squares

from solutions.world.coefficients import COEFFICIENTS_FILE, Coefficients, from_table, read_table
from solutions.world.measured import HELD_ASIDE, TWIN, read_in_scope
from solutions.world.ranges import MEASURED, ranges, with_ranges
from solutions.world.step import step_parts

FloatArray = npt.NDArray[np.float64]

WEIGHT_NAMES = ("weight_bandwidth_share", "flop_share", "matrix_launch_us", "blend_power")
KV_NAMES = ("kv_bandwidth_share", "attention_launch_us", "starving_heads", "work_item_ns")
ROBUST_SCALE = 0.05  # relative errors beyond 5 % count linearly


def _fit(
    table: pd.DataFrame,
    keys: list[tuple[str, str, str]],
    residuals: Callable[[Coefficients], FloatArray],
    floors: Mapping[str, float],
) -> None:
    """Fit the values at `keys` in place, bounded by their measured ranges and by `floors`."""
    places = [_place(table, key) for key in keys]
    low = table.loc[places, "measured_low"].to_numpy(dtype=np.float64)
    high = table.loc[places, "measured_high"].to_numpy(dtype=np.float64)
    floor = np.array([floors.get(name, -np.inf) for _, _, name in keys])
    low = np.maximum(low, np.minimum(floor, high - 0.01 * (high - low)))
    start = low + (high - low) * 0.5

    def with_values(values: FloatArray) -> Coefficients:
        table.loc[places, "value"] = values
        return from_table(table)

    def residuals_at(values: FloatArray) -> FloatArray:
        return residuals(with_values(values))

    found = least_squares(
        residuals_at,
        start,
        bounds=(low, high),
        x_scale=high - low,
        loss="soft_l1",
        f_scale=ROBUST_SCALE,
    )
    table.loc[places, "value"] = np.round(found.x, 4)


def calibrate(composed: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Give the table of coefficients with values fitted to `composed` (runs of measured.as_runs).

    GPU and dtype with no measured rows take the values of the nearest that has them: INT4 off
    A100 those of A100 with the shortest launch measured there (newer GPUs launch faster), FP8
    cache on A100 the place in its argued range that its 16-bit cache has in the measured one.
    """
    fitted = table.copy()
    known = composed[~composed["model"].isin([*HELD_ASIDE, TWIN])]
    for gpu, of_gpu in known.groupby("gpu", sort=True):
        for bits, runs in sorted(of_gpu.groupby("weight_bits"), reverse=True):
            keys = [(str(gpu), f"w{bits}", name) for name in WEIGHT_NAMES]
            measured = runs["gemm_ms"].to_numpy(dtype=np.float64)

            def matrices(
                c: Coefficients, runs: pd.DataFrame = runs, measured: FloatArray = measured
            ) -> FloatArray:
                return np.log(step_parts(runs, c).matrices_ms / measured)

            _fit(fitted, keys, matrices, {})
        for bits, runs in sorted(of_gpu.groupby("kv_bits"), reverse=True):
            keys = [(str(gpu), f"kv{bits}", name) for name in KV_NAMES]
            measured = runs["attn_ms"].to_numpy(dtype=np.float64)
            step = runs["measured_ms"].to_numpy(dtype=np.float64)

            def attention(
                c: Coefficients,
                runs: pd.DataFrame = runs,
                measured: FloatArray = measured,
                step: FloatArray = step,
            ) -> FloatArray:
                return (step_parts(runs, c).attention_ms - measured) / step

            _fit(fitted, keys, attention, _launch_floor(fitted, str(gpu)) if bits == 8 else {})
    seen_weights = {
        (str(g), int(b)) for g, b in zip(known["gpu"], known["weight_bits"], strict=True)
    }
    for gpu in sorted(fitted["gpu"].unique()):
        if gpu != "A100-80GB" and (gpu, 4) not in seen_weights:
            _copy(fitted, ("A100-80GB", "w4"), (gpu, "w4"), WEIGHT_NAMES)
            launch = (
                (fitted["gpu"] == gpu)
                & (fitted["dtype"] == "w4")
                & (fitted["name"] == "matrix_launch_us")
            )
            fitted.loc[launch, "value"] = fitted.loc[launch, "measured_low"]
    for name in KV_NAMES:
        at = _place(fitted, ("A100-80GB", "kv8", name))
        fitted.loc[at, "value"] = round(_same_place_in_8_bit(fitted, "A100-80GB", name), 4)
    return fitted


def _launch_floor(table: pd.DataFrame, gpu: str) -> dict[str, float]:
    """Least launch of an FP8 cache: as far up its measured range as the 16-bit launch is.

    Timings of short caches on L40S ran from L2 and would otherwise give an FP8 cache a launch
    far below the 16-bit one, which the smallest kernels contradict. Elsewhere it does not bind.
    """
    return {"attention_launch_us": _same_place_in_8_bit(table, gpu, "attention_launch_us")}


def _same_place_in_8_bit(table: pd.DataFrame, gpu: str, name: str) -> float:
    columns = ["measured_low", "value", "measured_high"]
    at_16_bit, at_8_bit = (_place(table, (gpu, dtype, name)) for dtype in ("kv16", "kv8"))
    rows = table.loc[[at_16_bit, at_8_bit], columns].to_numpy(dtype=np.float64)
    (low_16_bit, value, high_16_bit), (low, _, high) = rows.tolist()
    return float(low + (value - low_16_bit) / (high_16_bit - low_16_bit) * (high - low))


def _place(table: pd.DataFrame, key: tuple[str, str, str]) -> int:
    gpu, dtype, name = key
    is_key = (table["gpu"] == gpu) & (table["dtype"] == dtype) & (table["name"] == name)
    return int(np.flatnonzero(is_key)[0])


def _copy(
    table: pd.DataFrame, origin: tuple[str, str], target: tuple[str, str], names: tuple[str, ...]
) -> None:
    for name in names:
        is_name = table["name"] == name
        of_origin = is_name & (table["gpu"] == origin[0]) & (table["dtype"] == origin[1])
        of_target = is_name & (table["gpu"] == target[0]) & (table["dtype"] == target[1])
        low = float(table.loc[of_target, "measured_low"].iloc[0])
        high = float(table.loc[of_target, "measured_high"].iloc[0])
        value = float(table.loc[of_origin, "value"].iloc[0])
        table.loc[of_target, "value"] = float(np.clip(value, low, high))


def main(argv: list[str]) -> int:
    """Recompute ranges, refit, and rewrite coefficients.csv from a directory of measured files."""
    if len(argv) > 1:
        print("usage: python -m solutions.world.calibrate [DIRECTORY_OF_MEASURED_FILES]")
        return 2
    directory = Path(argv[0]) if argv else MEASURED
    table = with_ranges(read_table(), ranges(directory))
    fitted = calibrate(read_in_scope(directory / "composed_decode.csv"), table)
    fitted.to_csv(COEFFICIENTS_FILE, index=False, lineterminator="\n")
    print(f"wrote {len(fitted)} coefficients")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
