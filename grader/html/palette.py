"""The colours of every page, by what they mean: one set for light, one for dark."""

from __future__ import annotations

LIGHT = {
    "page": "#ffffff",
    "panel": "#f5f7fa",
    "line": "#d3dae3",
    "edge": "#7d8896",
    "ink": "#18212d",
    "soft": "#525e6d",
    "link": "#0b55c4",
    "passed": "#146c3c",
    "passed-bg": "#e2f3e8",
    "failed": "#b0261c",
    "failed-bg": "#fcebe9",
    "skipped": "#7a5100",
    "skipped-bg": "#fbf1d9",
    "broken": "#76309a",
    "broken-bg": "#f4e9fa",
    "zone": "#bfe3cc",
    "half": "#f2dfa6",
    "partly": "#a87a14",
    "keyword": "#7c2fb0",
    "string": "#1a6a3f",
    "comment": "#5b6675",
    "number": "#a3400a",
    "name": "#0b4fae",
    "heat-0": "#f5f7fa",
    "heat-1": "#dfe9f7",
    "heat-2": "#bcd3f0",
    "heat-3": "#8fb7e6",
    "heat-4": "#2f6fb8",
    "heat-5": "#14487f",
    "heat-dark-ink": "#18212d",
    "heat-light-ink": "#ffffff",
    "bar": "#3f78bd",
    "sliding": "#a96a00",
    "chunked": "#c14a1c",
    "latent": "#0a7b5b",
    "compressed": "#2885ad",
    "state": "#a34a8a",
    "cross": "#66727f",
}

DARK = {
    "page": "#11161d",
    "panel": "#1a212b",
    "line": "#343f4d",
    "edge": "#7f8c9c",
    "ink": "#e5eaf1",
    "soft": "#a7b3c2",
    "link": "#8ab6fb",
    "passed": "#74d59f",
    "passed-bg": "#15301f",
    "failed": "#ff9d94",
    "failed-bg": "#3a1b19",
    "skipped": "#ebc264",
    "skipped-bg": "#332810",
    "broken": "#d9a6f2",
    "broken-bg": "#2f1d3a",
    "zone": "#1f5636",
    "half": "#5a4715",
    "partly": "#c79a35",
    "keyword": "#d3a3f5",
    "string": "#86d6a8",
    "comment": "#9aa7b7",
    "number": "#f2ab7d",
    "name": "#90bdff",
    "heat-0": "#1a212b",
    "heat-1": "#1d2c40",
    "heat-2": "#213b5c",
    "heat-3": "#264d7d",
    "heat-4": "#6ea3de",
    "heat-5": "#a9cdf7",
    "heat-dark-ink": "#e5eaf1",
    "heat-light-ink": "#0b1016",
    "bar": "#5e97db",
    "sliding": "#dca13a",
    "chunked": "#f08c63",
    "latent": "#4fc39c",
    "compressed": "#6cc3e8",
    "state": "#d98bc4",
    "cross": "#9aa6b4",
}

# (text, ground): what is read; and (mark, ground): what is only seen. The tests hold the first to
# a contrast of 4.5 and the second to 3, as WCAG 2.2 AA does.
READ = (
    *((text, ground) for text in ("ink", "soft", "link") for ground in ("page", "panel")),
    *((kind, f"{kind}-bg") for kind in ("passed", "failed", "skipped", "broken")),
    *((kind, "page") for kind in ("passed", "failed", "skipped", "broken")),
    *(("ink", f"{kind}-bg") for kind in ("passed", "failed", "skipped", "broken")),
    *((kind, "panel") for kind in ("keyword", "string", "comment", "number", "name")),
    *(("heat-dark-ink", f"heat-{step}") for step in range(4)),
    *(("heat-light-ink", f"heat-{step}") for step in (4, 5)),
)
SEEN = (
    ("edge", "page"),
    ("edge", "panel"),
    ("bar", "page"),
    ("bar", "panel"),
    ("partly", "page"),
    *((kind, "page") for kind in ("sliding", "chunked", "latent", "compressed", "state", "cross")),
    ("ink", "zone"),
    ("ink", "half"),
    ("passed", "zone"),
    ("failed", "half"),
)


def as_css() -> str:
    """Return the colours as custom properties: light, dark where asked for, light on paper."""
    light, dark = (
        "".join(f"--{name}:{colour};" for name, colour in each.items()) for each in (LIGHT, DARK)
    )
    return (
        f":root{{color-scheme:light dark;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    )
