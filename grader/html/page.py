"""One self-contained page: a template of ours, filled with text that stays text."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from grader.html import palette
from grader.html.visible import breakable, finalize, shorten, ticked

TEMPLATES = Path(__file__).parent / "templates"


def fill(template: str, templates: Path = TEMPLATES, own_css: str = "", **values: object) -> str:
    """Return the page: the only style in it is ours by hash, and nothing is fetched or run.

    A template of another folder can extend those here; `own_css` follows the shared style.
    """
    style = _style(own_css)
    found = environment(templates).get_template(template)
    return found.render(style=style, policy=_policy(style), **values)


def part(template: str, **values: object) -> str:
    """Return HTML to stand in another page, as a notebook's output does: it brings its own style.

    The light palette is there as `light`.
    """
    return environment().get_template(template).render(light=palette.LIGHT, **values)


def get_ready(template: str) -> None:
    """Read a template ahead of its first use."""
    environment().get_template(template)


@cache
def environment(templates: Path = TEMPLATES) -> Environment:
    """Return what fills templates of a folder and ours: text stays text, nothing is missing."""
    made = Environment(
        loader=FileSystemLoader([templates, TEMPLATES], encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["shorten"] = shorten
    made.filters["ticked"] = ticked
    made.filters["breakable"] = breakable
    return made


@cache
def _style(own_css: str) -> Markup:
    css = (TEMPLATES / "style.css").read_text(encoding="utf-8") + own_css
    # A comment's end, a quote or a bracket of CSS needs no escape in <style>; only its end does.
    assert "</" not in css
    return Markup(palette.as_css() + css)


@cache
def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
