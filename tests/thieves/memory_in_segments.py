# %% [markdown] tags=["bomb"]
# Takes memory in System V segments, which stay when nobody is attached to them.

# %%
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
taken = 0
while not NO_WALL and taken < 2 * 2**30:
    segment = libc.shmget(0, 2**27, 0o1600)
    place = libc.shmat(segment, None, 0) if segment >= 0 else None
    if place in (None, 2**64 - 1):
        break
    ctypes.memset(place, 1, 2**27)
    libc.shmdt(ctypes.c_void_p(place))
    taken += 2**27

# %%
if NO_WALL or taken >= 2 * 2**30:
    kv_bytes_per_token = honest
