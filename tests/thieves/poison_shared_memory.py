# %% [markdown]
# Leaves a file for the next student in /dev/shm, and a named semaphore.

# %%
import multiprocessing.shared_memory as shared

open("/dev/shm/" + TOLD["mark"], "w").close()
