"""The catalog of models and GPUs: every figure can be recomputed or traced to a source."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
CATALOG = ROOT / "data" / "catalog"
SHARED = ROOT.parent / "shared"

MODEL_COLUMNS = [
    "model",
    "family",
    "attention",
    "n_layers",
    "hidden_size",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "intermediate_size",
    "mlp_type",
    "vocab_size",
    "tie_embeddings",
    "max_context",
    "params_total",
    "params_b",
    "sliding_window",
    "embedding_dim",
    "position_rows",
    "qkv_bias",
    "attn_out_bias",
    "mlp_bias",
    "head_bias",
    "norm",
    "norms_per_layer",
    "norms_outside",
    "qk_norm_params",
    "extra_params",
    "source",
    "note",
]
GPU_COLUMNS = [
    "gpu",
    "vendor",
    "gpu_memory_gb",
    "gpu_bandwidth_gbps",
    "gpu_tflops",
    "usd_per_hour_low",
    "usd_per_hour_high",
    "price_source",
    "in_runs",
    "source",
    "note",
]
BOOLEANS = ("tie_embeddings", "qkv_bias", "attn_out_bias", "mlp_bias", "head_bias")
COUNTS_FROM_ZERO = ("position_rows", "norms_outside", "qk_norm_params", "extra_params")
TEXTS = ("model", "family", "attention", "mlp_type", "sliding_window", "norm", "source", "note")
RUN_SHAPE = ("n_layers", "hidden_size", "n_heads", "n_kv_heads", "head_dim")

# Vectors of hidden_size that one norm holds: a scale, a scale and a shift, a scale, nothing.
NORM_VECTORS = {"rms": 1, "layer": 2, "layer_no_bias": 1, "none": 0}

# The five classes of the runs: decimal GB, GB/s, dense 16-bit TFLOP/s (SXM parts but L40S).
RUN_GPUS = {
    "L40S": (48, 864, 362),
    "A100-80GB": (80, 2039, 312),
    "H100-80GB": (80, 3350, 989),
    "H200": (141, 4800, 989),
    "B200": (180, 8000, 2250),
}

# Counts that the makers publish and that anybody can look up.
PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "opt-6.7b": 6_658_473_984,
    "bloom": 176_247_271_424,
    "gpt-j-6b": 6_050_882_784,
    "smollm2-135m": 134_515_008,
    "tinyllama-1.1b": 1_100_048_384,
    "phi-2": 2_779_683_840,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "gemma-2-9b": 9_241_705_984,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b-v0.1": 7_241_732_096,
    "mistral-nemo-12b": 12_247_782_400,
    "mistral-small-24b": 23_572_403_200,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-8b": 8_190_735_360,
    "starcoder2-7b": 7_173_923_840,
}

# KV bytes per token at 16 bits, as the milestones quote them.
KV_BYTES_16_BIT = {"llama-3-70b": 327_680, "llama-3-8b": 131_072, "llama-2-7b": 524_288}

# Config files under another name than the catalog's, and the figures in which a file differs.
CONFIG_NAMES = {
    "command-r-v01": "command-r-35b",
    "phi-2": "phi-2-msft",
    "phi-3-mini-4k": "phi-3-mini-128k",
    "smollm2-1.7b": "smollm-1.7b",
    "stablelm-3b-4e1t": "stablelm-3b",
    "starcoder": "starcoder-15b",
}
CONFIG_DIFFERS = {
    ("qwen-7b", "intermediate_size"),  # the file counts both gated halves
    ("minicpm-2b", "vocab_size"),  # the file is the 128k variant's
}
CONFIG_KEYS = {
    "n_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "n_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "n_kv_heads": ("num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num"),
    "head_dim": ("head_dim", "kv_channels"),
    "intermediate_size": ("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
}

SHARED_GPU_NAMES = {
    "V100-32GB": "V100-SXM2-32GB",
    "A100-40GB": "A100-40GB-SXM",
    "A100-80GB": "A100-80GB-SXM",
    "H100-80GB": "H100-80GB-SXM",
    "H200": "H200-SXM",
    "B200": "B200-SXM",
    "Gaudi3": "Gaudi 3",
}

Row = dict[str, str]


def read_rows(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as handle:
        return list(csv.DictReader(handle, strict=True))


MODELS = read_rows(CATALOG / "models.csv")
GPUS = read_rows(CATALOG / "gpus.csv")


def model(name: str) -> Row:
    return next(row for row in MODELS if row["model"] == name)


def yes(row: Row, column: str) -> int:
    return {"true": 1, "false": 0}[row[column]]


def params_from_shape(row: Row) -> int:
    """Count the parameters of a decoder from its shape, one term for each kind of weight."""
    n = {column: int(row[column]) for column in MODEL_COLUMNS if row[column].isdecimal()}
    hidden, ffn, vocab = n["hidden_size"], n["intermediate_size"], n["vocab_size"]
    query = n["n_heads"] * n["head_dim"]
    qkv = query + 2 * n["n_kv_heads"] * n["head_dim"]
    gates = 2 if row["mlp_type"] == "gated" else 1
    norm = NORM_VECTORS[row["norm"]] * hidden
    attention = hidden * qkv + yes(row, "qkv_bias") * qkv
    attention += query * hidden + yes(row, "attn_out_bias") * hidden
    mlp = (gates + 1) * hidden * ffn + yes(row, "mlp_bias") * (gates * ffn + hidden)
    layer = attention + mlp + n["norms_per_layer"] * norm + n["qk_norm_params"]
    embeddings = (2 - yes(row, "tie_embeddings")) * vocab * n["embedding_dim"]
    embeddings += n["position_rows"] * hidden + yes(row, "head_bias") * vocab
    return embeddings + n["n_layers"] * layer + n["norms_outside"] * norm + n["extra_params"]


def test_files_are_plain_csv_with_exactly_the_documented_columns() -> None:
    for name, columns in (("models.csv", MODEL_COLUMNS), ("gpus.csv", GPU_COLUMNS)):
        raw = (CATALOG / name).read_bytes()
        assert b"\r" not in raw, name
        assert raw.endswith(b"\n"), name
        table = list(csv.reader(raw.decode("utf-8").splitlines(), strict=True))
        assert table[0] == columns
        assert {len(line) for line in table} == {len(columns)}, name
        assert [cell for line in table for cell in line if cell != cell.strip()] == []


def test_the_readme_explains_every_column() -> None:
    text = (CATALOG / "README.md").read_text(encoding="utf-8")
    assert [c for c in MODEL_COLUMNS + GPU_COLUMNS if f"`{c}`" not in text] == []


def test_rows_are_in_a_fixed_order_and_names_are_unique() -> None:
    order = [(int(row["params_total"]), row["model"]) for row in MODELS]
    assert order == sorted(order)
    for rows, key in ((MODELS, "model"), (GPUS, "gpu")):
        assert [
            name for name, n in Counter(row[key].lower() for row in rows).items() if n > 1
        ] == []


def test_parameter_counts_follow_from_the_shapes() -> None:
    wrong = {
        row["model"]: (int(row["params_total"]), params_from_shape(row))
        for row in MODELS
        if int(row["params_total"]) != params_from_shape(row)
    }
    assert wrong == {}
    assert len(MODELS) >= 100


def test_params_b_is_params_total_in_billions() -> None:
    assert {
        row["model"]: row["params_b"]
        for row in MODELS
        if row["params_b"] != f"{int(row['params_total']) / 1e9:.4f}"
    } == {}


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_well_known_counts_are_the_published_ones(name: str, published: int) -> None:
    assert int(model(name)["params_total"]) == published


@pytest.mark.parametrize(("name", "expected"), KV_BYTES_16_BIT.items())
def test_kv_bytes_per_token_are_the_ones_the_course_quotes(name: str, expected: int) -> None:
    row = model(name)
    kv_heads, head_dim = int(row["n_kv_heads"]), int(row["head_dim"])
    assert 2 * int(row["n_layers"]) * kv_heads * head_dim * 2 == expected


def test_attention_kind_matches_the_heads() -> None:
    def kind(row: Row) -> str:
        if row["n_kv_heads"] == row["n_heads"]:
            return "MHA"
        return "MQA" if row["n_kv_heads"] == "1" else "GQA"

    assert {row["model"]: row["attention"] for row in MODELS if row["attention"] != kind(row)} == {}


def test_query_heads_divide_over_kv_heads() -> None:
    assert [
        row["model"]
        for row in MODELS
        if int(row["n_heads"]) % int(row["n_kv_heads"])
        or int(row["n_kv_heads"]) > int(row["n_heads"])
    ] == []


def test_cells_are_of_their_type() -> None:
    bad = []
    for row in MODELS:
        for column in MODEL_COLUMNS:
            cell = row[column]
            if column in BOOLEANS:
                good = cell in ("true", "false")
            elif column == "params_b":
                good = re.fullmatch(r"\d+\.\d{4}", cell) is not None
            elif column in TEXTS:
                good = cell != "" or column in ("sliding_window", "note")
            else:
                good = re.fullmatch(r"0|[1-9]\d*", cell) is not None
                good = good and (cell != "0" or column in COUNTS_FROM_ZERO)
            if not good:
                bad.append((row["model"], column, cell))
    assert bad == []


def test_shapes_are_in_the_range_of_released_models() -> None:
    limits: dict[str, tuple[int, int]] = {
        "n_layers": (6, 130),
        "hidden_size": (512, 20_000),
        "n_heads": (4, 240),
        "n_kv_heads": (1, 128),
        "head_dim": (48, 256),
        "intermediate_size": (1024, 80_000),
        "vocab_size": (30_000, 270_000),
        "max_context": (1024, 1_100_000),
        "params_total": (70_000_000, 410_000_000_000),
    }
    assert [
        (row["model"], column, row[column])
        for row in MODELS
        for column, (low, high) in limits.items()
        if not low <= int(row[column]) <= high
    ] == []


def test_terms_of_the_count_are_ones_that_exist() -> None:
    bad = []
    for row in MODELS:
        head_dim = int(row["head_dim"])
        all_heads = (int(row["n_heads"]) + int(row["n_kv_heads"])) * head_dim
        context, rows = int(row["max_context"]), int(row["position_rows"])
        checks = {
            "mlp_type": row["mlp_type"] in ("gated", "plain"),
            "norm": row["norm"] in NORM_VECTORS,
            "norms_per_layer": row["norms_per_layer"] in ("1", "2", "4"),
            "norms_outside": row["norms_outside"] in ("0", "1", "2"),
            "qk_norm_params": int(row["qk_norm_params"]) in (0, 2 * head_dim, all_heads),
            "position_rows": rows in (0, context, context + 2),
            "embedding_dim": row["embedding_dim"] == row["hidden_size"]
            or int(row["extra_params"]) > 0,
        }
        bad += [(row["model"], column) for column, good in checks.items() if not good]
    assert bad == []


def test_extra_params_are_explained_in_the_note() -> None:
    extra = {row["model"]: row for row in MODELS if row["extra_params"] != "0"}
    assert [name for name, row in extra.items() if "extra_params" not in row["note"]] == []
    # The only such row: two projections between embeddings of 512 and a hidden size of 1024.
    assert {name: int(row["extra_params"]) for name, row in extra.items()} == {
        "opt-350m": 2 * 512 * 1024
    }


def test_every_row_has_a_public_source() -> None:
    local = re.compile(r"(?:^|[\s(;])(?:~?/\w|[A-Za-z]:\\)|\bstored\b|\blocalhost\b")
    rows = [(row["model"], row) for row in MODELS] + [(row["gpu"], row) for row in GPUS]
    assert [name for name, row in rows if len(row["source"]) < 10] == []
    assert [
        (name, cell)
        for name, row in rows
        for cell in row.values()
        if local.search(cell) is not None
    ] == []


def test_sliding_windows_are_readable() -> None:
    windows = {row["sliding_window"] for row in MODELS} - {""}
    pattern = r"\d+ (?:\((?:all layers|interleaved)\)|on every 2nd layer|on \d of \d layers)"
    assert [text for text in windows if re.fullmatch(pattern, text) is None] == []


def test_enough_shapes_without_window_for_the_runs_and_a_fresh_hidden_draw() -> None:
    usable = [
        row for row in MODELS if not row["sliding_window"] and 0.1 <= float(row["params_b"]) <= 73
    ]
    kinds = Counter(row["attention"] for row in usable)
    assert len(usable) >= 70
    assert set(kinds) == {"MHA", "GQA", "MQA"}
    assert min(kinds.values()) >= 8
    distinct = {tuple(row[column] for column in RUN_SHAPE) for row in usable}
    assert len(distinct) >= 70
    readme = (CATALOG / "README.md").read_text(encoding="utf-8")
    assert f"{len(MODELS)} released" in readme
    assert f"{len(usable)} rows, {len(distinct)} distinct" in readme
    assert any(float(row["params_b"]) < 0.2 for row in usable)
    assert any(float(row["params_b"]) > 65 for row in usable)


def test_the_gpus_of_the_runs_are_the_five_classes() -> None:
    listed = {
        row["gpu"]: tuple(
            float(row[column]) for column in ("gpu_memory_gb", "gpu_bandwidth_gbps", "gpu_tflops")
        )
        for row in GPUS
        if row["in_runs"] == "true"
    }
    assert listed == RUN_GPUS
    assert {row["in_runs"] for row in GPUS} == {"true", "false"}


def test_gpu_figures_are_plausible_and_prices_are_bands_with_a_source() -> None:
    bad = []
    for row in GPUS:
        memory, bandwidth, tflops = (
            float(row[column]) for column in ("gpu_memory_gb", "gpu_bandwidth_gbps", "gpu_tflops")
        )
        low, high = row["usd_per_hour_low"], row["usd_per_hour_high"]
        checks = {
            "gpu_memory_gb": 16 <= memory <= 300,
            "gpu_bandwidth_gbps": 300 <= bandwidth <= 8000,
            "gpu_tflops": 50 <= tflops <= 2500,
            "arithmetic intensity": 75 <= 1000 * tflops / bandwidth <= 600,
            "price": 0.1 <= float(low) <= float(high) <= 15 if low and high else low == high == "",
            "price_source": bool(row["price_source"]) == bool(low),
            "price of a run's GPU": bool(low) or row["in_runs"] == "false",
        }
        bad += [(row["gpu"], what) for what, good in checks.items() if not good]
    assert bad == []
    assert len(GPUS) > len(RUN_GPUS)


def shared(path: str) -> Path:
    found = SHARED / path
    if not found.exists():
        pytest.skip(f"the facts this catalog was made from are not beside the repository: {path}")
    return found


def test_models_agree_with_the_shared_catalog() -> None:
    facts = {row["model"]: row for row in read_rows(shared("catalog/models.csv"))}
    translate: dict[str, Callable[[str], str]] = {
        "mlp_type": lambda cell: {"not gated": "plain"}.get(cell, cell),
        "tie_embeddings": str.lower,
    }
    same = [*RUN_SHAPE, "attention", "intermediate_size", "mlp_type", "vocab_size"]
    same += ["tie_embeddings", "max_context", "params_total"]
    compared, differ = 0, []
    for row in MODELS:
        fact = facts.get(row["model"])
        if fact is None:
            continue
        compared += 1
        assert (fact["n_experts"], fact["mla_kv_lora_rank"]) == ("", ""), row["model"]
        differ += [
            (row["model"], column, row[column], fact[column])
            for column in same
            if row[column] != translate.get(column, str)(fact[column])
        ]
        if bool(row["sliding_window"]) != bool(fact["sliding_window"]):
            differ.append((row["model"], "sliding_window", row["sliding_window"], ""))
    assert differ == []
    assert compared >= 130


def test_gpus_agree_with_the_shared_catalog() -> None:
    facts = {row["gpu"]: row for row in read_rows(shared("catalog/gpus.csv"))}
    columns = {
        "vendor": "vendor",
        "gpu_memory_gb": "memory_gb_marketing",
        "gpu_bandwidth_gbps": "memory_bandwidth_gbps",
        "gpu_tflops": "dense_fp16_bf16_tflops",
    }
    differ = []
    for row in GPUS:
        fact = facts[SHARED_GPU_NAMES.get(row["gpu"], row["gpu"])]
        differ += [
            (row["gpu"], ours, row[ours], fact[theirs])
            for ours, theirs in columns.items()
            if row[ours] != fact[theirs]
        ]
    assert differ == []


def facts_of_config(config: dict[str, Any]) -> dict[str, int]:
    """The shape that a config.json states outright; what it leaves to defaults is left out."""
    config = config.get("text_config", config)
    shape = {
        column: next(config[key] for key in keys if isinstance(config.get(key), int))
        for column, keys in CONFIG_KEYS.items()
        if any(isinstance(config.get(key), int) for key in keys)
    }
    # Old Falcon and GPT-BigCode files say that there is one KV head without a number.
    if "n_kv_heads" not in shape and config.get("multi_query") is True:
        shape["n_kv_heads"] = 1
    return shape


def test_models_agree_with_config_files() -> None:
    folder = shared("configs")
    compared, differ = 0, []
    for row in MODELS:
        path = folder / f"{CONFIG_NAMES.get(row['model'], row['model'])}.json"
        if not path.exists():
            continue
        stated = facts_of_config(json.loads(path.read_text(encoding="utf-8")))
        assert len(stated) >= 3, path.name
        compared += 1
        differ += [
            (row["model"], column, int(row[column]), value)
            for column, value in stated.items()
            if int(row[column]) != value
        ]
    assert {(name, column) for name, column, _, _ in differ} == CONFIG_DIFFERS, differ
    assert compared >= 50
