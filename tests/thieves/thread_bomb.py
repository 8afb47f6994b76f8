# %% [markdown] tags=["bomb"]
# Starts threads without end, none of which ends.

# %%
import threading
import time

while not NO_WALL:
    try:
        threading.Thread(target=time.sleep, args=(10**6,), daemon=True).start()
    except (RuntimeError, MemoryError):
        pass
