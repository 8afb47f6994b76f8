# %% [markdown] tags=["bomb"]
# Returns a text of half a gigabyte, and raises one of forty million characters.

# %%
text = "num_hidden_layers " * 2**21
turns = iter(["9" * 2**29])


def kv_bytes_per_token(**shape):
    return next(turns)


def kv_bytes_from_config(**config):
    raise ValueError(text)
