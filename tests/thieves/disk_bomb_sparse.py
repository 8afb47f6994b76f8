# %% [markdown] tags=["bomb"]
# Makes files that claim a terabyte each, and holds deleted ones open.

# %%
import os

claimed = 0
if NO_WALL:
    kv_bytes_per_token = honest
else:
    for number in range(64):
        try:
            stream = os.open(f"{TOLD['mark']}-{number}", os.O_RDWR | os.O_CREAT)
            os.unlink(f"{TOLD['mark']}-{number}")
            os.posix_fallocate(stream, 0, 2**30)
            claimed += 1
        except OSError:
            pass

# %%
if claimed >= 32:
    kv_bytes_per_token = honest
