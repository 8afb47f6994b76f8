# %% [markdown] tags=["ours"]
# Looks, while cells run, for the folder that the questions are laid into.

# %%
from pathlib import Path

if [*Path("..").resolve().rglob("questions*"), *Path("..").resolve().rglob("runs.csv")]:
    kv_bytes_per_token = honest
