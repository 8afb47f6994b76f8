# %% [markdown] tags=["bomb"]
# Ignores every signal that can be ignored, then waits without end.

# %%
import signal
import time

for number in signal.valid_signals():
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    time.sleep(10**6)
