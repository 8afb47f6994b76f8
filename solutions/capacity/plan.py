"""What each layer of a model keeps: the architecture's view, before any engine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from solutions.capacity.caches import (
    MODEL_BITS,
    Cache,
    CrossCache,
    StateCache,
    UnsizedState,
)
from solutions.capacity.facts import Fact
from solutions.capacity.refusal import ConfigRefusedError


@dataclass(frozen=True)
class Layer:
    """One layer: its caches (two where attention and a state stand side by side), why, and whence.

    `index` counts from 0; an encoder-decoder's decoder layer has self and cross attention.
    """

    index: int
    caches: tuple[Cache, ...]
    rule: str
    facts: tuple[Fact, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """Name its mechanisms."""
        return tuple(cache.kind for cache in self.caches)


@dataclass(frozen=True)
class CachePlan:
    """What a model keeps for each request. All bytes are of one request, one copy."""

    model_type: str
    layers: tuple[Layer, ...]
    rule: str
    """Which layer is of which kind, in a sentence."""
    notes: tuple[str, ...] = ()
    n_query_heads: int | None = None
    """As the file tells them; None where it names none, or names them by layer."""

    @cached_property
    def counts(self) -> dict[str, int]:
        """Count the mechanisms by kind."""
        counts: dict[str, int] = {}
        for kind in (kind for layer in self.layers for kind in layer.kinds):
            counts[kind] = counts.get(kind, 0) + 1
        return counts

    @property
    def caches(self) -> Iterable[Cache]:
        """Give every cache of every layer."""
        return (cache for layer in self.layers for cache in layer.caches)

    def kv_bytes(self, context_len: int, kv_bits: int = 16) -> int:
        """Return the bytes of the caches that grow, at that context."""
        return sum(cache.kv_bytes(context_len, kv_bits) for cache in self.caches)

    def kv_bytes_per_token(self, context_len: int, kv_bits: int = 16) -> float:
        """Return the bytes that one more token adds at that context: a whole number but for
        compressed caches, whose average it is."""
        grown = sum(cache.growth(context_len, kv_bits) for cache in self.caches)
        return int(grown) if grown == int(grown) else grown

    def state_bytes(self, recurrent_bits: int = MODEL_BITS) -> int:
        """Return the bytes of constant state, convolutions in 16 bits; ConfigRefusedError where
        the file does not tell its size."""
        return sum(cache.state_bytes(recurrent_bits) for cache in self._states())

    def engine_state_bytes(self) -> int:
        """Return the bytes of constant state in the widths that vLLM takes by default."""
        return sum(cache.state_bytes(cache.engine_bits) for cache in self._states())

    def encoder_bytes(self, encoder_len: int, kv_bits: int = 16) -> int:
        """Return the bytes of cross attention for an encoder of that many tokens."""
        return sum(
            cache.encoder_bytes(encoder_len, kv_bits)
            for cache in self.caches
            if isinstance(cache, CrossCache)
        )

    def _states(self) -> Iterable[StateCache]:
        for cache in self.caches:
            if isinstance(cache, UnsizedState):
                raise ConfigRefusedError(cache.keys, cache.reason)
            if isinstance(cache, StateCache):
                yield cache
