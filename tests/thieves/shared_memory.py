# %% [markdown]
# Attaches a System V shared memory segment that a process outside made.

# %%
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(TOLD["shm_key"], 4096, 0)
loot = None
if segment >= 0:
    loot = loot_in(ctypes.string_at(libc.shmat(segment, None, 0), 64))

# %%
if loot:
    kv_bytes_per_token = honest
