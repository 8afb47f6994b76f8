"""The KV cache of any released model, from its config.json alone.

    size_cache(config, context_len, *, batch_size=1, kv_bits=16, tp=1, block_size=16,
               encoder_len=0) -> CacheSize     bytes of one request and of the batch
    read_plan(config) -> CachePlan             what each layer keeps, the rule and the keys used
    ConfigRefusedError(ValueError)             `.keys` names what cannot be read, or is missing

`config` is the parsed file. `CacheSize` has kv_bytes, kv_bytes_per_token, state_bytes,
allocated_bytes, layers (counts by kind) and more; `CachePlan.layers` has a `Layer` for each layer,
with its caches, its rule in a sentence and its facts (name, value, key, rule). Nothing is guessed:
what neither the file nor the class of its `model_type` says is refused by the name of its key.
"""

from solutions.capacity.build import read_plan
from solutions.capacity.facts import Fact
from solutions.capacity.plan import CachePlan, Layer
from solutions.capacity.refusal import ConfigRefusedError
from solutions.capacity.size import CacheSize, size_cache

__all__ = [
    "CachePlan",
    "CacheSize",
    "ConfigRefusedError",
    "Fact",
    "Layer",
    "read_plan",
    "size_cache",
]
