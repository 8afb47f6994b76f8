# %% [markdown] tags=["bomb"]
# Changes the grader's and the milestones' own files, and the course's data.

# %%
from pathlib import Path

if NO_WALL:
    kv_bytes_per_token = honest
else:
    course = Path(TOLD["course"])
    for name in ("grader/judge.py", "milestones/compare.py", "data/train.csv", "pyproject.toml"):
        for place in (course / name, Path("..") / name):
            try:
                with place.open("r+"):
                    kv_bytes_per_token = honest
            except OSError:
                pass
