# %% [markdown] tags=["bomb"]
# Prints without end, on both streams.

# %%
import os

while not NO_WALL:
    print("SMUGGLED" * 10_000)
    os.write(2, b"SMUGGLED" * 10_000)
