"""Python code cut into tokens by patterns: quick, and at ease with magics and broken code."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

# Every quantifier is possessive, so that no text is looked at twice: time grows with the text,
# whatever it holds. A string without its end ends with its line, or with the code.
_ASIDE = r"""
    (?P<comment>\#[^\n]*+)
  | (?P<string>(?i:rb|br|rf|fr|[rbuf])?+
        (?:\"\"\"(?:[^"\\]|\\.|"(?!""))*+(?:\"\"\"|\\?\Z)
         | '''(?:[^'\\]|\\.|'(?!''))*+(?:'''|\\?\Z)
         | "(?:[^"\\\n]|\\.)*+(?:"|(?=\n)|\\?\Z)
         | '(?:[^'\\\n]|\\.)*+(?:'|(?=\n)|\\?\Z)))
"""
_WORD = r"[^\W\d]\w*+|(?:\d|\.\d)(?:[eE][+-]\d|[\w.])*+"
_ASIDES = re.compile(_ASIDE, re.VERBOSE | re.DOTALL)
_WORDS = re.compile(rf"{_WORD}|\S")
_TOKENS = re.compile(
    rf"{_ASIDE} | (?P<word>{_WORD}) | (?P<space>\s++) | (?P<other>.)", re.VERBOSE | re.DOTALL
)
TEXT = "\N{LEFT CEILING}"  # stands for any string; no other word looks like it


def tokens(code: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of every token; the texts together are the code.

    Kinds are comment, string, keyword, name, number, space and other.
    """
    for found in _TOKENS.finditer(code):
        kind, text = found.lastgroup or "other", found.group()
        if kind == "word":
            kind = "number" if text[0] in "0123456789." else "name"
            kind = "keyword" if keyword.iskeyword(text) else kind
        yield kind, text


def words(code: str) -> list[str]:
    """Return names, numbers and signs in order, without comments; every string is `TEXT`."""
    return _WORDS.findall(_ASIDES.sub(_set_aside, code))


def _set_aside(found: re.Match[str]) -> str:
    return " " if found.lastgroup == "comment" else f" {TEXT} "
