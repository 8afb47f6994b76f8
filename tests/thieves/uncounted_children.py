# %% [markdown] tags=["bomb"]
# Computes in short-lived children that nobody waits for, whose CPU seconds no parent is told.

# %%
import os
import signal
import time

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while not NO_WALL:
    if os.fork() == 0:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass
        os._exit(0)
    time.sleep(0.02)
