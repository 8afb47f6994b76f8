# %% [markdown]
# Puts the question into names: of an exception's class, of a returned value's class, of dict keys.

# %%
def kv_bytes_per_token(**shape):
    seen = f"SMUGGLED {shape}"
    raise type(seen, (Exception,), {})()


def kv_bytes_for_runs(runs):
    seen = "SMUGGLED" + runs.iloc[0].to_json()
    return type(seen, (), {})()


def kv_bytes_from_config(**config):
    return {f"SMUGGLED{config}": 1}
