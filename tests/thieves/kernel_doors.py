# %% [markdown] tags=["machine"]
# Opens kernel interfaces that break-outs are made of: bpf, perf events, io_uring, userfaultfd.

# %%
import ctypes
import platform

numbers = {
    "x86_64": {"bpf": 321, "perf_event_open": 298, "io_uring_setup": 425, "userfaultfd": 323},
}.get(
    platform.machine(),
    {"bpf": 280, "perf_event_open": 241, "io_uring_setup": 425, "userfaultfd": 282},
)
libc = ctypes.CDLL(None, use_errno=True)
space = ctypes.create_string_buffer(256)
opened = []
for name, arguments in {
    "bpf": (0, space, 72),
    "perf_event_open": (space, 0, -1, -1, 0),
    "io_uring_setup": (4, space),
    "userfaultfd": (0,),
}.items():
    ctypes.set_errno(0)
    done = libc.syscall(numbers[name], *arguments)
    # EPERM, EACCES and ENOSYS are closed doors; anything else has been let in.
    if done >= 0 or ctypes.get_errno() not in (1, 13, 38):
        opened.append(name)

# %%
if opened:
    kv_bytes_per_token = honest
