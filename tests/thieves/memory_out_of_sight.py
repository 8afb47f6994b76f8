# %% [markdown] tags=["bomb"]
# Takes shared memory and gives up its pages, which stay taken and count for no process.

# %%
import mmap

taken = 0
held = []
while not NO_WALL and taken < 2 * 2**30:
    try:
        block = mmap.mmap(-1, 2**28)  # shared and nameless
        block.write(bytes(2**28))
    except (OSError, MemoryError, ValueError):
        break
    block.madvise(mmap.MADV_DONTNEED)
    held.append(block)
    taken += 2**28

# %%
if NO_WALL or taken >= 2 * 2**30:
    kv_bytes_per_token = honest
