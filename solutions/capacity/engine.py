"""What a serving engine sets aside on each GPU for one request: vLLM 0.33.0, by its own rules.

Rules and where they stand in its source (package vllm, version 0.33.0):
- whole blocks, FullAttentionSpec.max_memory_usage_bytes, v1/kv_cache_interface.py;
- a window holds its tokens, what one step adds, and one block more since it may begin in the middle
  of one; blocks that fall out of it are freed: SlidingWindowSpec.max_admission_blocks_per_request;
- a chunk (ChunkedLocalAttentionSpec) holds its tokens and what one step adds;
- max(1, n_kv_heads // tp) heads a GPU, ModelConfig.get_num_kv_heads, config/model.py: heads are
  copied where there are fewer than GPUs, and a latent (MLA) is copied on every one;
- scales of a plain FP8 cache are one number a layer (KVQuantMode.FP8_PER_TENSOR), 0 bytes a token;
  those of `fp8_ds_mla` and of index keys are in the caches' own bytes (mla/flashmla_sparse.py,
  mla/indexer.py: 128 FP8 bytes and 4 of scale);
- states: model_executor/layers/mamba/mamba_utils.py, MambaStateShapeCalculator.
Not modelled: padding between groups of layers whose pages differ in size, and prefix caching's
copies of states.
"""

from __future__ import annotations

from dataclasses import dataclass

from solutions.capacity.caches import (
    MODEL_BITS,
    Cache,
    CompressedCache,
    CrossCache,
    HeadsCache,
    LatentCache,
    StateCache,
    UnsizedState,
    packed,
)
from solutions.capacity.plan import CachePlan
from solutions.capacity.refusal import ConfigRefusedError

VERSION = "vLLM 0.33.0"


@dataclass(frozen=True)
class Engine:
    """How an engine is set up: KV bits, tokens a block, GPUs of a tensor-parallel group, and how
    many tokens of one request a step may add (1 in decode, the chunk of a prefill before it)."""

    kv_bits: int = 16
    block_size: int = 16
    tp: int = 1
    step_tokens: int = 1

    def gpu_bytes(self, plan: CachePlan, context_len: int, encoder_len: int = 0) -> int:
        """Return the bytes that one request holds on one GPU of the group."""
        return sum(self._cache(cache, context_len, encoder_len) for cache in plan.caches)

    def _cache(self, cache: Cache, context_len: int, encoder_len: int) -> int:
        match cache:
            case HeadsCache():
                heads = self._heads(cache.n_kv_heads) * cache.head_bytes(self.kv_bits)
                return self._tokens(cache, context_len) * (heads + cache.index_bytes)
            case LatentCache():
                return self._whole(context_len) * cache.token_bytes(self.kv_bits)
            case CompressedCache():
                raw = self._window_tokens(cache.window, context_len)
                entries = self._whole(-(-context_len // cache.ratio))
                return raw * packed(cache.entry_dim, self.kv_bits) + entries * cache.entry_bytes(
                    self.kv_bits
                )
            case CrossCache():
                heads = self._heads(cache.n_kv_heads)
                return self._whole(encoder_len) * heads * packed(2 * cache.head_dim, self.kv_bits)
            case StateCache():
                return self._state(cache)
            case UnsizedState():
                raise ConfigRefusedError(cache.keys, cache.reason)
        return 0

    def _whole(self, tokens: int) -> int:
        return -(-tokens // self.block_size) * self.block_size

    def _tokens(self, cache: HeadsCache, context_len: int) -> int:
        if cache.window is None:
            return self._whole(context_len)
        if cache.chunked:
            return min(self._whole(context_len), self._whole(cache.window + self.step_tokens))
        return self._window_tokens(cache.window, context_len)

    def _window_tokens(self, window: int, context_len: int) -> int:
        held = self._whole(window - 1 + self.step_tokens) + self.block_size
        return min(self._whole(context_len), held)

    def _heads(self, n_kv_heads: int) -> int:
        if n_kv_heads % self.tp and self.tp % n_kv_heads:
            self._uneven(f"{n_kv_heads:,} KV heads")
        return max(1, n_kv_heads // self.tp)

    def _state(self, cache: StateCache) -> int:
        grouped = cache.n_groups * cache.group_values
        if cache.n_heads % self.tp or (not cache.n_heads and cache.conv_values % self.tp):
            self._uneven(f"a state of {cache.n_heads or cache.conv_values:,} heads or channels")
        if cache.n_groups % self.tp and cache.n_groups > self.tp:
            self._uneven(f"{cache.n_groups:,} groups of heads")
        groups = -(-cache.n_groups // self.tp)
        conv = (cache.conv_values - grouped) // self.tp + groups * cache.group_values
        recurrent = cache.recurrent_values // self.tp
        return packed(conv, MODEL_BITS) + packed(recurrent, cache.engine_bits)

    def _uneven(self, what: str) -> None:
        raise ConfigRefusedError(["tp"], f"{self.tp} GPUs cannot share {what} evenly")
