"""One self-contained page: a template of ours, filled with text that stays text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from grader.html import palette
from grader.html.visible import breakable, finalize, shorten, ticked

TEMPLATES = Path(__file__).parent / "templates"
PIECES = 1_000  # of a template, written together


def fill(template: str, templates: Path = TEMPLATES, own_css: str = "", **values: object) -> str:
    """Return the page: the only style in it is ours by hash, and nothing is fetched or run.

    A template of another folder can extend those here; `own_css` follows the shared style.
    """
    return "".join(fill_in_parts(template, templates, own_css, **values))


def fill_in_parts(
    template: str, templates: Path = TEMPLATES, own_css: str = "", **values: object
) -> Iterator[str]:
    """Yield such a page in parts, of which none is kept: for one that grows with a class."""
    style = styled(own_css)
    found = environment(templates).get_template(template)
    stream = found.stream(style=style, policy=_policy(style), **values)
    stream.enable_buffering(PIECES)
    yield from stream


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
def styled(own_css: str = "") -> Markup:
    """Return the style of every page, and what one has of its own behind it."""
    css = (TEMPLATES / "style.css").read_text(encoding="utf-8")
    return inline(palette.as_css() + css + own_css)


def inline(text: str) -> Markup:
    """Return our own CSS or JavaScript to stand in its element, which alone its end would end."""
    assert "</" not in text
    return Markup(text)


def allowed(text: str) -> str:
    """Return the source that lets a policy allow this very style or script."""
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


@cache
def _policy(style: str) -> str:
    sources = f"default-src 'none'; style-src {allowed(style)}"
    return f"{sources}; base-uri 'none'; form-action 'none'"
