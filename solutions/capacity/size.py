"""One question answered: a config, a context and how it is served, in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from solutions.capacity.build import read_plan
from solutions.capacity.engine import VERSION, Engine
from solutions.capacity.plan import CachePlan
from solutions.capacity.reader import shown
from solutions.capacity.refusal import ConfigRefusedError

KV_BITS = (16, 8, 4)
MOST_TOKENS = 2**40
MOST_GPUS = 2**16


@dataclass(frozen=True)
class CacheSize:
    """The bytes of one request at `context_len` tokens, and of a batch of such requests.

    `kv_bytes` is what an engine stores, before whole blocks and copies on several GPUs;
    `kv_bytes_per_token` what the next token adds; `state_bytes` constant state, all in 16 bits
    (`state_bytes_fp32`: its recurrent part in float32; `state_bytes_engine`: as vLLM keeps it by
    default); `cross_bytes` what an encoder of `encoder_len` tokens leaves; `allocated_bytes` what
    the engine sets aside, blocks, states and copies on all `tp` GPUs together. `layers` counts the
    mechanisms by kind.
    """

    plan: CachePlan
    engine: Engine
    context_len: int
    batch_size: int
    encoder_len: int
    kv_bytes: int
    kv_bytes_per_token: float
    state_bytes: int
    state_bytes_fp32: int
    state_bytes_engine: int
    cross_bytes: int
    allocated_bytes_per_gpu: int
    layers: Mapping[str, int]

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know beside the figures: of the config, and of how it is served."""
        queries, tp = self.plan.n_query_heads, self.engine.tp
        if queries is None or queries % tp == 0:
            return self.plan.notes
        # ModelConfig.verify_with_parallel_config, config/model.py
        told = f"{VERSION} does not start {queries:,} query heads on {tp:,} GPUs: no even share"
        return (*self.plan.notes, told)

    @property
    def allocated_bytes(self) -> int:
        """One request, whole blocks, on all GPUs of the group together."""
        return self.allocated_bytes_per_gpu * self.engine.tp

    @property
    def batch_kv_bytes(self) -> int:
        """`kv_bytes` of the whole batch."""
        return self.kv_bytes * self.batch_size

    @property
    def batch_allocated_bytes(self) -> int:
        """`allocated_bytes` of the whole batch."""
        return self.allocated_bytes * self.batch_size


def size_cache(
    config: Mapping[str, Any] | CachePlan,
    context_len: int,
    *,
    batch_size: int = 1,
    kv_bits: int = 16,
    tp: int = 1,
    block_size: int = 16,
    encoder_len: int = 0,
) -> CacheSize:
    """Size the cache of a config (or of a plan that was read before).

    ConfigRefusedError, a ValueError, names the key of a config that cannot be sized, or the
    argument that cannot be meant.
    """
    plan = config if isinstance(config, CachePlan) else read_plan(config)
    _asked("context_len", context_len, 0, MOST_TOKENS)
    _asked("encoder_len", encoder_len, 0, MOST_TOKENS)
    _asked("batch_size", batch_size, 1, MOST_TOKENS)
    _asked("tp", tp, 1, MOST_GPUS)
    _asked("block_size", block_size, 1, MOST_GPUS)
    if isinstance(kv_bits, bool) or kv_bits not in KV_BITS:
        raise ConfigRefusedError(["kv_bits"], f"expected 16, 8 or 4, got {shown(kv_bits)}")
    if encoder_len and "cross" not in plan.counts:
        raise ConfigRefusedError(
            ["encoder_len"], f"{plan.model_type} has no cross attention that would keep them"
        )
    engine = Engine(kv_bits=kv_bits, block_size=block_size, tp=tp)
    return CacheSize(
        plan=plan,
        engine=engine,
        context_len=context_len,
        batch_size=batch_size,
        encoder_len=encoder_len,
        kv_bytes=plan.kv_bytes(context_len, kv_bits),
        kv_bytes_per_token=plan.kv_bytes_per_token(context_len, kv_bits),
        state_bytes=plan.state_bytes(),
        state_bytes_fp32=plan.state_bytes(32),
        state_bytes_engine=plan.engine_state_bytes(),
        cross_bytes=plan.encoder_bytes(encoder_len, kv_bits),
        allocated_bytes_per_gpu=engine.gpu_bytes(plan, context_len, encoder_len),
        layers=MappingProxyType(plan.counts),
    )


def _asked(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigRefusedError(
            [name], f"expected a whole number from {least:,} to {most:,}, got {shown(value)}"
        )
