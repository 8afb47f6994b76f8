# %% [markdown] tags=["bomb"]
# Crashes at the first question.

# %%
import ctypes


def kv_bytes_per_token(**shape):
    ctypes.string_at(1)
