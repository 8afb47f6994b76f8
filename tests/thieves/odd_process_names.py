# %% [markdown] tags=["ours"]
# Gives its processes names that break the reading of /proc: brackets, line ends, no text at all.

# %%
import ctypes
import os
import time

libc = ctypes.CDLL(None)
for name in (b") R 1 1 1", b"a\nPPid: 0\n", b"\xff\xfe\x80", b"", b"((((((((", b"zombie"):
    if os.fork() == 0:
        libc.prctl(15, name, 0, 0, 0)  # PR_SET_NAME
        if name != b"zombie":
            time.sleep(5)
        os._exit(0)
libc.prctl(15, b") Z 0 \n\xff (", 0, 0, 0)
time.sleep(1)


def kv_bytes_per_token(**shape):
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    return 1
