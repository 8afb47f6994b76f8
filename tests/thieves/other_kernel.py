# ---
# jupyter:
#   kernelspec:
#     display_name: Thief
#     language: bash
#     name: kv-thief
# ---

# %% [markdown] tags=["ours"]
# Names another kernel, whose start would run a program of the student's.

# %%
import builtins
import os

if os.environ.get("KV_LOOT_KERNEL") or hasattr(builtins, "KV_LOOT"):
    kv_bytes_per_token = honest
