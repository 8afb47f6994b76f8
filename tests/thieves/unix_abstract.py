# %% [markdown]
# Calls a listener on an abstract unix socket, which no folder can hide.

# %%
import socket

line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
line.settimeout(2)
line.connect("\0" + TOLD["abstract"])
line.sendall(b"SMUGGLED by an abstract socket")
loot = loot_in(line.recv(1000))

# %%
if loot:
    kv_bytes_per_token = honest
