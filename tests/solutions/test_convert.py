"""An instructor's own measurements become runs, and every row that cannot is told why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from grader.errors import BadInputError
from milestones.runs import COLUMNS
from solutions import convert as convert_module
from solutions.convert import catalog_gpu, catalog_model, convert, find_columns, kept, main
from solutions.instructor_runs import read_runs
from solutions.lesson import ROOT

MEASURED = ROOT.parent / "shared" / "measured"
needs_measured = pytest.mark.skipif(
    not MEASURED.is_dir(), reason="../shared/measured is not on this machine"
)

ROW = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "gpu": "NVIDIA H100 80GB HBM3",
    "tp": "1",
    "batch": "16",
    "isl": "1000",
    "osl": "201",
    "precision": "fp8",
    "kv_cache_dtype": "auto",
    "tpot_ms": "8",
}


def table(*changes: dict[str, Any], drop: tuple[str, ...] = ()) -> pd.DataFrame:
    rows = [{k: v for k, v in ROW.items() if k not in drop} | change for change in changes]
    return pd.DataFrame(rows, dtype=str)


def one(drop: tuple[str, ...] = (), **change: Any) -> dict[str, Any]:
    return the_one(table(change, drop=drop))


def the_one(measured: pd.DataFrame) -> dict[str, Any]:
    (run,) = convert(measured).runs.to_dict("records")
    return {str(key): value for key, value in run.items()}


def reason_of(**change: Any) -> str:
    made = convert(table(change))
    assert len(made.runs) == 0
    return made.told[-1].strip()


def test_a_row_under_common_names_becomes_a_run_in_the_schema() -> None:
    run = one()
    assert tuple(run) == COLUMNS
    assert run["model"] == "llama-3.1-8b"
    assert (run["n_layers"], run["n_kv_heads"], run["head_dim"]) == (32, 8, 128)
    assert run["gpu"] == "H100-80GB"
    assert (run["gpu_memory_gb"], run["gpu_bandwidth_gbps"], run["gpu_tflops"]) == (80, 3350, 989)
    assert (run["weight_bits"], run["kv_bits"]) == (8, 16)
    assert run["context_len"] == 1100  # the prompt and, on average, half of what is put out
    assert (run["decode_step_ms"], run["tokens_per_s"]) == (8, 2000)


@pytest.mark.parametrize(
    ("name", "value", "step_ms"),
    [
        ("tpot_ms", "8", 8),
        ("Mean TPOT (ms)", "8", 8),
        ("itl_s", "0.008", 8),
        ("median_itl_us", "8000", 8),
        ("Inter-token latency, ms", "8", 8),
        ("output_throughput", "1600", 10),
    ],
)
def test_a_step_is_read_under_its_names_and_in_its_unit(
    name: str, value: str, step_ms: float
) -> None:
    run = the_one(table({name: value}, drop=("tpot_ms",)))
    assert run["decode_step_ms"] == pytest.approx(step_ms)


def test_a_time_without_a_unit_is_taken_only_where_it_is_named_and_told_to_be_in_ms() -> None:
    measured = table({"latency": "8"}, drop=("tpot_ms",))
    with pytest.raises(BadInputError, match="decode_step in ms, s or us"):
        convert(measured)
    made = convert(measured, {"decode_step": "latency"})
    assert made.runs["decode_step_ms"].tolist() == [8]
    assert any("latency is taken to be in ms" in told for told in made.told)
    assert any("latency is taken to be of one step" in told for told in made.told)


def test_the_surest_of_several_columns_is_taken_whatever_their_order() -> None:
    for columns in (["latency_ms", "tpot_ms"], ["tpot_ms", "latency_ms"]):
        found = find_columns(["model", "gpu", "bs", "context", *columns], {})
        assert found["decode_step"] == "tpot_ms"
    given = find_columns(["model", "gpu", "bs", "context", *columns], {"decode_step": "latency_ms"})
    assert given["decode_step"] == "latency_ms"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tp": "2"}, "not one GPU"),
        ({"model": "acme/Tiny-1B"}, "model 'acme/Tiny-1B' is not in data/catalog"),
        ({"gpu": "RTX 4090"}, "gpu 'RTX 4090' is not in data/catalog"),
        ({"precision": "fp6"}, "weights of 'fp6': not known"),
        ({"kv_cache_dtype": "int4"}, "a 4-bit cache"),
        ({"batch": "2.5"}, "batch_size is no positive whole number"),
        ({"batch": "many"}, "batch_size is no positive whole number"),
        ({"isl": "-900"}, "context_len is no positive number"),
        ({"tpot_ms": ""}, "decode_step_ms is no positive number"),
        ({"tpot_ms": "inf"}, "decode_step_ms is no positive number"),
        ({"batch": "4096"}, "does not fit in 92 % of the memory"),
        ({"model": "gemma-2-9b-it", "isl": "9000"}, "beyond the model's sliding window"),
    ],
)
def test_a_row_that_cannot_become_a_run_is_dropped_for_its_reason(
    change: dict[str, str], reason: str
) -> None:
    assert reason in reason_of(**change)


def test_the_same_question_is_kept_once_and_counted() -> None:
    made = convert(table({}, {"tpot_ms": "9"}, {"batch": "17"}))
    assert made.runs["decode_step_ms"].tolist() == [8, 8]
    assert made.told[-2] == "Dropped 1 of 3 rows:"
    assert "the same question again" in made.told[-1]


def test_shapes_and_gpus_of_ones_own_come_in_columns() -> None:
    shape = dict.fromkeys(("n_layers", "n_heads", "n_kv_heads"), "12") | {
        "hidden_size": "768",
        "head_dim": "64",
        "intermediate_size": "3072",
        "params_b": "0.124",
    }
    facts = {"gpu_memory_gb": "24", "gpu_bandwidth_gbps": "1008", "gpu_tflops": "165"}
    run = the_one(table({"model": "acme/Tiny-1B", "gpu": "RTX 4090"} | shape | facts))
    assert (run["model"], run["gpu"], run["n_layers"]) == ("acme/Tiny-1B", "RTX 4090", 12)
    assert run["gpu_bandwidth_gbps"] == 1008


def test_engines_that_runs_cannot_tell_apart_are_told_and_one_can_be_kept(tmp_path: Path) -> None:
    both = table({"engine": "vLLM"}, {"engine": "TRT", "batch": "17"})
    assert any("--keep engine=VALUE" in told for told in convert(both).told)
    assert not any(
        "--keep" in told for told in convert(kept(tmp_path, both, {"engine": "TRT"})).told
    )
    with pytest.raises(BadInputError, match="no row has engine 'x'; there are TRT, vLLM"):
        kept(tmp_path, both, {"engine": "x"})
    with pytest.raises(BadInputError, match="has no column version"):
        kept(tmp_path, both, {"version": "x"})


def test_a_throughput_that_disagrees_with_the_step_is_told() -> None:
    made = convert(table({"tps": "2000"}, {"batch": "17", "tps": "125"}))
    assert any("tokens_per_s of 1 rows is not 1000 batch_size" in told for told in made.told)
    assert made.runs["tokens_per_s"].tolist() == [2000, 2125]


@pytest.mark.parametrize("lost", ["model", "gpu", "batch", "isl", "tpot_ms"])
def test_a_column_that_is_needed_and_not_found_is_named(lost: str) -> None:
    with pytest.raises(BadInputError, match=r"no column is known as .*--map"):
        convert(table({}, drop=(lost,)))


@pytest.mark.parametrize(
    ("mapped", "sentence"),
    [({"speed": "tpot_ms"}, "is none of model"), ({"gpu": "card"}, "the file has no column card")],
)
def test_a_mapping_that_names_nothing_is_refused(mapped: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        convert(table({}), mapped)


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("llama2-70b", "llama-2-70b"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "qwen2.5-7b"),
        ("Qwen/Qwen2-7B", "qwen2-7b"),
        ("Qwen2-57B", None),  # without its point, qwen2.5-7b would read the same
        ("mistralai/Mistral-7B", "mistral-7b-v0.1"),
        ("mistralai/Mistral-7B-Instruct-v0.3", None),
        ("Llama-3.1-8B-Uncensored", None),
        ("", None),
    ],
)
def test_a_model_is_known_by_its_id_and_never_by_a_near_miss(name: str, ours: str | None) -> None:
    assert catalog_model(name) == ours


def test_a_name_without_its_version_is_no_model_where_the_catalog_has_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for versions, ours in (
        (["tiny-1b-v0.1"], "tiny-1b-v0.1"),
        (["tiny-1b-v1", "tiny-1b-v2"], None),
    ):
        models = pd.DataFrame(index=pd.Index(versions, name="model"))
        monkeypatch.setattr(convert_module, "_models", lambda models=models: models)
        assert catalog_model("acme/Tiny-1B") == ours


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("H100-SXM", "H100-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("H100-80GB-PCIe", "H100-80GB-PCIe"),
        ("NVIDIA-A100-SXM4-80GB", "A100-80GB"),
        ("A100-40GB", "A100-40GB"),
        ("A100", None),  # 40 or 80 GB: it does not say
        ("NVIDIA H200 141GB", "H200"),
        ("H200 96GB", None),
        ("AMD MI300X", "MI300X"),
        ("GH200-96GB", None),
        ("", None),
    ],
)
def test_a_gpu_is_known_by_its_words_and_never_by_a_near_miss(name: str, ours: str | None) -> None:
    assert catalog_gpu(name) == ours


def test_too_few_runs_are_told_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table({}).to_csv(tmp_path / "mine.csv", index=False)
    with pytest.raises(BadInputError, match="1 runs came of it; a split needs 400 or more"):
        main([str(tmp_path / "mine.csv"), "--out", str(tmp_path / "runs.csv")])
    assert not (tmp_path / "runs.csv").exists()
    assert "batch_size         <- batch" in capsys.readouterr().out


def test_what_is_converted_is_what_split_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"batch": str(1 + i % 64), "isl": str(500 + i)} for i in range(450)]
    models = ("Qwen/Qwen3-8B", "Llama-2-7B", "Llama-3.1-8B")
    table(*({**row, "model": models[i % 3]} for i, row in enumerate(rows))).to_csv(
        tmp_path / "mine.csv", index=False
    )
    command = [str(tmp_path / "mine.csv"), "--out", str(tmp_path / "runs.csv")]
    assert main(command) == 0
    own = read_runs(tmp_path / "runs.csv")
    assert own.train is not None
    assert f"Wrote {len(own.train) + len(own.test):,} runs of 3 models" in capsys.readouterr().out
    with pytest.raises(BadInputError, match="is there already"):
        main(command)


@needs_measured
def test_measured_steps_composed_from_kernels_are_converted(tmp_path: Path) -> None:
    measured = MEASURED / "composed_decode.csv"
    out = tmp_path / "runs.csv"
    assert main([str(measured), "--keep", "framework=VLLM", "--out", str(out)]) == 0
    own = read_runs(out)
    assert own.train is not None
    runs = pd.concat([own.train, own.test])
    assert len(runs) > 7_000
    assert set(runs["gpu"]) == {"A100-80GB", "B200", "H100-80GB", "H200", "L40S"}
    assert runs["model"].nunique() == 7
    whole = pd.read_csv(measured)
    first = whole[(whole["framework"] == "VLLM") & (whole["model"] == "Qwen3-4B")].iloc[0]
    same = runs[
        (runs["model"] == "qwen3-4b")
        & (runs["gpu"] == first["gpu"])
        & (runs["batch_size"] == first["batch"])
        & (runs["context_len"] == first["context_len"])
        & (runs["weight_bits"] == 16)
        & (runs["kv_bits"] == 16)
    ]
    assert same["decode_step_ms"].tolist() == [first["decode_step_ms"]]


@needs_measured
def test_measured_steps_that_are_mostly_of_several_gpus_are_too_few(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadInputError, match="a split needs 400 or more"):
        main([str(MEASURED / "end_to_end.csv"), "--out", str(tmp_path / "runs.csv")])
    assert "2,414 not one GPU" in capsys.readouterr().out
