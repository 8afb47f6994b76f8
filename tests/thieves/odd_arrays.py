# %% [markdown] tags=["ours"]
# Sends arrays whose header tells of more numbers than there are, or of shapes without an end.

# %%
import io
import itertools
import sys

import numpy as np


def npy(shape):
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + bytes(64)


SHAPES = itertools.cycle(((2**60,), (0, 2**62), (2**31, 2**31), (-1,), (10**9,), ()))
for module in list(sys.modules.values()):
    if hasattr(module, "pack") and hasattr(module, "Desk"):
        module.pack = lambda *a: ("npy", npy(next(SHAPES)))


def kv_bytes_for_runs(runs):
    return 1
