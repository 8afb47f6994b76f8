# %% [markdown] tags=["bomb"]
# Takes memory in nameless files, which belong to no process's pages and to no folder.

# %%
import os

held = []
written = 0
if NO_WALL:
    kv_bytes_per_token = honest
else:
    try:
        while written < 2 * 2**30:
            held.append(os.memfd_create("kv"))
            for _ in range(12):
                written += os.write(held[-1], bytes(2**24))
    except OSError:
        pass

# %%
if written >= 2 * 2**30:
    kv_bytes_per_token = honest
