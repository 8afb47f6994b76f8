"""What a class handed in: one folder a student, one notebook a milestone, nothing else is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.errors import BadInputError


@dataclass(frozen=True)
class HandIn:
    """One student's notebook for one milestone; `fault` says why its file is not read."""

    student: str
    slug: str
    path: Path
    fault: str | None = None
    missing: bool = False


def find_hand_ins(folder: Path, slugs: Sequence[str]) -> list[HandIn]:
    """Return a hand-in for every student and milestone, sorted, those not handed in included.

    Only `<folder>/<student>/<slug>.ipynb` is looked at. A link is not followed: it could name any
    file of this machine. A folder whose name starts with a dot is a student's only if a notebook
    lies in it.

    Raises:
        BadInputError: there is no such folder, or no student's folder in it.
    """
    if not folder.is_dir():
        raise BadInputError(f"{folder}: there is no such folder of hand-ins")
    names = tuple(f"{slug}.ipynb" for slug in slugs)
    students = sorted(
        entry
        for entry in folder.iterdir()
        if _is_folder(entry) and (not entry.name.startswith(".") or _holds_any(entry, names))
    )
    if not students:
        raise BadInputError(
            f"{folder}: holds no folder; hand-ins lie at {folder.name}/<student>/<milestone>.ipynb"
        )
    return [_hand_in(student, slug) for student in students for slug in slugs]


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)


def _holds_any(folder: Path, names: Iterable[str]) -> bool:
    return any(os.path.lexists(folder / name) for name in names)


def _hand_in(student: Path, slug: str) -> HandIn:
    path = student / f"{slug}.ipynb"
    name = student.name.encode("utf-8", "replace").decode("utf-8")  # a name may be no UTF-8
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return HandIn(name, slug, path, missing=True)
    if stat.S_ISLNK(kind):
        return HandIn(name, slug, path, fault=f"{slug}.ipynb is a link, not a file; hand in a file")
    return HandIn(name, slug, path)
