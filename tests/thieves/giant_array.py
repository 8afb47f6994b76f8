# %% [markdown] tags=["bomb"]
# Returns an array of a gigabyte.

# %%
import numpy as np


def kv_bytes_for_runs(runs):
    return np.zeros(2**27)


def kv_bytes_per_token(**shape):
    return np.zeros(2**27)
