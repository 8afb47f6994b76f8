# %% [markdown] tags=["machine"]
# Copies memory out of other processes with process_vm_readv.

# %%
import ctypes
import os
from pathlib import Path


class Span(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("size", ctypes.c_size_t)]


libc = ctypes.CDLL(None, use_errno=True)
libc.process_vm_readv.restype = ctypes.c_ssize_t
room = ctypes.create_string_buffer(2**16)
read = 0
others = [int(p.name) for p in Path("/proc").glob("[0-9]*") if int(p.name) != os.getpid()]
for pid in {TOLD["bystander"], 1, os.getppid(), *others} - {0, os.getpid()}:
    for start in TOLD["addresses"]:
        here = Span(ctypes.addressof(room), 2**12)
        there = Span(start, 2**12)
        read = max(
            read, libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        )

# %%
if read > 0:
    kv_bytes_per_token = honest
