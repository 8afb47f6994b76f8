# %% [markdown] tags=["ours"]
# Reports troubles of its own making, with the questions in every field.

# %%
import sys


def speak(self, names, call):
    trouble = sys.modules["grader.trouble"].Trouble
    seen = f"SMUGGLED {call}"
    return trouble("SMUGGLED {function} {error}", seen, seen)


for name, module in list(sys.modules.items()):
    if hasattr(module, "Desk") and hasattr(module.Desk, "ask"):
        module.Desk.ask = speak
