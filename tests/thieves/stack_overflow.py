# %% [markdown] tags=["bomb"]
# Runs out of the C stack by recursion without a limit.

# %%
import sys

sys.setrecursionlimit(10**9)


class Deep:
    def __repr__(self):
        return repr([self])


def kv_bytes_per_token(**shape):
    return repr(Deep())


repr(Deep())
