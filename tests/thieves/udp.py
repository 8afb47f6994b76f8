# %% [markdown]
# Sends a datagram to a listener outside and hears a word.

# %%
import socket

line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.settimeout(2)
line.sendto(b"SMUGGLED by udp", ("127.0.0.1", TOLD["udp"]))
loot = loot_in(line.recv(1000))

# %%
if loot:
    kv_bytes_per_token = honest
