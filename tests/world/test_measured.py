"""The world lies close to measured decode steps, also of models it was not calibrated on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from solutions.world.calibrate import calibrate
from solutions.world.coefficients import read_table
from solutions.world.command import main
from solutions.world.gpus import DATA
from solutions.world.measured import HELD_ASIDE, as_runs, out_of_scope, read_in_scope
from solutions.world.step import step_ms, step_parts

MEASURED = DATA.parents[1] / "shared" / "measured"
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
    assert len(rows) > 2_000
    assert rows["gpu"].nunique() == 5
    assert rows["error"].abs().median() <= 0.10
    assert rows.groupby("gpu")["error"].mean().abs().max() <= 0.08
    assert rows.groupby("gpu")["error"].median().abs().max() <= 0.08


@needs_measured
def test_the_elementwise_part_is_within_four_percent(composed: pd.DataFrame) -> None:
    ratio = step_parts(composed).elementwise_ms / composed["elementwise_ms_modelled"]
    assert ratio.between(0.96, 1.04).all()


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
def test_held_aside_models_do_not_change_the_calibration(composed: pd.DataFrame) -> None:
    l40s = composed[composed["gpu"] == "L40S"]
    doubled = l40s.assign(
        **{
            part: l40s[part].where(~l40s["model"].isin(HELD_ASIDE), 2 * l40s[part])
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
    assert "held aside while calibrating: Mistral-7B, Qwen3-14B" in shown
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
    assert "cannot read measured steps" in capsys.readouterr().out
