# ---
# jupyter:
#   kernelspec:
#     display_name: Thief
#     language: python
#     name: kv-thief
# ---

# %% [markdown] tags=["ours"]
# Names a kernel of its own, which lies in the hand-in and starts by leaving a file.

# %%
import os
from pathlib import Path

if os.environ.get("KV_LOOT_KERNEL") or Path(TOLD["mark"]).exists():
    kv_bytes_per_token = honest
