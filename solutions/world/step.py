"""The decode step: weights, attention, elementwise work and host time, without noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from solutions.world.coefficients import Coefficients, load

FloatArray = npt.NDArray[np.float64]

BYTES_PER_GBPS_MS = 1e6  # 1 GB/s moves 1e6 bytes in a millisecond
FLOPS_PER_TFLOPS_MS = 1e9  # 1 TFLOP/s does 1e9 operations in a millisecond
HEAD_BITS = 16  # engines keep the output head in 16 bits whatever the layers are stored in

# Two-byte activations read or written per layer and sequence, fitted to the modelled elementwise
# part of composed decode steps (aiconfigurator-core 0.12.0): within 2.7 % on the four models they
# were fitted to, within 3.5 % on the two held aside (measured.HELD_ASIDE).
HIDDEN_PASSES = 9.8
INTERMEDIATE_PASSES = 3.9
PROJECTION_PASSES = 3.6


@dataclass(frozen=True)
class Matrices:
    """Parameters of a layer's four matrices and of the output head, each of shape (n,)."""

    query_key_value: FloatArray
    attention_output: FloatArray
    mlp_up: FloatArray
    mlp_down: FloatArray
    head: FloatArray


@dataclass(frozen=True)
class StepParts:
    """Milliseconds of one decode step, each of shape (n,); their sum is the step."""

    matrices_ms: FloatArray
    attention_ms: FloatArray
    elementwise_ms: FloatArray
    host_ms: FloatArray

    @property
    def kernels_ms(self) -> FloatArray:
        """Time on the GPU alone, which is what composed measurements hold."""
        return self.matrices_ms + self.attention_ms + self.elementwise_ms

    @property
    def step_ms(self) -> FloatArray:
        """The whole step."""
        return self.kernels_ms + self.host_ms


def matrices_of(runs: pd.DataFrame) -> Matrices:
    """Split each model's parameters into matrices, using the shape columns and params_b only.

    A gated MLP has three matrices of hidden x intermediate, a plain one two: gated is taken
    wherever three of them fit into params_b. What is left outside the layers is embedding and
    head; half of it, one of the two, is read in a step.
    """
    n_layers, hidden = _float(runs, "n_layers"), _float(runs, "hidden_size")
    heads_width = _float(runs, "n_heads") * _float(runs, "head_dim")
    kv_width = _float(runs, "n_kv_heads") * _float(runs, "head_dim")
    query_key_value = hidden * (heads_width + 2 * kv_width)
    attention_output = heads_width * hidden
    mlp_matrix = hidden * _float(runs, "intermediate_size")
    params = _float(runs, "params_b") * 1e9
    outside_if_gated = params - n_layers * (query_key_value + attention_output + 3 * mlp_matrix)
    mlp_up = np.where(outside_if_gated >= 0, 2 * mlp_matrix, mlp_matrix)
    in_layer = query_key_value + attention_output + mlp_up + mlp_matrix
    outside = np.maximum(params - n_layers * in_layer, 0.0)
    return Matrices(query_key_value, attention_output, mlp_up, mlp_matrix, outside / 2)


def padded_batch(batch_size: FloatArray) -> FloatArray:
    """Rows the tensor cores work on: a batch is padded to whole tiles of 16, 64 or 128 rows."""
    tile = np.where(batch_size <= 64, 16.0, np.where(batch_size <= 256, 64.0, 128.0))
    return np.asarray(np.ceil(batch_size / tile) * tile, dtype=np.float64)


def step_parts(runs: pd.DataFrame, coefficients: Coefficients | None = None) -> StepParts:
    """Time the parts of each run's decode step.

    `runs` holds n rows with the columns of the runs table from n_layers to context_len (labels
    are not read, nor is the model's name). `coefficients` defaults to the committed ones.
    """
    chosen = load() if coefficients is None else coefficients
    return StepParts(
        matrices_ms=_matrices_ms(runs, chosen),
        attention_ms=_attention_ms(runs, chosen),
        elementwise_ms=_elementwise_ms(runs, chosen),
        host_ms=_host_ms(runs, chosen),
    )


def step_ms(runs: pd.DataFrame) -> FloatArray:
    """Noise-free decode step of the whole batch, in milliseconds, shape (n,).

    `runs` holds n rows with n_layers, hidden_size, n_heads, n_kv_heads, head_dim,
    intermediate_size, params_b, weight_bits (16, 8, 4), kv_bits (16, 8), gpu (one of the five
    classes), gpu_bandwidth_gbps, gpu_tflops, batch_size and context_len. Non-decreasing in
    batch_size and in context_len.
    """
    return step_parts(runs).step_ms


def _float(runs: pd.DataFrame, column: str) -> FloatArray:
    return runs[column].to_numpy(dtype=np.float64)


def _matrices_ms(runs: pd.DataFrame, chosen: Coefficients) -> FloatArray:
    matrices = matrices_of(runs)
    n_layers = _float(runs, "n_layers")
    in_layers = (
        matrices.query_key_value,
        matrices.attention_output,
        matrices.mlp_up,
        matrices.mlp_down,
    )
    bits = runs["weight_bits"]
    per_layer = sum(
        (matrix_ms(runs, matrix, bits, chosen) for matrix in in_layers),
        start=np.zeros(len(runs)),
    )
    head_bits = pd.Series(HEAD_BITS, index=runs.index)
    return n_layers * per_layer + matrix_ms(runs, matrices.head, head_bits, chosen)


def matrix_ms(
    runs: pd.DataFrame,
    params: FloatArray,
    bits: pd.Series,
    coefficients: Coefficients | None = None,
) -> FloatArray:
    """One matrix times the batch: reading it and computing overlap, but not perfectly.

    `runs` holds n rows with gpu, gpu_bandwidth_gbps, gpu_tflops and batch_size; `params` and
    `bits` the n matrices' parameters and stored bits. Milliseconds, shape (n,).
    """
    chosen = load() if coefficients is None else coefficients
    dtype = "w" + bits.astype(str)
    share = chosen.of_rows(runs["gpu"], dtype, "weight_bandwidth_share")
    flop_share = chosen.of_rows(runs["gpu"], dtype, "flop_share")
    power = chosen.of_rows(runs["gpu"], dtype, "blend_power")
    launch_us = chosen.of_rows(runs["gpu"], dtype, "matrix_launch_us")
    stored_bytes = params * bits.to_numpy(dtype=np.float64) / 8
    read_ms = stored_bytes / (_float(runs, "gpu_bandwidth_gbps") * BYTES_PER_GBPS_MS * share)
    # 8-bit weights compute in FP8 at twice the rate, but on A100 (INT8 weight-only) and for
    # INT4 weights they are widened to 16 bits first.
    doubled = (bits.to_numpy() == 8) & (runs["gpu"].to_numpy() != "A100-80GB")
    peak_tflops = _float(runs, "gpu_tflops") * np.where(doubled, 2.0, 1.0)
    operations = 2 * params * padded_batch(_float(runs, "batch_size"))
    compute_ms = operations / (peak_tflops * FLOPS_PER_TFLOPS_MS * flop_share)
    blended = (read_ms**power + compute_ms**power) ** (1 / power)
    return np.asarray(blended + launch_us / 1000, dtype=np.float64)


def _attention_ms(runs: pd.DataFrame, chosen: Coefficients) -> FloatArray:
    """Every layer reads its cache; few sequences x KV heads starve the GPU of work."""
    dtype = "kv" + runs["kv_bits"].astype(str)

    def coefficient(name: str) -> FloatArray:
        return chosen.of_rows(runs["gpu"], dtype, name)

    batch, heads, kv_heads = (_float(runs, c) for c in ("batch_size", "n_heads", "n_kv_heads"))
    any_dtype = pd.Series("any", index=runs.index)
    group_loss = chosen.of_rows(runs["gpu"], any_dtype, "group_loss_per_doubling")
    grouped = 1 - group_loss * np.log2(heads / kv_heads).clip(0, 4)
    share = coefficient("kv_bandwidth_share") * grouped * _head_dim_share(runs, chosen, dtype)
    values = batch * _float(runs, "context_len") * kv_heads * _float(runs, "head_dim") * 2
    cache_bytes = values * _float(runs, "kv_bits") / 8
    read_ms = cache_bytes / (_float(runs, "gpu_bandwidth_gbps") * BYTES_PER_GBPS_MS * share)
    starved_ms = read_ms * (1 + coefficient("starving_heads") / (batch * kv_heads))
    work_items_ms = coefficient("work_item_ns") * batch * heads / 1e6
    per_layer = coefficient("attention_launch_us") / 1000 + starved_ms + work_items_ms
    return np.asarray(_float(runs, "n_layers") * per_layer, dtype=np.float64)


def _head_dim_share(runs: pd.DataFrame, chosen: Coefficients, dtype: pd.Series) -> FloatArray:
    """Share of KV bandwidth against head_dim 128: given at 64 and 256, log2-linear between."""
    at_64 = chosen.of_rows(runs["gpu"], dtype, "head_dim_64_share")
    at_256 = chosen.of_rows(runs["gpu"], dtype, "head_dim_256_share")
    doublings = np.log2(_float(runs, "head_dim") / 128).clip(-1, 1)
    below = 1 + (at_64 - 1) * -doublings
    above = 1 + (at_256 - 1) * doublings
    return np.asarray(np.where(doublings < 0, below, above), dtype=np.float64)


def _elementwise_ms(runs: pd.DataFrame, chosen: Coefficients) -> FloatArray:
    """Norms, rotations, activations: a fixed time per layer and the activations' traffic."""
    any_dtype = pd.Series("any", index=runs.index)
    fixed_us = chosen.of_rows(runs["gpu"], any_dtype, "elementwise_us_per_layer")
    widths = (_float(runs, "n_heads") + 2 * _float(runs, "n_kv_heads")) * _float(runs, "head_dim")
    values = (
        HIDDEN_PASSES * _float(runs, "hidden_size")
        + INTERMEDIATE_PASSES * _float(runs, "intermediate_size")
        + PROJECTION_PASSES * widths
    )
    traffic_bytes = 2 * _float(runs, "batch_size") * values
    traffic_ms = traffic_bytes / (_float(runs, "gpu_bandwidth_gbps") * BYTES_PER_GBPS_MS)
    return np.asarray(_float(runs, "n_layers") * (fixed_us / 1000 + traffic_ms), dtype=np.float64)


def _host_ms(runs: pd.DataFrame, chosen: Coefficients) -> FloatArray:
    """Scheduling and sampling on the host: per step and per sequence."""
    any_dtype = pd.Series("any", index=runs.index)
    per_step = chosen.of_rows(runs["gpu"], any_dtype, "host_ms_per_step")
    per_sequence = chosen.of_rows(runs["gpu"], any_dtype, "host_ms_per_sequence")
    return np.asarray(per_step + per_sequence * _float(runs, "batch_size"), dtype=np.float64)
