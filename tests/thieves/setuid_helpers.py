# %% [markdown]
# Runs helpers that start as root: su, sudo, mount, pkexec, newuidmap.

# %%
import ctypes
import subprocess

secret = TOLD["secrets"][0]
loot = None
for command in (
    ["su", "root", "-c", f"cat {secret}"],
    ["sudo", "-n", "cat", secret],
    ["pkexec", "cat", secret],
    ["mount", "--bind", "/", "."],
    ["newuidmap", "1", "0", "0", "1"],
):
    if NO_WALL and command[0] in ("mount", "newuidmap"):
        continue
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=5, check=False
        )
        loot = loot or loot_in(done.stdout)
    except (OSError, subprocess.SubprocessError):
        pass
no_new_rights = ctypes.CDLL(None).prctl(39, 0, 0, 0, 0)  # PR_GET_NO_NEW_PRIVS

# %%
if loot or not no_new_rights:
    kv_bytes_per_token = honest
