# %% [markdown] tags=["bomb"]
# Mounts a file system over its folder, and binds the root of the machine into it.

# %%
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
mounted = NO_WALL
if not NO_WALL:
    os.makedirs("here", exist_ok=True)
    for source, kind, flags in ((b"tmpfs", b"tmpfs", 0), (b"/", b"", 4096 | 16384), (b"proc", b"proc", 0)):
        mounted = mounted or libc.mount(source, b"here", kind, flags, None) == 0
    mounted = mounted or libc.mount(None, b"/usr", None, 32 | 4096, None) == 0  # remount to write

# %%
if mounted:
    kv_bytes_per_token = honest
