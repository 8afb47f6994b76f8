# %% [markdown] tags=["ours"]
# Sends headers of its own shape in the grader's frames: wrong types, deep lists, two answers at once.

# %%
import sys

turn = 0


def odd(pipe, header, payload=b""):
    global turn
    turn += 1
    kinds = (
        {"trouble": 5},
        {"trouble": ["raised", {"SMUGGLED": 1}, ["SMUGGLED"]]},
        {"trouble": ["raised", "SMUGGLED"]},
        {"form": ["json"]},
        {"error": {"SMUGGLED": 1}},
        {"form": "json", "trouble": None},
    )
    return real(pipe, kinds[turn % len(kinds)], b"1")


for name, module in list(sys.modules.items()):
    if name.startswith(("grader", "__main__")) and hasattr(module, "write_frame"):
        real = module.write_frame
        module.write_frame = odd


def kv_bytes_per_token(**shape):
    return 1
