# %% [markdown] tags=["ours"]
# Returns and raises text that no UTF-8 file can hold, to break the writing of the report.

# %%
raise ValueError("\ud800 SMUGGLED")

# %%
def kv_bytes_per_token(**shape):
    raise type("\ud800SMUGGLED", (Exception,), {})("\udfff\x00\x1b[2J")


def kv_bytes_from_config(**config):
    raise ValueError("\ud800 num_hidden_layers \ufffe")
