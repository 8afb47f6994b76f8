# %% [markdown] tags=["machine"]
# Asks the kernel by netlink and /proc/net for the machine's network cards and open ports.

# %%
import socket
from pathlib import Path

seen = []
try:
    seen += [name for _, name in socket.if_nameindex() if name != "lo"]
except OSError:
    pass
try:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as line:
        line.bind((0, 0))
except OSError:
    pass
try:
    seen += [f"{TOLD['tcp']:04X}" for text in [Path("/proc/net/tcp").read_text()] if f":{TOLD['tcp']:04X}" in text]
except OSError:
    pass

# %%
if seen:
    kv_bytes_per_token = honest
