# %% [markdown] tags=["machine"]
# Calls the machine by its own address in the network, not by the loopback one.

# %%
import socket

with socket.create_connection((TOLD["address"], TOLD["tcp"]), timeout=2) as line:
    line.sendall(b"SMUGGLED by the network")
    loot = loot_in(line.recv(1000))

# %%
if loot:
    kv_bytes_per_token = honest
