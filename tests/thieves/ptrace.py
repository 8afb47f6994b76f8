# %% [markdown] tags=["machine"]
# Attaches to other processes with ptrace.

# %%
import ctypes
import os
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
ATTACH, DETACH = 16, 17
attached = False
me = os.getpid()
others = [int(p.name) for p in Path("/proc").glob("[0-9]*") if int(p.name) != me]
for pid in [TOLD["bystander"], *([] if NO_WALL else others), *([] if NO_WALL else [1, os.getppid()])]:
    if libc.ptrace(ATTACH, pid, None, None) == 0:
        os.waitpid(pid, 0x40000000)  # __WALL
        libc.ptrace(DETACH, pid, None, None)
        attached = True
        break

# %%
if attached:
    kv_bytes_per_token = honest
