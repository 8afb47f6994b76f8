"""What a student hands in: which notebooks, what keeps one from being graded, and the zip of it.

The zip holds `<student>/<milestone>.ipynb` and a manifest. The same notebooks and the same last
checks give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import milestones
from grader import __version__
from grader.defined import Defined, defined_in
from grader.errors import BadInputError
from grader.history import Entry
from grader.notebook import Notebook, parse_notebook, read_file

SCHEMA = 1
COURSE = "kv-capacity"
MANIFEST = "manifest.json"
NOTE = "The points are the student's own last check on the public split, for information only."
AT = (1980, 1, 1, 0, 0, 0)  # the first moment a zip can tell: when it was made decides nothing
MODE = 0o100_644 << 16  # a file that all may read, in the upper half as Unix's mode


@dataclass(frozen=True)
class Packed:
    """A notebook to hand in: its bytes as they lie there, its code, and what to know about it."""

    slug: str
    raw: bytes
    notebook: Notebook
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Choice:
    """What is handed in, what was left out and why, and what must be put right first."""

    packed: tuple[Packed, ...]
    left_out: Mapping[str, str]
    faults: tuple[str, ...]


def choose(folder: Path, wanted: Sequence[str] = ()) -> Choice:
    """Choose the `wanted` milestones' notebooks of a folder; without any, all that were begun."""
    packed: list[Packed] = []
    left_out: dict[str, str] = {}
    faults = [] if wanted else _misnamed(folder)
    for slug in wanted or milestones.all_slugs():
        path = folder / f"{slug}.ipynb"
        if not wanted and not path.exists():
            left_out[slug] = "no notebook"
            continue
        try:
            one = _look(slug, path)
        except BadInputError as error:
            faults.append(str(error))
            continue
        if one.notebook.code_sha256 != _blank(slug).code_sha256:
            packed.append(one)
        elif wanted:
            faults.append(f"{path}: is the blank notebook; there is nothing in it to grade yet")
        else:
            left_out[slug] = "still blank"
    return Choice(tuple(packed), left_out, tuple(faults))


def _look(slug: str, path: Path) -> Packed:
    """Read a notebook as a grader would.

    Raises:
        BadInputError: nothing in it could be graded; the message says why and what to do.
    """
    raw = read_file(path)
    notebook = parse_notebook(raw, str(path))
    if not notebook.cells:
        raise BadInputError(
            f"{path}: has no cell of code, so nothing in it can be graded; put your notebook in "
            f"its place, or get it again with `grader reset {milestones.number_of(slug)}`"
        )
    defined = defined_in(notebook)
    functions = milestones.load(slug).functions
    missing = [name for name in functions if not defined.may_have(name)]
    if set(_own_names(slug)) <= set(missing):
        raise BadInputError(f"{path}: {_defines_none(slug, defined)}")
    warnings = [f"`{name}` is defined in no cell; its checks will fail" for name in missing]
    warnings += [
        f"imports {name}.py, which is not handed in; put its code into a cell"
        for name in sorted(defined.imports)
        if (path.parent / f"{name}.py").is_file()
    ]
    return Packed(slug, raw, notebook, tuple(warnings))


def _own_names(slug: str) -> list[str]:
    """Return the names that a milestone asks for and no other does."""
    others = {
        name
        for other in milestones.all_slugs()
        if other != slug
        for name in milestones.load(other).functions
    }
    return [name for name in milestones.load(slug).functions if name not in others]


def _defines_none(slug: str, defined: Defined) -> str:
    names = ", ".join(f"`{name}`" for name in _own_names(slug))
    for other in milestones.all_slugs():
        if other != slug and any(name in defined.names for name in _own_names(other)):
            return (
                f"defines none of {names}, but names of {other}; is it that notebook under "
                "another name?"
            )
    return f"defines none of {names} in a cell that can be read, so nothing in it can be graded"


def _misnamed(folder: Path) -> list[str]:
    """Return a sentence for each notebook that means a milestone and has not its name."""
    faults = []
    for path in sorted(folder.glob("*.ipynb")):
        slug = meant_by(path.stem)
        if slug is not None and path.stem != slug and not (folder / f"{slug}.ipynb").exists():
            faults.append(f"{path}: give it the name {slug}.ipynb and try again")
    return faults


def meant_by(stem: str) -> str | None:
    """Return the milestone that a file's name seems to mean: a copy, another case, a short form."""
    word = stem.strip().lower().replace("-", "_").replace(" ", "_")
    for slug in milestones.all_slugs():
        if word.startswith(slug) or word.partition("_")[0] == slug.partition("_")[0]:
            return slug
    return None


def _blank(slug: str) -> Notebook:
    path = Path(milestones.__file__).parent / slug / "blank.ipynb"
    return parse_notebook(path.read_bytes(), str(path))


def told_of_last_check(one: Packed, last: Entry | None) -> str:
    """Return what the last check says about a notebook as it is handed in."""
    number = milestones.number_of(one.slug)
    if last is None:
        return f"not checked yet: grader check {number}"
    if last.code_sha256 != one.notebook.code_sha256:
        return f"changed since its last check: grader check {number}"
    earned, most = last.main
    what = "bonus" if last.is_all_bonus else "points"
    points = f"{earned:g} of {most:g} {what} in its last check"
    failing = [check.sentence for check in last.failing]
    if not failing:
        return points
    more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
    return f"{points}; failing: {failing[0]}{more}"


def bundle(
    packed: Sequence[Packed], student: str, split_id: str, last: Mapping[str, Entry | None]
) -> bytes:
    """Return the zip to hand in; `last` holds the last check of each notebook."""
    manifest = {
        "schema": SCHEMA,
        "course": COURSE,
        "student": student,
        "grader_version": __version__,
        "split_id": split_id,
        "note": NOTE,
        "notebooks": {one.slug: _listed(one, last.get(one.slug)) for one in packed},
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    files = {MANIFEST: text.encode()} | {f"{one.slug}.ipynb": one.raw for one in packed}
    made = io.BytesIO()
    # Stored, not deflated: which bytes a compressor makes hangs on its version.
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(files.items()):
            info = zipfile.ZipInfo(f"{student}/{name}", AT)
            info.create_system, info.external_attr = 3, MODE
            archive.writestr(info, content)
    return made.getvalue()


def _listed(one: Packed, last: Entry | None) -> dict[str, Any]:
    check = None
    if last is not None:
        check = {
            "points": last.points,
            "points_max": last.points_max,
            "bonus": last.bonus,
            "bonus_max": last.bonus_max,
            "at": last.at.isoformat(),
            "of_this_code": last.code_sha256 == one.notebook.code_sha256,
        }
    sha256 = hashlib.sha256(one.raw).hexdigest()
    return {"sha256": sha256, "bytes": len(one.raw), "last_check": check}
