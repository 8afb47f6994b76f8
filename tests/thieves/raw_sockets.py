# %% [markdown] tags=["machine"]
# Opens packet and raw sockets, to hear what others send and to write frames of its own.

# %%
import socket

heard = False
for make in (
    lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)),
    lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP),
):
    try:
        make().close()
        heard = True
    except OSError:
        pass

# %%
if heard:
    kv_bytes_per_token = honest
