# %% [markdown]
# Hides text in errors that the parser makes of a cell before it runs.

# %%
compile("SMUGGLED = = 1", "SMUGGLED", "exec")

# %%
eval("SMUGGLED")
