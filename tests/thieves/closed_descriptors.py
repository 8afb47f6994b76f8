# %% [markdown]
# Closes and replaces every descriptor, standard streams included.

# %%
import os

nothing = os.open(os.devnull, os.O_RDWR)
for fd in range(256):
    if fd != nothing:
        try:
            os.dup2(nothing, fd)
        except OSError:
            pass
os._exit(0)
