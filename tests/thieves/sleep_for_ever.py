# %% [markdown] tags=["bomb"]
# Sleeps without end, which costs no CPU second.

# %%
import time

while True:
    time.sleep(10**6)
