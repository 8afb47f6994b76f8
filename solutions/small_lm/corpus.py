"""The text the small language model learns: the sources of Python's documentation, in two parts.

Debian's package `python3.11-doc` ships the documentation's reStructuredText. Its licence, the
Python Software Foundation License version 2, permits copying, changed or not, and derived works,
as long as its notice is kept: `data/small_lm/LICENSE.txt` keeps it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path("/usr/share/doc/python3.11/html/_sources")
SUFFIX = ".rst.txt"
HELD_OUT_OF = 16  # one file in so many is held out: about 6 %
GENERATED = ("whatsnew/changelog", "contents")  # a list of 20,000 commit messages; a list of links


@dataclass(frozen=True)
class Corpus:
    """Texts by file name: what is learnt and what is held out share no file."""

    train: dict[str, str]
    held_out: dict[str, str]


def read_corpus(sources: Path = SOURCES) -> Corpus:
    """Return the documentation's texts; the hash of a file's name says which part it is in.

    Raises:
        FileNotFoundError: the documentation is not installed; the message says how to get it.
    """
    texts = {
        path.relative_to(sources).as_posix().removesuffix(SUFFIX): path.read_text(encoding="utf-8")
        for path in sorted(sources.rglob(f"*{SUFFIX}"))
    }
    if not texts:
        raise FileNotFoundError(
            f"{sources}: no documentation here; Debian's package python3.11-doc holds it "
            "(apt-get install python3.11-doc), or name its _sources folder"
        )
    wanted = {name: text for name, text in texts.items() if name not in GENERATED}
    held_out = {name for name in wanted if _is_held_out(name)}
    return Corpus(
        {name: text for name, text in wanted.items() if name not in held_out},
        {name: text for name, text in wanted.items() if name in held_out},
    )


def _is_held_out(name: str) -> bool:
    return hashlib.sha256(name.encode()).digest()[0] % HELD_OUT_OF == 0
