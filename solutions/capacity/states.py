"""How large the state is that a layer of constant memory keeps: one rule for each architecture.

Shapes follow vLLM 0.33.0, model_executor/layers/mamba/mamba_utils.py (MambaStateShapeCalculator):
a convolution of width k keeps k - 1 columns. RWKV and RecurrentGemma, which vLLM does not serve,
follow transformers 5.24.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from solutions.capacity.caches import MODEL_BITS, StateCache, UnsizedState
from solutions.capacity.facts import Fact
from solutions.capacity.heads import WIDTH, head_dim, query_heads
from solutions.capacity.reader import Reader, shown
from solutions.capacity.refusal import ConfigRefusedError

DTYPE_BITS = {"float32": 32, "bfloat16": 16, "float16": 16, "auto": MODEL_BITS}
DTYPE_KEYS = ("mamba_ssm_cache_dtype", "mamba_ssm_dtype")

STATE_SIZE = ("mamba_d_state", "ssm_state_size", "state_size")
CONV = ("mamba_d_conv", "conv_kernel", "conv_dimension")
EXPAND = ("mamba_expand", "expand", "expansion_factor")
GROUPS = ("mamba_n_groups", "mamba_ngroups", "n_groups")
MIXER_HEADS = ("mamba_n_heads", "mamba_num_heads", "n_mamba_heads", "num_heads")
MIXER_HEAD = ("mamba_d_head", "mamba_head_dim", "mamba_headdim")
INNER = ("mamba_d_ssm", "d_inner", "mamba_intermediate")


@dataclass(frozen=True)
class State:
    """A state and what it was read from."""

    cache: StateCache | UnsizedState
    rule: str
    facts: tuple[Fact, ...] = ()


def state_of(reader: Reader) -> State:
    """Return the state of one layer of this architecture; unsized where the file cannot tell."""
    rule = RULES.get(reader.family.state)
    if rule is None:
        reason = f"{reader.family.model_type} has no such layers: the size of a state is nowhere"
        return State(UnsizedState((reader.where("model_type"),), reason), "a state of unknown size")
    try:
        return rule(reader)
    except ConfigRefusedError as error:
        return State(UnsizedState(error.keys, error.reason), "a state of unknown size")


def _engine_bits(reader: Reader, otherwise: int = MODEL_BITS) -> int:
    for key in DTYPE_KEYS:
        named: Any = reader.raw(key)
        if named is None:
            continue
        if not isinstance(named, str) or named not in DTYPE_BITS:
            reader.refuse([key], f"expected one of {', '.join(DTYPE_BITS)}, got {shown(named)}")
        return DTYPE_BITS[named]
    return otherwise


def _width(reader: Reader) -> Fact:
    return reader.need("hidden_size", WIDTH)


def _mamba1(reader: Reader) -> State:
    """Selective state space: a state vector for each inner channel."""
    size = reader.need("state_size", STATE_SIZE)
    conv = reader.need("conv_kernel", CONV)
    keys = ("intermediate_size", "d_inner") if reader.family.state == "mamba1" else ()
    inner = reader.fact("inner_size", keys)  # Falcon-Mamba states an `expand` that it does not use
    if inner is None:
        width, expand = _width(reader), reader.need("expand", EXPAND)
        rule = f"{expand.key} * {width.key}"
        inner = Fact("inner_size", expand.value * width.value, width.key, rule)
    return State(
        StateCache(
            conv_values=inner.value * (conv.value - 1),
            recurrent_values=inner.value * size.value,
            engine_bits=_engine_bits(reader),
        ),
        "Mamba: inner_size * (conv_kernel - 1) inputs and inner_size * state_size of state",
        (inner, size, conv),
    )


def _mamba2(reader: Reader) -> State:
    """Heads of state space; the convolution also runs over the input and output maps."""
    size = reader.need("state_size", STATE_SIZE)
    conv = reader.need("conv_kernel", CONV)
    groups = reader.need("n_groups", GROUPS)
    heads = reader.fact("mixer_heads", MIXER_HEADS)
    own = (*MIXER_HEAD, "head_dim") if reader.family.state == "mamba2_only" else MIXER_HEAD
    dim = None
    if not any(reader.given(key) == "auto" for key in own):
        dim = reader.fact("mixer_head_dim", own)
    inner = reader.fact("inner_size", INNER)
    if inner is None and (heads is None or dim is None):
        width, expand = _width(reader), reader.need("expand", EXPAND)
        inner = Fact(
            "inner_size", width.value * expand.value, width.key, f"{expand.key} * {width.key}"
        )
    else:
        for key in EXPAND:
            reader.given(key)
    if inner is not None:
        known, key = (heads, "mixer_head_dim") if heads is not None else (dim, "mixer_heads")
        if known is None or inner.value % known.value:
            reader.refuse([*MIXER_HEADS[:2], *MIXER_HEAD[:2]], "they do not divide the inner size")
        if heads is not None and dim is not None and heads.value * dim.value != inner.value:
            reader.refuse(
                [f.key.removeprefix(reader.path) for f in (heads, dim, inner)],
                f"{heads.value} heads of {dim.value} are not {inner.value}",
            )
        other = Fact(key, inner.value // known.value, inner.key, f"{inner.key} / {known.key}")
        heads, dim = (heads, dim or other) if heads is not None else (other, dim)
    assert heads is not None
    assert dim is not None
    if heads.value % groups.value:
        reader.refuse(
            [groups.key.removeprefix(reader.path)], "the heads cannot share the groups evenly"
        )
    columns = conv.value - 1
    inner_values = heads.value * dim.value
    return State(
        StateCache(
            conv_values=(inner_values + 2 * groups.value * size.value) * columns,
            recurrent_values=inner_values * size.value,
            engine_bits=_engine_bits(reader),
            n_groups=groups.value,
            group_values=2 * size.value * columns,
            n_heads=heads.value,
        ),
        "Mamba-2: (heads * head_dim + 2 * groups * state_size) * (conv_kernel - 1) inputs and "
        "heads * head_dim * state_size of state",
        (heads, dim, groups, size, conv),
    )


def _gated_delta(reader: Reader) -> State:
    """Gated delta rule (Qwen3-Next): a key-by-value matrix for each value head."""
    names = ("linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads")
    key_heads, key_dim, value_heads = (reader.need(name, [name]) for name in names)
    value_dim, conv = (
        reader.need(name, [name]) for name in ("linear_value_head_dim", "linear_conv_kernel_dim")
    )
    channels = 2 * key_heads.value * key_dim.value + value_heads.value * value_dim.value
    return State(
        StateCache(
            conv_values=channels * (conv.value - 1),
            recurrent_values=value_heads.value * value_dim.value * key_dim.value,
            engine_bits=_engine_bits(reader),
            n_heads=value_heads.value,
        ),
        "gated delta rule: (2 * keys + values) * (conv_kernel - 1) inputs and a matrix of key by "
        "value numbers for each value head",
        (key_heads, key_dim, value_heads, value_dim, conv),
    )


def _kimi_delta(reader: Reader) -> State:
    """Kimi delta attention: as the gated delta rule, keys as wide as values."""
    place = "linear_attn_config"
    if reader.family.state == "bailing_delta":  # as many heads as attention, as its class has it
        heads, dim = query_heads(reader), reader.need("linear_head_dim", ["head_dim"])
        conv = reader.need("conv_kernel", ["short_conv_kernel_size"])
    else:
        heads = reader.need("linear_heads", [f"{place}.num_heads", "linear_num_heads"])
        dim = reader.need("linear_head_dim", [f"{place}.head_dim", "linear_head_dim"])
        conv = reader.need(
            "conv_kernel", [f"{place}.short_conv_kernel_size", "linear_conv_kernel_dim"]
        )
    return State(
        StateCache(
            conv_values=3 * heads.value * dim.value * (conv.value - 1),
            recurrent_values=heads.value * dim.value * dim.value,
            engine_bits=_engine_bits(reader, otherwise=32),
            n_heads=heads.value,
        ),
        "Kimi delta attention: 3 * heads * head_dim * (conv_kernel - 1) inputs and a square matrix "
        "for each head, which vLLM keeps in float32",
        (heads, dim, conv),
    )


def _bailing(reader: Reader) -> State:
    """Ling: Kimi delta attention since 3.0, which states its convolution; before it lightning
    attention, which has none and states how its output is normed."""
    if reader.given("group_norm_size") is None or reader.states("short_conv_kernel_size"):
        return _kimi_delta(reader)
    return _lightning(reader)


def _lightning(reader: Reader) -> State:
    """Lightning attention (MiniMax): a square matrix for each head, no convolution."""
    heads, dim = query_heads(reader), head_dim(reader)
    return State(
        StateCache(0, heads.value * dim.value**2, _engine_bits(reader), n_heads=heads.value),
        "lightning attention: heads * head_dim * head_dim of state",
        (heads, dim),
    )


def _short_conv(reader: Reader) -> State:
    """Short convolution (LFM2): its last inputs and nothing else."""
    length = reader.need("conv_length", ["conv_L_cache"])
    width = reader.fact("conv_dim", ["conv_dim"]) or _width(reader)
    return State(
        StateCache(conv_values=width.value * (length.value - 1), recurrent_values=0),
        "short convolution: width * (conv_L_cache - 1) inputs",
        (width, length),
    )


def _gated_recurrence(reader: Reader) -> State:
    """Real-gated linear recurrence (RecurrentGemma)."""
    width = reader.fact("lru_width", ["lru_width"]) or _width(reader)
    conv = reader.need("conv_kernel", ["conv1d_width"])
    return State(
        StateCache(width.value * (conv.value - 1), width.value, _engine_bits(reader)),
        "gated linear recurrence: lru_width * (conv1d_width - 1) inputs and lru_width of state",
        (width, conv),
    )


def _rwkv(reader: Reader) -> State:
    """RWKV-5 and -6: a square matrix for each head and the last input of both blocks."""
    width = _width(reader)
    size = reader.need("head_size", ["head_size"])
    inner = reader.fact("attention_hidden_size", ["attention_hidden_size", "dim_att"]) or width
    if inner.value % size.value:
        reader.refuse(["head_size"], "it does not divide the width of attention")
    return State(
        StateCache(2 * width.value, inner.value * size.value, n_heads=inner.value // size.value),
        "RWKV: a head_size * head_size matrix for each head and the last input of both blocks",
        (width, inner, size),
    )


def _rwkv4(reader: Reader) -> State:
    """RWKV-4: three running vectors (transformers keeps them in float32) and two last inputs."""
    width = _width(reader)
    inner = reader.fact("attention_hidden_size", ["attention_hidden_size"]) or width
    return State(
        StateCache(2 * width.value, 3 * inner.value, engine_bits=32),
        "RWKV-4: numerator, denominator and maximum, and the last input of both blocks",
        (width, inner),
    )


RULES: dict[str, Callable[[Reader], State]] = {
    "mamba1": _mamba1,
    "jamba": _mamba1,
    "zamba": _mamba1,
    "mamba2": _mamba2,
    "mamba2_only": _mamba2,
    "zamba2": _mamba2,
    "gated_delta": _gated_delta,
    "kimi_delta": _kimi_delta,
    "bailing_delta": _bailing,
    "lightning": _lightning,
    "short_conv": _short_conv,
    "gated_recurrence": _gated_recurrence,
    "rwkv": _rwkv,
    "rwkv4": _rwkv4,
}
"""By the `state` column of model_types.csv."""
