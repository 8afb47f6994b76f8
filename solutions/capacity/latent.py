"""Latent attention (MLA): what is kept is one latent and one rotary key, not heads."""

from __future__ import annotations

from dataclasses import dataclass

from solutions.capacity.caches import LatentCache
from solutions.capacity.facts import Fact
from solutions.capacity.plans import trimmed
from solutions.capacity.reader import Reader, shown

UNUSED = ("num_key_value_heads", "head_dim", "v_head_dim", "qk_nope_head_dim", "qk_head_dim")
"""Keys of the heads that a latent stands in for: read, and of no effect on the cache."""
INDEXERS = ("indexer_types", "index_topk_pattern", "index_topk_freq", "index_skip_topk_offset")


@dataclass(frozen=True)
class Latent:
    """The widths of a latent cache, and which layers have an index key of their own."""

    latent_dim: Fact
    rope_dim: Fact
    index_dim: Fact | None
    indexed: tuple[bool, ...]

    def cache(self, index: int) -> LatentCache:
        """Return what layer `index` keeps."""
        own = self.index_dim is not None and self.indexed[index]
        return LatentCache(
            latent_dim=self.latent_dim.value,
            rope_dim=self.rope_dim.value,
            index_dim=self.index_dim.value if own and self.index_dim else 0,
            sparse=self.index_dim is not None,
        )

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Return what it was read from."""
        both = (self.latent_dim, self.rope_dim)
        return both if self.index_dim is None else (*both, self.index_dim)


def latent_of(reader: Reader, count: int) -> Latent | None:
    """Return the latent of a model with MLA; None where it has none or it is switched off."""
    for key in ("kv_lora_rank", "qk_rope_head_dim", "use_mla"):
        reader.given(key)
    if reader.flag("use_mla") is False:
        return None
    if reader.raw("kv_lora_rank") in (None, 0):
        if reader.defaults("kv_lora_rank"):
            reader.refuse(["kv_lora_rank"], "this architecture has a latent, unless use_mla is off")
        return None
    latent = reader.need("latent_dim", ["kv_lora_rank"])
    rope = reader.need("rope_dim", ["qk_rope_head_dim"], least=0)
    for key in UNUSED:
        reader.given(key)
    index, indexed = None, (False,) * count
    if reader.raw("index_topk") is not None:
        index = reader.need("index_dim", ["index_head_dim"])
        indexed = _indexed(reader, count)
    return Latent(latent, rope, index, indexed)


def _indexed(reader: Reader, count: int) -> tuple[bool, ...]:
    """Tell which layers compute an index key; the others reuse that of a layer before."""
    for key in INDEXERS:
        reader.given(key)
    words = {"full": True, "shared": False, "F": True, "S": False}
    for key in INDEXERS[:2]:
        entries = reader.raw(key)
        if entries in (None, [], ""):
            continue
        if not isinstance(entries, (list, str)):
            reader.refuse([key], f"expected a list or letters, got {shown(entries)}")
        for entry in entries:
            if not isinstance(entry, str) or entry not in words:
                reader.refuse([key], f"unknown kind of indexer {shown(entry)}")
        return tuple(words[entry] for entry in trimmed(reader, key, list(entries)))
    every = reader.whole("index_topk_freq", least=0) or 1
    offset = reader.whole("index_skip_topk_offset", least=0)
    offset = 2 if offset is None else offset  # transformers 5.24.0, configuration_glm_moe_dsa.py
    return tuple(max(i - offset + 1, 0) % every == 0 for i in range(count))
