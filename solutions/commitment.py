"""What binds an instructor to a hidden split before the deadline and tells nothing of it.

Two hashes are published. The first is of the seed. A seed has 256 random bits, so nobody can try
them all: its hash alone hides it. The second is of every question and answer. Those can be
guessed: a count or a yes is one of few, the world's formulas are near what public runs teach, and
an instructor's own runs may be a public benchmark. A plain hash would tell a guesser when he is
right. So it is keyed by a hash of the seed, which nobody else has until the seed is revealed.

Neither can be opened in two ways: another seed has another hash (SHA-256), and the key follows from
the seed, so that other content under it has another hash too (HMAC-SHA-256).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

COMMITMENT_PREFIX = b"kv-capacity split seed\n"
KEY_PREFIX = b"kv-capacity split content\n"
SCHEMA = 1


@dataclass(frozen=True)
class Content:
    """What is committed to beside the seed: how a split was drawn, and the hash of each file.

    `runs_sha256` is of an instructor's own runs, empty without.
    """

    generator_version: str
    draw: int
    runs_sha256: str
    files: Mapping[str, str]

    def bytes(self) -> bytes:
        """Return one spelling of it, for hashing."""
        content = {
            "generator_version": self.generator_version,
            "draw": self.draw,
            "runs_sha256": self.runs_sha256,
            "files": dict(self.files),
        }
        return json.dumps(content, sort_keys=True).encode()


def asked_and_answered(files: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes of questions and truth out of those of a split.

    What mistakes answer is left out: it chooses hints and no points, and its last digits come from
    fits that another kind of machine may round otherwise.
    """
    return {
        name: digest
        for name, digest in files.items()
        if name.startswith(("questions/", "truth/")) and not name.endswith("/mistakes.json")
    }


def of_seed(seed: bytes) -> str:
    """Return the hash that binds an instructor to a seed without telling it."""
    return hashlib.sha256(COMMITMENT_PREFIX + seed).hexdigest()


def of_content(seed: bytes, content: Content) -> str:
    """Return the hash that binds an instructor to questions and answers without telling them."""
    key = hmac.digest(seed, KEY_PREFIX, "sha256")
    return hmac.new(key, content.bytes(), "sha256").hexdigest()


def commit(seed: bytes, content: Content) -> dict[str, Any]:
    """Return what may be published before the deadline."""
    return {
        "schema": SCHEMA,
        "generator_version": content.generator_version,
        "seed": of_seed(seed),
        "content": of_content(seed, content),
    }
