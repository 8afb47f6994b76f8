"""The page at `/`, and the one that describes the interface: nothing is fetched elsewhere."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from fastapi.openapi.docs import get_swagger_ui_html
from markupsafe import Markup

from grader.html.page import allowed, environment, inline, styled

TEMPLATES = Path(__file__).parent / "templates"
STATIC = "/static"
ICON = "data:,"
_NOWHERE = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def planner_page(notebook: str, catalog: dict[str, Any]) -> tuple[str, str]:
    """Return the page of a notebook's planner, and the policy that lets its script run."""
    style, script = _style(), _script()
    html = (
        environment(TEMPLATES)
        .get_template("planner.html")
        .render(notebook=notebook, catalog=_data(catalog), style=style, script=script, icon=ICON)
    )
    policy = (
        f"default-src 'none'; style-src {allowed(style)}; script-src {allowed(script)}; "
        f"connect-src 'self'; img-src data:; {_NOWHERE}"
    )
    return html, policy


@cache
def docs_page(openapi_url: str) -> tuple[str, str]:
    """Return Swagger's page on the interface, from this server alone, and its policy."""
    response = get_swagger_ui_html(
        openapi_url=openapi_url,
        title="The planner's interface",
        swagger_js_url=f"{STATIC}/swagger-ui-bundle.js",
        swagger_css_url=f"{STATIC}/swagger-ui.css",
        swagger_favicon_url=ICON,
        swagger_ui_parameters={"tryItOutEnabled": True, "defaultModelsExpandDepth": 0},
    )
    html = bytes(response.body).decode("utf-8")
    html = html.replace("<html>", '<html lang="en">', 1)
    inline = " ".join(map(allowed, re.findall(r"<script>(.*?)</script>", html, re.DOTALL)))
    # Swagger writes style attributes; its pictures are in its own files or in the address itself.
    policy = (
        f"default-src 'none'; script-src 'self' {inline}; style-src 'self' 'unsafe-inline'; "
        f"connect-src 'self'; img-src 'self' data:; font-src 'self' data:; {_NOWHERE}"
    )
    return html, policy


def _data(value: object) -> Markup:
    """Return JSON for a script element: nothing in it can end that element."""
    return Markup(json.dumps(value, allow_nan=False).replace("<", "\\u003c"))


def _style() -> Markup:
    return styled((TEMPLATES / "planner.css").read_text(encoding="utf-8"))


def _script() -> Markup:
    pieces = ("pictures.js", "planner.js")
    return inline("".join((TEMPLATES / name).read_text(encoding="utf-8") for name in pieces))
