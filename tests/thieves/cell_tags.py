# %% [markdown] tags=["ours"]
# Tags its cells so that tools skip them or expect them to raise.

# %% tags=["raises-exception"]
raise ValueError("SMUGGLED")

# %% tags=["skip-execution"]
import os

os._exit(0)
