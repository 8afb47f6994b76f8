# %% [markdown]
# Returns an array of objects that carry code, for a reader that allows pickles.

# %%
import numpy as np

CODE = f"import os; os.environ['KV_POISONED'] = '1'; open({TOLD['mark']!r}, 'w').close()"


class Parcel:
    def __reduce__(self):
        return (exec, (CODE,))


def kv_bytes_for_runs(runs):
    return np.array([Parcel()] * len(runs), dtype=object)
