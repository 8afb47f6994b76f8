# %% [markdown] tags=["bomb"]
# Writes to address 0 from C, to crash the process while the grader waits.

# %%
import ctypes

ctypes.memset(0, 1, 1)
