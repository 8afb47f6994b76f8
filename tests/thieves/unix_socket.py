# %% [markdown]
# Calls a listener on a unix socket by its path.

# %%
import socket

line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
line.settimeout(2)
line.connect(TOLD["unix"])
line.sendall(b"SMUGGLED by a unix socket")
loot = loot_in(line.recv(1000))

# %%
if loot:
    kv_bytes_per_token = honest
