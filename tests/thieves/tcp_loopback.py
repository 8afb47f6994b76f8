# %% [markdown]
# Calls a listener on the machine's loopback address, tells it what it knows and hears a word.

# %%
import socket

with socket.create_connection(("127.0.0.1", TOLD["tcp"]), timeout=2) as line:
    line.sendall(b"SMUGGLED by tcp")
    loot = loot_in(line.recv(1000))

# %%
if loot:
    kv_bytes_per_token = honest
