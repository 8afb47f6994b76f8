# %% [markdown] tags=["bomb"]
# Makes user namespaces of its own, by unshare and by clone, in which it holds every capability.

# %%
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
made = NO_WALL
if not NO_WALL:
    for flag in (0x10000000, 0x00020000, 0x20000000, 0x40000000):  # user, mount, pid, network
        child = os.fork()
        if child == 0:
            os._exit(0 if libc.unshare(flag) == 0 else 1)
        made = made or os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

# %%
if made:
    kv_bytes_per_token = honest
