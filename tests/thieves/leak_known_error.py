# %% [markdown] tags=["ours"]
# Chooses among Python's own exceptions by what the question says.

# %%
import builtins


def kv_bytes_from_config(config, **rest):
    raise type("SMUGGLED", (type("ValueError", (ValueError,), {}),), {})(f"SMUGGLED {config}")
