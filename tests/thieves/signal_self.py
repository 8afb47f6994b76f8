# %% [markdown] tags=["bomb"]
# Ends itself by each signal in turn, in the hope that one of them counts as an end in order.

# %%
import os
import signal

for number in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM, signal.SIGKILL):
    os.kill(os.getpid(), number)
