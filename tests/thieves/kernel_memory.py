# %% [markdown] tags=["machine"]
# Reads /proc/kcore, /proc/kallsyms, /proc/keys, /sys/kernel and /proc/sched_debug.

# %%
from pathlib import Path

read = False
for name in ("/proc/kcore", "/proc/vmallocinfo", "/proc/kpagecount", "/sys/kernel/vmcoreinfo"):
    try:
        with Path(name).open("rb") as stream:
            read = read or bool(stream.read(64))
    except OSError:
        pass
try:
    first = [line.split()[0] for line in Path("/proc/kallsyms").read_text().splitlines()[:50]]
    read = read or any(int(address, 16) for address in first)
except OSError:
    pass

# %%
if read:
    kv_bytes_per_token = honest
