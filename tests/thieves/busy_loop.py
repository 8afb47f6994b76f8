# %% [markdown] tags=["bomb"]
# Computes without end while it is asked.

# %%
def kv_bytes_per_token(**shape):
    while True:
        pass
