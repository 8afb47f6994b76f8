"""Text of strangers as a page shows it: what cannot be seen, or moves what can, is spelled out."""

from __future__ import annotations

import re
import unicodedata

from markupsafe import Markup, escape

MAX_MARKS = 6  # more marks on one letter than any script needs: they would paint over other lines
JOINERS = "\u200c\u200d"  # Persian, Indic scripts and emoji are written with them
_PLAIN = re.compile(r"[\n\t\x20-\x7e]*\Z")
_PILE = re.compile(rf"(?<=\ue000{{{MAX_MARKS}}})\ue000+")


def visible(text: str) -> str:
    """Return text that no control, bidi override, zero width or surrogate can disguise.

    Each of those becomes its code point in brackets: "⟨U+202E⟩".
    """
    if _PLAIN.match(text):
        return text
    shown = "".join(map(_shown, text))
    return _without_piles(shown)


def _shown(char: str) -> str:
    if char in "\n\t" or char in JOINERS:
        return char
    kind = unicodedata.category(char)
    if kind in ("Cc", "Cf", "Cs", "Zl", "Zp") or _is_no_character(ord(char)):
        return f"⟨U+{ord(char):04X}⟩"
    return char


def _is_no_character(code: int) -> bool:
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def _without_piles(text: str) -> str:
    """Cut piles of combining marks: a hundred on one letter cover the lines above and below."""
    marks = "".join("\ue000" if unicodedata.combining(char) else "." for char in text)
    if "\ue000" * (MAX_MARKS + 1) not in marks:
        return text
    cut, start = [], 0
    for pile in _PILE.finditer(marks):
        cut += [text[start : pile.start()], f"⟨{len(pile.group())} more marks⟩"]
        start = pile.end()
    return "".join([*cut, text[start:]])


def shorten(text: str, limit: int) -> str:
    """Return the text, or its start with a note of how much is left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]} ⟨{len(text) - limit:,} more characters⟩"


def ticked(text: str) -> Markup:
    """Return text whose parts between backticks are code, as the course writes its sentences."""
    parts = visible(text).split("`")
    if len(parts) % 2 == 0:  # a backtick without its other one is only that
        parts[-2:] = ["`".join(parts[-2:])]
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part)
        for i, part in enumerate(parts)
    )


def breakable(text: Markup) -> Markup:
    """Return text that may go on in a new line after an opening bracket, where a call has one."""
    return text.replace("(", Markup("(<wbr>"))


def finalize(value: object) -> object:
    """Return what a template writes: text made visible, unless it is markup of ours."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
