# %% [markdown] tags=["bomb"]
# Leaves a process behind by forking twice into a session of its own.

# %%
import os
import sys

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        environment = {**os.environ}
        environment.pop("KV_CAPACITY_ROOM", None)
        sleep = "import time; time.sleep(120)"
        os.execve(sys.executable, [sys.executable, "-c", sleep, TOLD["mark"]], environment)
    os._exit(0)
