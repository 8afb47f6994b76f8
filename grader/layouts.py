"""Folders of hand-ins as learning platforms leave them, read as students and their notebooks.

- plain: `<student>/<milestone>.ipynb`, or anywhere below, or in `<student>.zip`
- Canvas, "Download submissions": `name_LATE_<user>_<submission>_<file>`, in one folder or zip
- Moodle, "Download all submissions": folders `Name_<id>_assignsubmission_file[_]`, or files that
  begin so
- Gradescope, "Export submissions": folders `submission_<id>` and a `submission_metadata.yml`
- nbgrader: `submitted/<student>/<assignment>/`
- GitHub Classroom, `gh classroom clone student-repos`: clones named `<assignment>-<user>`

The forms are those of the platforms' documentation and of their users' tools; docs/class.md says
which were tried on real exports.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from grader.archives import Member, is_archive, members, moment, stem_of_archive
from grader.errors import BadInputError
from grader.notebook import read_file

CANVAS = re.compile(r"^(?P<name>[^_]+)_(?:LATE_)?(?P<user>\d+)_(?P<attempt>\d+)_(?P<file>.+)$")
MOODLE = re.compile(r"^(?P<name>.+)_(?P<user>\d+)_assignsubmission_[a-z]+_?(?P<file>.*)$")
METADATA = "submission_metadata.yml"
# a browser's second download, a copy of a file manager, and Canvas's later attempts
COPY = r"(?:[ _-]*(?:copy|kopie))?[ _-]*(?:\((?P<copy>\d{1,4})\)|-?(?P<later>\d{1,4}))?"
NBGRADER = frozenset({"autograded", "feedback", "release", "source", "submitted"})
SKIPPED = frozenset({"__MACOSX", ".ipynb_checkpoints", "site-packages", "node_modules"})
MAX_DEPTH = 6  # below a student's folder: a clone inside a folder inside an archive's folder


@dataclass(frozen=True)
class Student:
    """What one student handed in; `fault` says what of it could not be looked into.

    `unnamed` are the notebooks whose names are those of no milestone: nobody grades them.
    """

    name: str
    notebooks: Mapping[str, Member]
    fault: str | None = None
    unnamed: tuple[str, ...] = ()


def students(submissions: Path, slugs: Sequence[str]) -> list[Student]:
    """Return every student with a notebook for each milestone that one was found for, by name.

    Raises:
        BadInputError: there is no such folder or archive, or no hand-in in it.
    """
    if not submissions.exists():
        raise BadInputError(f"{submissions}: there is no such folder of hand-ins")
    if not submissions.is_dir() and not submissions.name.lower().endswith(".zip"):
        raise BadInputError(f"{submissions}: is neither a folder nor a zip archive of hand-ins")
    by_name: dict[str, list[Member]] = {}
    try:
        for name, member in _assigned(submissions):
            by_name.setdefault(readable(name), []).extend(() if member is None else (member,))
    except OSError as error:
        raise BadInputError(f"{error.filename}: cannot be read: {error.strerror}") from None
    if not by_name:
        raise BadInputError(
            f"{submissions}: holds no hand-ins; they lie at "
            f"{submissions.name}/<student>/<milestone>.ipynb, or as Canvas, Moodle, Gradescope, "
            "nbgrader or GitHub Classroom export them"
        )
    return [_student(name, by_name[name], slugs) for name in sorted(by_name)]


def readable(name: str) -> str:
    """Return a name that every report can hold, and that no other name becomes.

    What is no text, or no character to be seen, is told by its bytes: %0A.
    """
    return "".join(c if c.isprintable() and c != "%" else _by_its_bytes(c) for c in name)


def _by_its_bytes(character: str) -> str:
    try:
        raw = os.fsencode(character)  # a byte of a name that is no text stands for itself
    except UnicodeEncodeError:
        raw = character.encode("utf-8", "surrogatepass")
    return "".join(f"%{byte:02X}" for byte in raw)


# ---------------------------------------------------------------- whose a file is


def _assigned(submissions: Path) -> Iterator[tuple[str, Member | None]]:
    """Yield each file with its student; None for a student's folder, which may be empty."""
    if submissions.is_file():
        for member in members(submissions):
            yield from _by_path(member)
        return
    root = submissions / "submitted" if _is_nbgraders(submissions) else submissions
    names = _gradescope_names(root / METADATA)
    entries = sorted(root.iterdir())
    prefix = _common_prefix(entries)
    for entry in entries:
        kind = entry.lstat().st_mode
        if stat.S_ISDIR(kind) and not _is_hidden_from(entry):
            owners = names.get(entry.name) or [_owner(entry.name.removeprefix(prefix))]
            found = list(_below(entry, PurePosixPath()))
            for owner in owners:
                yield owner, None
                yield from ((owner, member) for member in found)
        elif stat.S_ISREG(kind):
            yield from _top_file(entry)


def _is_nbgraders(submissions: Path) -> bool:
    """Tell whether a folder is an nbgrader course; a student may be called `submitted` too."""
    folders = {entry.name for entry in submissions.iterdir() if entry.is_dir()}
    others = {name for name in folders - NBGRADER if not name.startswith(".")}
    return "submitted" in folders and not others


def _is_hidden_from(folder: Path) -> bool:
    """Tell whether a folder is no student's: hidden and without a notebook, or a system's."""
    if folder.name in SKIPPED:
        return True
    return folder.name.startswith(".") and not any(folder.glob("*.ipynb"))


def _owner(name: str) -> str:
    moodle = MOODLE.match(name)
    return f"{moodle['name']} ({moodle['user']})" if moodle else name


def _top_file(entry: Path) -> Iterator[tuple[str, Member | None]]:
    """Yield the files of an entry that lies beside the students' folders, if it is a student's."""
    name = entry.name
    if not name.lower().endswith(".ipynb") and not is_archive(name):
        return
    flat = CANVAS.match(name) or MOODLE.match(name)
    if flat:
        owner = f"{flat['name']} ({flat['user']})"
        yield owner, None
        for member in _opened(entry, PurePosixPath(flat["file"])):
            yield owner, member
    elif is_archive(name):
        owner = _owner(stem_of_archive(name))
        yield owner, None
        for member in _opened(entry, PurePosixPath(name)):
            yield owner, member


def _by_path(member: Member) -> Iterator[tuple[str, Member | None]]:
    """Yield a file of an archive of the whole class with its student."""
    parts = [part for part in member.path.parts if part not in ("/", "..", ".")]
    if parts[:1] == ["submitted"]:
        del parts[0]
    if not parts:
        return
    # A name decides only where the platform wrote it; in a folder of theirs a student chose it.
    flat = (CANVAS.match(parts[0]) or MOODLE.match(parts[0])) if len(parts) == 1 else None
    if flat:
        path = PurePosixPath(flat["file"])
        yield (
            f"{flat['name']} ({flat['user']})",
            Member(path, member.read, member.modified, member.fault),
        )
    elif len(parts) > 1:
        yield (
            _owner(parts[0]),
            Member(PurePosixPath(*parts[1:]), member.read, member.modified, member.fault),
        )


def _gradescope_names(metadata: Path) -> dict[str, list[str]]:
    """Return the submitters of each folder of a Gradescope export; empty where it is none.

    Raises:
        BadInputError: the file is not what Gradescope writes.
    """
    if not metadata.is_file():
        return {}
    try:
        content = yaml.safe_load(metadata.read_text(encoding="utf-8")) or {}
        return {str(key): [_submitter(one) for one in value[":submitters"]]
                for key, value in content.items()}  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError):
        raise BadInputError(
            f"{metadata}: is not the list of submitters that Gradescope exports; export again"
        ) from None


def _submitter(one: Mapping[str, Any]) -> str:
    return str(one.get(":email") or one.get(":sid") or one[":name"])


def _common_prefix(entries: Iterable[Path]) -> str:
    """Return `<assignment>-` where every folder is a clone of a repository of that name."""
    clones = [entry.name for entry in entries if (entry / ".git").is_dir()]
    if len(clones) < 2:
        return ""
    heads = [name.split("-")[:-1] for name in clones]  # a user's name may hold a dash itself
    shared = [parts[0] for parts in zip(*heads, strict=False) if len(set(parts)) == 1]
    return "".join(f"{part}-" for part in shared)


# ---------------------------------------------------------------- what lies below a student


def _below(folder: Path, where: PurePosixPath) -> Iterator[Member]:
    """Yield the notebooks below a folder, and those in its archives; links are not followed."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        why = f"{readable(folder.name)} cannot be looked into: {error.strerror}"
        yield Member(where / f"{folder.name}.zip", None, fault=why)  # it may hold any milestone
        return
    for entry in entries:
        kind = entry.lstat().st_mode
        name = entry.name.lower()
        if stat.S_ISDIR(kind) and not name.endswith(".ipynb"):
            hidden = name.startswith(".") or entry.name in SKIPPED
            if not hidden and len(where.parts) < MAX_DEPTH:
                yield from _below(entry, where / entry.name)
        elif name.endswith(".ipynb") or is_archive(name):
            yield from _opened(entry, where / entry.name)


def _opened(entry: Path, where: PurePosixPath) -> list[Member]:
    """Return a notebook, or the notebooks of an archive, as they lie below their student."""
    kind, name = entry.lstat().st_mode, readable(entry.name)
    if stat.S_ISLNK(kind):  # it could name any file of this machine
        return [Member(where, None, fault=f"{name} is a link, not a file; hand in the file")]
    if not is_archive(entry.name):
        modified = moment(entry.lstat().st_mtime)
        return [Member(where, partial(_read, str(entry), name), modified)]
    if not stat.S_ISREG(kind):  # reading a pipe may never end
        return [Member(where, None, fault=f"{name} is not a file; hand in .ipynb files or a .zip")]
    folder = where.parent if where.parts else where
    arrived = moment(entry.lstat().st_mtime)
    try:
        return [
            Member(folder / member.path, member.read, member.modified, member.fault, arrived)
            for member in members(entry)
        ]
    except BadInputError as error:
        return [Member(where, None, fault=str(error))]


def _read(path: str, name: str) -> bytes:
    return read_file(Path(path), name)  # the text of a path takes a fifth of its memory


# ---------------------------------------------------------------- which milestone it is for


def _student(name: str, found: list[Member], slugs: Sequence[str]) -> Student:
    best: dict[str, tuple[tuple[object, ...], Member]] = {}
    unnamed = set()
    for member in found:
        fits = [
            (slug, match)
            for slug in slugs
            if (match := re.fullmatch(rf"{slug}{COPY}", member.path.stem, re.IGNORECASE))
        ]
        the_courses = member.path.parts[-3:-1] in {("milestones", slug) for slug in slugs}
        if not fits and not the_courses and not is_archive(member.path.name):
            unnamed.add(readable(str(member.path)))
        for slug, match in fits:
            order = _order(member, int(match["later"] or 0), int(match["copy"] or 0))
            if slug not in best or order > best[slug][0]:
                best[slug] = order, member
    faults = [member.fault for member in found if member.fault and is_archive(member.path.name)]
    notebooks = {slug: member for slug, (_, member) in best.items()}
    return Student(name, notebooks, faults[0] if faults else None, tuple(sorted(unnamed)))


def _order(member: Member, later: int, copy: int) -> tuple[object, ...]:
    """Return what decides between files for one milestone: the highest counts.

    First where it lies (beside the student's name, or in a clone's `notebooks/`), then Canvas's
    number of the attempt, then the time, then the number of the copy.
    """
    folder = member.path.parent
    at_home = len(folder.parts) == 0 or folder.name == "notebooks"
    when = member.modified.timestamp() if member.modified else 0.0
    return at_home, -len(folder.parts), later, when, copy, str(member.path)
