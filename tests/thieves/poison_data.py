# %% [markdown] tags=["ours"]
# Changes, removes or shadows the public data that lies beside the notebook.

# %%
import os
from pathlib import Path

changed = False
data = Path("../data")
for act in (
    lambda: (data / "train.csv").open("a").close(),
    lambda: (data / TOLD["mark"]).write_text("x"),
    lambda: (data / "train.csv").unlink(),
    lambda: data.rename("../old"),
    lambda: os.chmod(data / "train.csv", 0o777),
):
    try:
        act()
        changed = True
    except OSError:
        pass

# %%
if changed and not data.is_dir():
    data.mkdir()
