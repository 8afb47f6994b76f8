# %% [markdown]
# Signals a process outside by its number, and counts the numbers that exist outside.

# %%
import os

try:
    os.kill(TOLD["bystander"], 0)
    command = open(f"/proc/{TOLD['bystander']}/cmdline", "rb").read()
except OSError:
    command = b""

# %%
if loot_in(command):
    kv_bytes_per_token = honest
