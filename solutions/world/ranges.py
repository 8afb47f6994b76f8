"""The range each coefficient was measured in, recomputed from the kernel timings by one rule.

A range is a 5th to 95th percentile over kernels unless its rule says otherwise. Where nothing was
measured the source begins with "not measured" and argues for the range instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from solutions.world.gpus import DATA, gpus_of_runs
from solutions.world.measured import CATALOG_NAME, GPU_NAME, KV_BITS, WEIGHT_BITS
from solutions.world.shapes import read_catalog

MEASURED = DATA.parents[1] / "shared" / "measured"
KERNELS = "aiconfigurator-core 0.12.0 (Apache-2.0)"
N_DIGITS = 4
A100 = "A100-80GB"
NO_FP8_CACHE = "not measured: no FP8 cache kernels on A100-80GB; "
OF_A100_INT4 = "not measured: INT4 kernels on A100-80GB only, whose measured range is taken; "


@dataclass(frozen=True)
class Range:
    """Where a coefficient was measured to lie, its middle, and by what rule."""

    gpu: str
    dtype: str
    name: str
    low: float
    middle: float
    high: float
    source: str


def ranges(directory: Path = MEASURED) -> pd.DataFrame:
    """Give every coefficient's range, one row each: gpu, dtype, name, low, middle, high, source."""
    gemm = _gemm(directory)
    attention = _attention(directory)
    composed = pd.read_csv(directory / "composed_decode.csv")
    powers = _powers(directory)
    found: list[Range] = []
    for gpu in (g.gpu for g in gpus_of_runs()):
        for bits in (16, 8, 4):
            at = gpu if bits > 4 else A100
            kernels = gemm[(gemm["gpu"] == at) & (gemm["weight_bits"] == bits)]
            argued = OF_A100_INT4 if at != gpu else ""
            dtype = f"w{bits}"
            of_weights = [*_weights(gpu, dtype, kernels), _blend_power(gpu, dtype, powers)]
            found += [replace(r, source=argued + r.source) for r in of_weights]
        for bits in (16, 8):
            kernels = attention[(attention["gpu"] == gpu) & (attention["kv_bits"] == bits)]
            if len(kernels):
                found += _cache(gpu, f"kv{bits}", kernels)
        found.append(_group_loss(gpu, attention[attention["gpu"] == gpu]))
        found += _outside_kernels(gpu, composed)
    table = pd.DataFrame([vars(r) for r in _argued(found)])
    columns = ["low", "middle", "high"]
    for column in columns:
        table[column] = [float(f"{value:.{N_DIGITS}g}") for value in table[column]]
    return table.sort_values(["gpu", "dtype", "name"], ignore_index=True)


def with_ranges(table: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Write ranges and sources into a table of coefficients.

    Values are pulled into their ranges; shares by head_dim and the loss by group, which no
    composed step shows, become the middle of theirs.
    """
    keys = ["gpu", "dtype", "name"]
    joined = table[[*keys, "value", "unit"]].merge(found, on=keys, how="left", validate="1:1")
    value = joined["value"].clip(joined["low"], joined["high"])
    is_middle = joined["name"].str.contains("head_dim|group_loss")
    joined["value"] = value.where(~is_middle, joined["middle"])
    renamed = joined.rename(columns={"low": "measured_low", "high": "measured_high"})
    return renamed[[*keys, "value", "unit", "measured_low", "measured_high", "source"]]


def _gemm(directory: Path) -> pd.DataFrame:
    """GEMM kernels of vLLM, and of TensorRT-LLM for weight-only formats on A100."""
    kernels = pd.read_csv(directory / "kernels_gemm_small_m.csv.gz")
    weight_only = kernels["gemm_dtype"].isin(["int8_wo", "int4_wo"])
    on_a100 = (kernels["gpu"] == A100) & (kernels["framework"] == "TRTLLM") & weight_only
    plain = (kernels["framework"] == "VLLM") & kernels["gemm_dtype"].isin(["bfloat16", "fp8"])
    kernels = kernels[(on_a100 | plain) & kernels["gpu"].isin(list(GPU_NAME))].copy()
    kernels["weight_bits"] = kernels["gemm_dtype"].map(WEIGHT_BITS)
    kernels["bytes"] = kernels["n"] * kernels["k"] * kernels["weight_bits"] / 8
    return _named(kernels)


def _attention(directory: Path) -> pd.DataFrame:
    """Decode attention kernels of vLLM that read the whole cache."""
    kernels = pd.read_csv(directory / "kernels_decode_attention.csv.gz", dtype={"flag": str})
    chosen = (kernels["framework"] == "VLLM") & (kernels["window_size"] == 0)
    kernels = kernels[chosen & kernels["gpu"].isin(list(GPU_NAME))].copy()
    kernels["kv_bits"] = kernels["kv_dtype"].map(KV_BITS)
    values = kernels["batch"] * kernels["context_len"] * kernels["num_kv_heads"] * 2
    kernels["bytes"] = values * kernels["head_dim"] * kernels["kv_bits"] / 8
    return _named(kernels)


def _named(kernels: pd.DataFrame) -> pd.DataFrame:
    """Add the world's GPU names, `read_us` at spec bandwidth and the achieved share of it."""
    facts = {gpu.gpu: gpu for gpu in gpus_of_runs()}
    kernels["gpu"] = kernels["gpu"].map(GPU_NAME)
    bandwidth = kernels["gpu"].map({name: gpu.gpu_bandwidth_gbps for name, gpu in facts.items()})
    kernels["tflops"] = kernels["gpu"].map({name: gpu.gpu_tflops for name, gpu in facts.items()})
    kernels["read_us"] = kernels["bytes"] / (bandwidth * 1e3)
    kernels["share"] = kernels["read_us"] / kernels["latency_us"]
    return kernels


def _spread(gpu: str, dtype: str, name: str, values: pd.Series, rule: str) -> Range:
    low, middle, high = values.quantile([0.05, 0.5, 0.95]).clip(lower=0.0)
    of = f"{len(values)} kernels, 5th to 95th percentile"
    return Range(gpu, dtype, name, low, middle, high, f"{KERNELS}, {rule}: {of}")


def _weights(gpu: str, dtype: str, kernels: pd.DataFrame) -> Iterator[Range]:
    few = kernels[kernels["m"] <= 16]
    large = few[few["bytes"] > 150e6]
    rule = "GEMM, matrices over 150 MB, m <= 16, share of spec bandwidth"
    yield _spread(gpu, dtype, "weight_bandwidth_share", large["share"], rule)
    many = kernels[(kernels["m"] == 512) & (kernels["bytes"] > 50e6)]
    doubled = dtype == "w8" and gpu != A100
    operations = 2.0 * many["m"] * many["n"] * many["k"]
    flop_share = operations / (many["latency_us"] * 1e6 * many["tflops"] * (2 if doubled else 1))
    peak = "twice the dense 16-bit peak" if doubled else "the dense 16-bit peak"
    rule = f"GEMM, matrices over 50 MB, m = 512, share of {peak}"
    yield _spread(gpu, dtype, "flop_share", flop_share, rule)
    small = few[few["bytes"] < 60e6]
    beyond = small["latency_us"] - small["read_us"]
    rule = (
        "GEMM, matrices under 60 MB, m <= 16, microseconds beyond reading at spec bandwidth,"
        " kernels faster than that (L2) left out"
    )
    yield _spread(gpu, dtype, "matrix_launch_us", beyond[beyond > 0], rule)


def _powers(directory: Path) -> pd.Series:
    """Powers of the smooth roofline fitted to each set of composed steps in scope."""
    fits = pd.read_csv(directory / "calibration_composed.csv")
    weight_only = fits["w"].isin(["int8_wo", "int4_wo"])
    plain = (fits["fw"] == "VLLM") & fits["w"].isin(["bfloat16", "fp8"])
    on_a100 = (fits["gpu"] == A100) & (fits["fw"] == "TRTLLM") & weight_only
    return fits.loc[(plain | on_a100) & fits["gpu"].isin(list(GPU_NAME)), "p"]


def _blend_power(gpu: str, dtype: str, powers: pd.Series) -> Range:
    low, middle, high = powers.quantile([0.0, 0.5, 1.0])
    rule = f"calibration_composed.csv, least to largest power of {len(powers)} fits in scope"
    source = f"composed steps of {KERNELS}, {rule}, all GPUs together"
    return Range(gpu, dtype, "blend_power", low, middle, high, source)


def _cache(gpu: str, dtype: str, kernels: pd.DataFrame) -> Iterator[Range]:
    usual = kernels[kernels["head_dim"] == 128]
    large = usual[(usual["bytes"] > 500e6) & usual["flag"].isna()]
    rule = "decode attention, KV over 500 MB, head_dim 128, share of spec bandwidth"
    yield _spread(gpu, dtype, "kv_bandwidth_share", large["share"], rule)
    tiny = kernels[kernels["bytes"] < 0.3e6]["latency_us"]
    rule = "decode attention, KV under 0.3 MB, whole latency"
    yield _spread(gpu, dtype, "attention_launch_us", tiny, rule)

    in_flight = usual["batch"] * usual["num_kv_heads"]
    starving = usual[(in_flight <= 16) & (usual["bytes"] > 30e6) & usual["flag"].isna()]
    fed_us = starving["read_us"] / large["share"].median()
    slowdown = (starving["latency_us"] - tiny.median()) / fed_us
    heads = (slowdown - 1) * starving["batch"] * starving["num_kv_heads"]
    rule = (
        "decode attention, batch x KV heads up to 16, KV over 30 MB, head_dim 128, from the"
        " slowdown against KV over 500 MB, median launch apart, floor 0"
    )
    yield _spread(gpu, dtype, "starving_heads", heads, rule)

    setting = ["num_heads", "num_kv_heads", "context_len"]
    short = usual[(usual["context_len"] <= 256) & (usual["bytes"] < 40e6)]
    alone = short[short["batch"] == 1].groupby(setting)["latency_us"].min().rename("alone_us")
    many = short[short["batch"] >= 64].join(alone, on=setting, how="inner")
    extra_ns = 1e3 * (many["latency_us"] - many["alone_us"]) / (many["batch"] * many["num_heads"])
    read_ns = 1e3 * many["read_us"] / (many["batch"] * many["num_heads"])
    from_memory, from_cache = (extra_ns - read_ns).clip(lower=0), extra_ns.clip(lower=0)
    yield Range(
        gpu,
        dtype,
        "work_item_ns",
        float(from_memory.quantile(0.05)),
        float(from_memory.median()),
        float(from_cache.quantile(0.95)),
        f"{KERNELS}, decode attention, 64 and 256 tokens, KV under 40 MB, batch 64 and more against"
        f" batch 1, per sequence and query head: {len(many)} kernels, 5th percentile if KV came"
        " from memory to 95th percentile if it came from L2",
    )
    for head_dim in (64, 256):
        if (kernels["head_dim"] == head_dim).any():
            yield _head_dim_share(gpu, dtype, kernels, head_dim)


def _head_dim_share(gpu: str, dtype: str, kernels: pd.DataFrame, head_dim: int) -> Range:
    """Pairs of kernels that differ in head_dim and context only and read the same bytes."""
    pair = ["num_heads", "num_kv_heads", "batch", "bytes"]
    large = kernels[(kernels["bytes"] > 300e6) & kernels["flag"].isna()]
    share = large.pivot_table("share", index=pair, columns="head_dim", aggfunc="median")
    ratio = (share[head_dim] / share[128]).dropna()
    rule = (
        f"decode attention, head_dim {head_dim} over 128, pairs of the same heads, batch and KV"
        " bytes, over 300 MB"
    )
    return _spread(gpu, dtype, f"head_dim_{head_dim}_share", ratio, rule)


def _group_loss(gpu: str, kernels: pd.DataFrame) -> Range:
    large = kernels[
        (kernels["bytes"] > 500e6)
        & (kernels["head_dim"] == 128)
        & (kernels["kv_bits"] == 16)
        & kernels["flag"].isna()
    ]
    group = large["num_heads"] // large["num_kv_heads"]
    share = large.groupby(group)["share"].median()
    groups = share.index.intersection([2, 4, 8, 16])
    doublings = np.log2(groups.to_numpy(dtype=np.float64))
    loss = 1 - share[groups].to_numpy() / share[1]
    low, high = ((loss / doublings).clip(min=0).min(), (loss / doublings).clip(min=0).max())
    slope = float((loss * doublings).sum() / (doublings**2).sum())
    source = (
        f"{KERNELS}, decode attention, 16-bit KV over 500 MB, head_dim 128: loss of the median"
        f" share per doubling, least to largest over groups of {', '.join(map(str, groups))}"
        " against 1, floor 0; value the slope"
    )
    middle = float(np.clip(slope, low, high))
    return Range(gpu, "any", "group_loss_per_doubling", low, middle, high, source)


def _outside_kernels(gpu: str, composed: pd.DataFrame) -> Iterator[Range]:
    """Elementwise and host time, which no kernel timing holds."""
    rows = composed[composed["gpu"].map(GPU_NAME) == gpu]
    rows = rows[(rows["framework"] == "VLLM") & rows["model"].isin(list(CATALOG_NAME))]
    part = rows.pivot_table("elementwise_ms_modelled", index="model", columns="batch")
    part = part[[1, 32]].dropna()
    n_layers = read_catalog().set_index("model")["n_layers"]
    layers = n_layers[part.index.map(CATALOG_NAME)].to_numpy()
    at_zero = 1e3 * (part[1] - (part[32] - part[1]) / 31) / layers
    source = (
        f"not measured: the modelled elementwise part of composed steps of {KERNELS}, batch 1 and"
        " 32 continued to batch 0, per layer, least to largest over the models"
    )
    low, middle, high = at_zero.quantile([0.0, 0.5, 1.0])
    yield Range(gpu, "any", "elementwise_us_per_layer", low, middle, high, source)
    source = (
        f"not measured: composed steps of {KERNELS} have none; vLLM of 2024 about 1.5 ms"
        " (LLM-Inference-Bench, BSD-3)"
    )
    yield Range(gpu, "any", "host_ms_per_step", 0.0, 0.1, 1.5, source)
    source = (
        "not measured on this GPU: sampler kernel alone 0.16 to 0.31 ms at batch 256; vLLM of 2024"
        " about 0.04 ms a sequence (LLM-Inference-Bench, BSD-3)"
    )
    yield Range(gpu, "any", "host_ms_per_sequence", 0.16 / 256, 0.31 / 256, 0.04, source)


def _argued(found: list[Range]) -> list[Range]:
    """Fill in what nobody measured: an FP8 cache, and other head_dims, on A100."""
    by_key = {(r.gpu, r.dtype, r.name): r for r in found}

    filled = list(found)
    for name in ("kv_bandwidth_share", "attention_launch_us", "starving_heads", "work_item_ns"):
        of_16_bit = by_key[A100, "kv16", name]
        factor, why = 1.0, "range of its 16-bit cache"
        if name in ("kv_bandwidth_share", "attention_launch_us"):
            others = [g.gpu for g in gpus_of_runs() if g.gpu != A100]
            middles = [[by_key[g, kv, name].middle for kv in ("kv8", "kv16")] for g in others]
            factor = float(np.median([of_8_bit / of_16 for of_8_bit, of_16 in middles]))
            why += f" times {factor:.2f}, the median ratio of FP8 to 16-bit on the other GPUs"
        filled.append(
            replace(
                of_16_bit,
                dtype="kv8",
                low=factor * of_16_bit.low,
                middle=factor * of_16_bit.middle,
                high=factor * of_16_bit.high,
                source=NO_FP8_CACHE + why,
            )
        )
    for dtype in ("kv16", "kv8"):
        for head_dim in (64, 256):
            of_l40s = by_key["L40S", dtype, f"head_dim_{head_dim}_share"]
            reason = (
                "not measured: A100-80GB kernels have head_dim 128 only; L40S, which runs the same"
                " FlashAttention-2 family, lends value and range"
            )
            filled.append(replace(of_l40s, gpu=A100, source=reason))
    return filled
