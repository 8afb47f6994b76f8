"""What one layer keeps for one request, and its bytes: one small class for each mechanism.

Every class answers the same questions (the protocol `Cache`): `kv_bytes(context_len, kv_bits)`, the
bytes that grow with the context, one request, one copy; `growth(context_len, kv_bits)`, what the
next token adds to them; `held_tokens`, how many tokens' rows an engine must keep. State that does
not grow is `StateCache`'s alone, what an encoder leaves behind `CrossCache`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

MODEL_BITS = 16  # the model's own dtype, bf16 or fp16: what caches outside --kv-bits are kept in
FP8_LATENT_EXTRA = (4, 128)  # a scale of 4 bytes for each 128 latent values (fp8_ds_mla)


def packed(values: int, bits: int) -> int:
    """Return the bytes of `values` numbers of `bits` each, packed, rounded up."""
    return -(-values * bits // 8)


class Cache(Protocol):
    """What every mechanism answers."""

    @property
    def kind(self) -> str:
        """Name the mechanism, as the counts by kind do."""

    def kv_bytes(self, context_len: int, kv_bits: int) -> int:
        """Return the bytes kept for a context of that many tokens."""

    def growth(self, context_len: int, kv_bits: int) -> float:
        """Return the bytes that one more token adds."""


@dataclass(frozen=True)
class HeadsCache:
    """Keys and values by head: full attention, or the last `window` tokens of it.

    `chunked`: the window is a chunk that starts anew (Llama 4), no sliding one. `index_values`:
    numbers of a sparse attention's index key beside them, in the model's dtype (MiniMax-M3).
    """

    n_kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    chunked: bool = False
    index_values: int = 0

    @property
    def kind(self) -> str:
        """Full, sliding or chunked."""
        if self.window is None:
            return "full"
        return "chunked" if self.chunked else "sliding"

    def head_bytes(self, kv_bits: int) -> int:
        """Return the bytes of one token in one KV head."""
        return packed(self.key_dim + self.value_dim, kv_bits)

    def token_bytes(self, kv_bits: int) -> int:
        """Return the bytes of one token."""
        return self.n_kv_heads * self.head_bytes(kv_bits) + self.index_bytes

    @property
    def index_bytes(self) -> int:
        """Return the bytes of one token's index key."""
        return packed(self.index_values, MODEL_BITS)

    def held_tokens(self, context_len: int) -> int:
        """Return how many tokens are kept."""
        return context_len if self.window is None else min(context_len, self.window)

    def kv_bytes(self, context_len: int, kv_bits: int) -> int:
        """Return the bytes kept for a context of that many tokens."""
        return self.held_tokens(context_len) * self.token_bytes(kv_bits)

    def growth(self, context_len: int, kv_bits: int) -> int:
        """Return the bytes that one more token adds."""
        return self.kv_bytes(context_len + 1, kv_bits) - self.kv_bytes(context_len, kv_bits)


@dataclass(frozen=True)
class LatentCache:
    """MLA: one latent and one rotary key a token for all heads, and perhaps an indexer's key.

    `index_dim` is the width of the index key of DeepSeek's sparse attention; engines keep it as
    FP8 with a scale of 4 bytes for each 128 numbers, whatever the cache's dtype is. With an
    indexer, an FP8 cache is `fp8_ds_mla`: the latent in FP8, 4 bytes of scale for each 128 of it,
    the rotary key in 16 bits (656 bytes for 512 + 64).
    """

    latent_dim: int
    rope_dim: int
    index_dim: int = 0
    sparse: bool = False

    kind = "latent"

    @property
    def index_bytes(self) -> int:
        """Return the bytes of one token's index key."""
        scale, group = FP8_LATENT_EXTRA
        return self.index_dim + scale * -(-self.index_dim // group)

    def token_bytes(self, kv_bits: int) -> int:
        """Return the bytes of one token."""
        if self.sparse and kv_bits == 8:
            scale, group = FP8_LATENT_EXTRA
            rope = packed(self.rope_dim, MODEL_BITS)
            return self.latent_dim + scale * -(-self.latent_dim // group) + rope + self.index_bytes
        return packed(self.latent_dim + self.rope_dim, kv_bits) + self.index_bytes

    def held_tokens(self, context_len: int) -> int:
        """Return how many tokens are kept."""
        return context_len

    def kv_bytes(self, context_len: int, kv_bits: int) -> int:
        """Return the bytes kept for a context of that many tokens."""
        return context_len * self.token_bytes(kv_bits)

    def growth(self, context_len: int, kv_bits: int) -> int:  # noqa: ARG002 the protocol's
        """Return the bytes that one more token adds."""
        return self.token_bytes(kv_bits)


@dataclass(frozen=True)
class CompressedCache:
    """DeepSeek-V4: a window of raw entries, and one entry for each `ratio` tokens of the context.

    An entry is one vector of `entry_dim` that serves as key and value. Where `index_dim` is not 0,
    each compressed entry has an index key beside it (kept in the model's dtype here; vLLM 0.33
    packs both differently, which no published measurement confirms yet).
    """

    entry_dim: int
    window: int
    ratio: int
    index_dim: int = 0

    kind = "compressed"

    def entry_bytes(self, kv_bits: int) -> int:
        """Return the bytes of one compressed entry."""
        return packed(self.entry_dim, kv_bits) + packed(self.index_dim, MODEL_BITS)

    def kv_bytes(self, context_len: int, kv_bits: int) -> int:
        """Return the bytes kept for a context of that many tokens."""
        raw = min(context_len, self.window) * packed(self.entry_dim, kv_bits)
        return raw + context_len // self.ratio * self.entry_bytes(kv_bits)

    def growth(self, context_len: int, kv_bits: int) -> float:
        """Return the bytes that one more token adds on average: an entry comes each `ratio`."""
        raw = packed(self.entry_dim, kv_bits) if context_len < self.window else 0
        return raw + self.entry_bytes(kv_bits) / self.ratio


class Constant:
    """What does not grow with the context."""

    def kv_bytes(self, context_len: int, kv_bits: int) -> int:  # noqa: ARG002 the protocol's
        """Return 0: nothing grows."""
        return 0

    def growth(self, context_len: int, kv_bits: int) -> int:  # noqa: ARG002 the protocol's
        """Return 0: nothing grows."""
        return 0


@dataclass(frozen=True)
class StateCache(Constant):
    """A state of constant size: linear attention, state space, short convolution.

    `conv_values`, in the model's dtype, is the tail of the inputs that a convolution still needs
    (k - 1 columns); `recurrent_values` is the state itself. `engine_bits` is the width in which
    vLLM keeps the latter by default for this architecture and config. Tensor parallelism shares out
    `n_heads` (0: any split will do). `group_values` of `conv_values` belong to each of `n_groups`
    groups of heads; a GPU has at least one group, so groups are copied where there are fewer.
    """

    conv_values: int
    recurrent_values: int
    engine_bits: int = MODEL_BITS
    n_heads: int = 0
    n_groups: int = 0
    group_values: int = 0

    kind = "state"

    def state_bytes(self, recurrent_bits: int = MODEL_BITS) -> int:
        """Return the bytes, with the recurrent part in `recurrent_bits`."""
        conv = packed(self.conv_values, MODEL_BITS)
        return conv + packed(self.recurrent_values, recurrent_bits)


@dataclass(frozen=True)
class UnsizedState(Constant):
    """A state whose size the file does not tell; `keys` would. The growing caches are sized all
    the same, and whoever asks for the state is refused."""

    keys: tuple[str, ...]
    reason: str

    kind = "state"


@dataclass(frozen=True)
class CrossCache(Constant):
    """Cross attention: keys and values of the encoder's tokens (image, audio, source text)."""

    n_kv_heads: int
    head_dim: int

    kind = "cross"

    def encoder_bytes(self, encoder_len: int, kv_bits: int) -> int:
        """Return the bytes for an encoder of that many tokens."""
        return encoder_len * self.n_kv_heads * packed(2 * self.head_dim, kv_bits)


@dataclass(frozen=True)
class NoCache(Constant):
    """Nothing of its own: a block without attention, or one that reads another layer's cache."""

    kind: str  # "none" or "shared"
