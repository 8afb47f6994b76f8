"""A split: the directory of questions and truth that a notebook is graded against."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from grader.errors import BadInputError
from grader.trouble import printable
from milestones.spec import Files

SCHEMA = 1


@dataclass(frozen=True)
class Split:
    """A split whose files have been checked against its MANIFEST."""

    folder: Path
    split_id: str
    public: bool

    @property
    def questions(self) -> Files:
        """What the student's code may see."""
        return Files(self.folder / "questions")

    @property
    def truth(self) -> Files:
        """Labels and expected answers, for the judge alone."""
        return Files(self.folder / "truth")

    def overlay(self, slug: str) -> Path | None:
        """Return the files that stand in for public data in this milestone, where there are any."""
        folder = self.folder / "questions" / slug / "data"
        return folder if folder.is_dir() else None


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def file_hashes(folder: Path, skip: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the SHA-256 of every file below `folder`, by relative path.

    Left out are the manifest itself, the folders named in `skip`, and what a file manager or an
    editor drops (names that start with a dot, `~` backups and locks).
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        dropped = any(part.startswith((".", "~")) for part in relative.parts)
        ours = relative.parts[0] not in (*skip, "MANIFEST.json")
        if path.is_file() and ours and not dropped:
            found[relative.as_posix()] = sha256_of(path)
    return found


def read_manifest(folder: Path, skip: tuple[str, ...] = ()) -> dict[str, object]:
    """Read the MANIFEST.json of a data folder and check every file it lists, and no others.

    `skip` names folders inside that have a manifest of their own.

    Raises:
        BadInputError: the folder is missing, has no manifest, or differs from it.
    """
    path = folder / "MANIFEST.json"
    if not folder.is_dir():
        raise BadInputError(f"{folder}: there is no such directory")
    if not path.exists():
        raise BadInputError(f"{folder}: has no MANIFEST.json, so it is not a split")
    try:
        if not path.is_file():  # reading a pipe or a device may never end
            raise ValueError("not a file")
        manifest = json.loads(path.read_text(encoding="utf-8"))
        listed, schema = manifest["files"], manifest["schema"]
        if not isinstance(listed, dict):
            raise TypeError("not hashes by name")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise BadInputError(f"{path}: cannot be read as a manifest; make the split again") from None
    if type(schema) is not int or schema != SCHEMA:
        raise BadInputError(
            f"{path}: has schema {printable(repr(schema))[:40]}, this grader reads {SCHEMA}; "
            "make the split again with this version, or install the version that made it"
        )
    try:
        found = file_hashes(folder, skip)
    except OSError as error:
        where = printable(str(error.filename or folder))
        raise BadInputError(f"{where}: cannot be read: {error.strerror}") from None
    for name in sorted(listed.keys() | found.keys()):
        if listed.get(name) != found.get(name):
            what = (
                "is missing"
                if name not in found
                else "is not in the manifest"
                if name not in listed
                else "has changed since the manifest was written"
            )
            raise BadInputError(
                f"{folder}/{printable(name)[:200]}: {what}; "
                "restore the folder (git checkout, or unpack it again)"
            )
    assert isinstance(manifest, dict)
    return manifest


def open_split(folder: Path) -> Split:
    """Open a split after checking every one of its files.

    Raises:
        BadInputError: it is no split, or a file was changed, added or lost.
    """
    manifest = read_manifest(folder)
    for part in ("questions", "truth"):
        if not (folder / part).is_dir():
            raise BadInputError(f"{folder}: has no {part}/, so it is not a split")
    split_id = manifest.get("split_id")
    if not isinstance(split_id, str) or not split_id or printable(split_id) != split_id:
        raise BadInputError(f"{folder}: its MANIFEST.json has no split_id; make the split again")
    return Split(folder, split_id, manifest.get("kind") == "public")
