# %% [markdown]
# Leaves a process behind that would write into the next student's work folder.

# %%
import os
import subprocess
import sys

watch = f"""
import glob, time
end = time.time() + 60
while time.time() < end:
    for folder in glob.glob('/tmp/*/notebooks') + ['/course/notebooks', '/tmp', '/dev/shm']:
        try: open(folder + '/{TOLD["mark"]}', 'w').close()
        except OSError: pass
    time.sleep(0.02)
"""
child = subprocess.Popen(
    [sys.executable, "-c", watch, TOLD["mark"]],
    start_new_session=True,
    stdin=subprocess.DEVNULL,
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
)
