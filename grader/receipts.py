"""Signed receipts: what a student's hand-ins came to, so that nobody can change it unseen later.

A receipt is JSON: a `body`, the public key, and an Ed25519 signature (RFC 8032) of the body in
canonical form (keys sorted, no spaces). Ed25519 signs without chance, so the same body and key give
the same receipt.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from grader import __version__
from grader.classroom import Graded
from grader.errors import BadInputError

SCHEMA = 1
LIBRARIES = ("numpy", "pandas", "scikit-learn", "lightgbm", "ipython")  # that answers rest on


@dataclass(frozen=True)
class Issuer:
    """What all receipts of one class share: the key, and what was graded with."""

    key: Ed25519PrivateKey
    split_id: str
    split_commitment: str  # SHA-256 of the split's MANIFEST, which names every file's hash
    walled: bool

    def receipt(self, student: str, graded: Sequence[Graded]) -> str:
        """Return the receipt of one student's hand-ins as JSON text."""
        body = {
            "schema": SCHEMA,
            "student": student,
            "split_id": self.split_id,
            "split_commitment": self.split_commitment,
            "room": self.walled,
            "versions": versions(),
            "hand_ins": [_told(one) for one in graded],
        }
        signature = self.key.sign(canonical(body))
        content = {
            "body": body,
            "public_key": public_text(self.key.public_key()),
            "signature": base64.b64encode(signature).decode(),
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _told(one: Graded) -> dict[str, Any]:
    return {
        "milestone": one.hand_in.slug,
        "notebook_sha256": one.report.notebook_sha256,
        "points": one.report.points,
        "points_max": one.report.points_max,
        "bonus": one.report.bonus,
        "bonus_max": one.report.bonus_max,
        "reason": str(one.reason),
        "checks": {check.name: str(check.outcome) for check in one.report.checks},
    }


def versions() -> dict[str, str]:
    """Return the versions of what an answer may hang on."""
    found = {name: version(name) for name in LIBRARIES}
    return {"grader": __version__, "python": platform.python_version(), **found}


def canonical(body: Mapping[str, Any]) -> bytes:
    """Return the bytes of a body that are signed."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8")


def public_text(key: Ed25519PublicKey) -> str:
    """Return a public key as text."""
    return base64.b64encode(key.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def fingerprint(public_key: str) -> str:
    """Return what people compare: the first 16 hex digits of a public key's SHA-256."""
    return hashlib.sha256(base64.b64decode(public_key)).hexdigest()[:16]


def signing_key(path: Path) -> Ed25519PrivateKey:
    """Return the key in a file that only its owner can read; make one where there is none.

    Raises:
        BadInputError: the file is no Ed25519 key, or cannot be read or made.
    """
    try:
        if path.exists():
            key = load_pem_private_key(path.read_bytes(), password=None)
            if not isinstance(key, Ed25519PrivateKey):
                raise ValueError("another kind of key")
            return key
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(pem)
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read or made: {error.strerror}") from None
    except (ValueError, TypeError):
        raise BadInputError(
            f"{path}: is no Ed25519 private key in PEM; name another file with --key"
        ) from None
    return key


def public_pem(key: Ed25519PrivateKey) -> str:
    """Return the public half of a key as the file that students are given."""
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem.decode("ascii")


@dataclass(frozen=True)
class Verified:
    """What a receipt that holds says."""

    body: Mapping[str, Any]
    fingerprint: str
    known_key: bool  # whether the key is the one that was asked for


def verify(receipt: Path, key: Path | None = None) -> Verified:
    """Check a receipt's signature, against the course's public key where it is given.

    Raises:
        BadInputError: it is no receipt, was changed, or was signed by another key.
    """
    try:
        content = json.loads(receipt.read_text(encoding="utf-8"))
        body, public, signature = content["body"], content["public_key"], content["signature"]
        raw = base64.b64decode(public, validate=True)
        opened = Ed25519PublicKey.from_public_bytes(raw)
        signed = base64.b64decode(signature, validate=True)
        whole = canonical(body)
        if body["schema"] != SCHEMA:
            raise BadInputError(
                f"{receipt}: has schema {body['schema']!r}, this grader reads {SCHEMA}; "
                "verify it with the version that issued it"
            )
    except OSError as error:
        raise BadInputError(f"{receipt}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadInputError(
            f"{receipt}: is not a receipt of `grader class`; ask for it again"
        ) from None
    if key is not None and public != public_text(_public(key)):
        raise BadInputError(
            f"{receipt}: was signed by another key ({fingerprint(public)}) than {key}; "
            "it is not from this course"
        )
    try:
        opened.verify(signed, whole)
    except InvalidSignature:
        raise BadInputError(
            f"{receipt}: was changed after it was signed; nothing in it counts"
        ) from None
    return Verified(body, fingerprint(public), key is not None)


def _public(path: Path) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(path.read_bytes())
        if not isinstance(key, Ed25519PublicKey):
            raise ValueError("another kind of key")
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, TypeError):
        raise BadInputError(f"{path}: is no Ed25519 public key in PEM") from None
    return key
