# %% [markdown] tags=["bomb"]
# Returns a list that names one long list thirty thousand times, which is thirty million values.

# %%
row = [1.0] * 1000
turns = iter([[row] * 30_000])


def kv_bytes_per_token(**shape):
    return next(turns)


def kv_bytes_for_runs(runs):
    return [row] * 30_000
