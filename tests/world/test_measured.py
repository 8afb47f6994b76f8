"""The world lies close to measured decode steps, also of models it was not calibrated on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from solutions.world.calibrate import calibrate
from solutions.world.coefficients import read_table
from solutions.world.command import main
from solutions.world.gpus import gpus_of_runs
from solutions.world.measured import HELD_ASIDE, TWIN, as_runs, out_of_scope, read_in_scope
from solutions.world.ranges import MEASURED, ranges, with_ranges
from solutions.world.step import matrix_ms, step_ms, step_parts

COMPOSED = MEASURED / "composed_decode.csv"
END_TO_END = MEASURED / "end_to_end.csv"

needs_measured = pytest.mark.skipif(
    not COMPOSED.exists(),
    reason="measured decode steps are not beside this checkout (../shared/measured)",
)


@pytest.fixture(scope="module")
def composed() -> pd.DataFrame:
    runs = read_in_scope(COMPOSED)
    return runs.assign(error=step_ms(runs) / runs["measured_ms"] - 1)


@needs_measured
@pytest.mark.parametrize("held_aside", [False, True])
def test_the_goal_against_composed_steps_is_met(composed: pd.DataFrame, held_aside: bool) -> None:
    rows = composed[composed["model"].isin(HELD_ASIDE)] if held_aside else composed
    assert len(rows) > 1_400
    assert rows["gpu"].nunique() == 5
    assert rows["error"].abs().median() <= 0.10
    assert rows.groupby("gpu")["error"].mean().abs().max() <= 0.08
    assert rows.groupby("gpu")["error"].median().abs().max() <= 0.08


@needs_measured
def test_the_elementwise_part_is_as_close_as_it_says(composed: pd.DataFrame) -> None:
    off = step_parts(composed).elementwise_ms / composed["elementwise_ms_modelled"] - 1
    is_held = composed["model"].isin(HELD_ASIDE)
    assert off[~is_held].abs().max() <= 0.027
    assert off[is_held].abs().max() <= 0.035


@needs_measured
def test_the_twin_is_compared_but_not_held_aside(composed: pd.DataFrame) -> None:
    assert {TWIN, *HELD_ASIDE} < set(composed["model"])
    assert TWIN not in HELD_ASIDE


@needs_measured
def test_every_range_is_recomputed_from_the_measurements_by_its_rule() -> None:
    recomputed = with_ranges(read_table(), ranges())
    columns = ["gpu", "dtype", "name", "unit", "measured_low", "measured_high", "source"]
    pd.testing.assert_frame_equal(recomputed[columns], read_table()[columns], rtol=1e-9)
    # Pulling the values into the recomputed ranges changes none of them.
    pd.testing.assert_series_equal(recomputed["value"], read_table()["value"], rtol=1e-9)


@needs_measured
def test_int4_takes_the_share_of_the_16_bit_time_that_its_kernels_take() -> None:
    # Matrices over 150 MB in 16 bits, A100-80GB, TensorRT-LLM: medians by rows of the batch.
    kernels = pd.read_csv(MEASURED / "kernels_gemm_small_m.csv.gz")
    kernels = kernels[(kernels["gpu"] == "A100-80GB") & (kernels["framework"] == "TRTLLM")]
    times = kernels.pivot_table("latency_us", index=["m", "n", "k"], columns="gemm_dtype")
    times = times[["int4_wo", "bfloat16"]].dropna().reset_index()
    times = times[2 * times["n"] * times["k"] > 150e6].reset_index(drop=True)
    world = matrix_ratio(times["m"], times["n"] * times["k"])
    apart = pd.DataFrame({"world": world, "kernel": times["int4_wo"] / times["bfloat16"]})
    medians = apart.groupby(times["m"]).median()
    assert {1, 16, 64, 256, 512} <= set(medians.index)
    assert (medians["world"] / medians["kernel"] - 1).abs().max() <= 0.20
    assert (medians["world"] / medians["kernel"] - 1)[lambda m: m.index >= 16].abs().max() <= 0.10


def matrix_ratio(rows: pd.Series, params: pd.Series) -> pd.Series:
    """INT4 time over 16-bit time of single matrices on A100-80GB."""
    a100 = next(gpu for gpu in gpus_of_runs() if gpu.gpu == "A100-80GB")
    runs = pd.DataFrame(
        {
            "batch_size": rows,
            "gpu": a100.gpu,
            "gpu_bandwidth_gbps": a100.gpu_bandwidth_gbps,
            "gpu_tflops": a100.gpu_tflops,
        }
    )
    of_bits = [
        matrix_ms(runs, params.to_numpy(dtype=np.float64), pd.Series(bits, index=runs.index))
        for bits in (4, 16)
    ]
    return pd.Series(of_bits[0] / of_bits[1], index=rows.index)


@needs_measured
def test_end_to_end_steps_of_2024_are_slower_by_the_known_offset() -> None:
    runs = read_in_scope(END_TO_END)
    offset = (runs["measured_ms"] / step_ms(runs)).median()
    assert 1.2 <= offset <= 1.5


@needs_measured
def test_calibrating_again_gives_the_committed_coefficients(composed: pd.DataFrame) -> None:
    again = calibrate(composed[composed["gpu"] == "L40S"], read_table())
    np.testing.assert_allclose(again["value"], read_table()["value"], rtol=0.02, atol=0.02)


@needs_measured
def test_held_aside_models_and_the_twin_do_not_change_the_calibration(
    composed: pd.DataFrame,
) -> None:
    l40s = composed[composed["gpu"] == "L40S"]
    doubled = l40s.assign(
        **{
            part: l40s[part].where(~l40s["model"].isin([*HELD_ASIDE, TWIN]), 2 * l40s[part])
            for part in ("gemm_ms", "attn_ms", "measured_ms")
        }
    )
    table = read_table()
    pd.testing.assert_frame_equal(calibrate(doubled, table), calibrate(l40s, table))


def row(**changes: object) -> pd.DataFrame:
    plain = {
        "source": "aiconfigurator-core-0.12.0",
        "framework": "VLLM",
        "model": "Llama-3.1-8B",
        "gpu": "H100-SXM",
        "tp": 1,
        "batch": 8,
        "context_len": 1024,
        "weight_dtype": "bfloat16",
        "kv_dtype": "bfloat16",
        "decode_step_ms": 6.5,
    }
    return pd.DataFrame([plain | changes])


def test_a_plain_row_is_in_scope_and_becomes_a_run() -> None:
    assert out_of_scope(row()).tolist() == [""]
    run = as_runs(row()).iloc[0]
    assert (run["n_layers"], run["n_kv_heads"], run["gpu"]) == (32, 8, "H100-80GB")
    assert (run["weight_bits"], run["kv_bits"], run["measured_ms"]) == (16, 16, 6.5)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tp": 2}, "several GPUs"),
        ({"gpu": "RTX4090"}, "five classes"),
        ({"weight_dtype": "nvfp4"}, "nvfp4"),
        ({"weight_dtype": "sq"}, "SmoothQuant"),
        ({"weight_dtype": "fp8_block"}, "block-scaled"),
        ({"weight_dtype": "int3"}, "weight format"),
        ({"kv_dtype": "int4"}, "cache format"),
        ({"framework": "SGLang"}, "other framework"),
        ({"framework": "TRTLLM"}, "other framework"),
        ({"model": "Gemma-2-9B"}, "catalog"),
    ],
)
def test_a_row_out_of_scope_says_why(changes: dict[str, object], why: str) -> None:
    assert why in out_of_scope(row(**changes)).iloc[0]


def test_int4_and_int8_weight_only_on_a100_are_in_scope() -> None:
    for dtype, bits in (("int8_wo", 8), ("int4_wo", 4)):
        rows = row(framework="TRTLLM", gpu="A100-80GB", weight_dtype=dtype)
        assert out_of_scope(rows).tolist() == [""]
        assert as_runs(rows)["weight_bits"].tolist() == [bits]


def test_the_command_compares_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    near = row(decode_step_ms=float(step_ms(as_runs(row()))[0]) / 1.02)
    held = row(model="Qwen3-14B")
    held["decode_step_ms"] = step_ms(as_runs(held)) / 1.02
    excluded = row(weight_dtype="nvfp4")
    path = tmp_path / "measured.csv"
    pd.concat([near, held, excluded]).to_csv(path, index=False)
    assert main(["--measured", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "+0.020" in shown
    assert "held aside while calibrating: Qwen3-14B, Llama-2-7B" in shown
    assert "nvfp4 weights compute in FP4" in shown
    assert shown.count(": met") == 2
    far = pd.concat([near, held]).assign(decode_step_ms=1.0)
    far.to_csv(path, index=False)
    assert main(["--measured", str(path)]) == 1
    assert "MISSED" in capsys.readouterr().out


def test_the_command_refuses_what_it_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--measured", str(tmp_path / "absent.csv")]) == 2
    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert main(["--measured", str(tmp_path / "other.csv")]) == 2
    assert main(["--sets", "0"]) == 2
    assert main(["--unknown"]) == 2
    assert "cannot read measured steps" in capsys.readouterr().err
