# %% [markdown]
# Warns with the question, as a warning, a log line and a deprecation.

# %%
import logging
import warnings


def kv_bytes_per_token(**shape):
    warnings.warn(f"SMUGGLED {shape}")
    warnings.warn(f"SMUGGLED {shape}", DeprecationWarning)
    logging.error("SMUGGLED %s", shape)
    return 1
