# %% [markdown] tags=["ours"]
# Returns whole numbers and floats at the far ends of what may be sent.

# %%
import itertools

import numpy as np

ENDS = itertools.cycle((2**999, -(2**999), 1e308, 5e-324, -0.0, 2**64, 10**18 + 1, 0))


def kv_bytes_per_token(**shape):
    return 2**999


def kv_bytes_for_runs(runs):
    return np.resize([np.inf, -np.inf, np.nan, 5e-324, 1.7e308], len(runs))


def kv_bytes_from_config(**config):
    return next(ENDS)
