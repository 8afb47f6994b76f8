# %% [markdown]
# Displays a script, an iframe and a widget meant for whoever opens the feedback page.

# %%
from IPython.display import HTML, Javascript, display

display(HTML("<script>alert('SMUGGLED')</script>"), Javascript("alert('SMUGGLED')"))
display({"text/html": "<iframe src='https://example.test/SMUGGLED'>"}, raw=True)
print("<b>SMUGGLED</b>]]><x onclick='SMUGGLED'>")

# %%
def kv_bytes_per_token(**shape):
    raise ValueError("]]></failure><testcase name='SMUGGLED'/>")
