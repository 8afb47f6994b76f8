"""`grader pack`: the zip to hand in."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unicodedata
import zipfile
from pathlib import Path

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

import milestones
from grader import history, pack
from grader.errors import BadInputError
from grader.handins import file_stem, find_hand_ins
from grader.options import OUT_DIR, OUT_FILE, milestone_argument
from grader.paths import course_folder
from grader.split import open_split


@click.command("pack")
@milestone_argument(nargs=-1)
@click.option("--student", help="Who hands in; default: the name in your git configuration.")
@click.option("--notebooks", type=OUT_DIR, help="Folder of notebooks; default: the course's.")
@click.option("--out", type=OUT_FILE, help="The zip to write; default: <student>.zip.")
def pack_command(
    milestone: tuple[str, ...], student: str | None, notebooks: Path | None, out: Path | None
) -> None:
    """Make the zip to hand in: the milestones named, or all that are not blank.

    Refuses what a grader could not read, and says why. What your last check found is told, and
    kept in the zip's manifest as information only.
    """
    course = course_folder()
    folder = notebooks or course / "notebooks"
    if not folder.is_dir():
        raise BadInputError(f"{folder}: there is no such folder of notebooks")
    name, source = student_name(student, course)
    target = out or course / f"{name}.zip"
    _refuse_to_overwrite(target)
    choice = pack.choose(folder, milestone)
    if choice.faults:
        raise BadInputError("\n  ".join(["nothing was packed:", *choice.faults]))
    if not choice.packed:
        raise BadInputError(f"{folder}: nothing to hand in yet, every notebook is blank or missing")
    own = folder.resolve() == (course / "notebooks").resolve()
    past = history.read(course) if own else history.History()
    last = {one.slug: past.last_fresh(one.slug) for one in choice.packed}
    split_id = open_split(course / "data" / "public_split").split_id
    content = pack.bundle(choice.packed, name, split_id, last)
    prove_it_reads(content, name, choice.packed)
    _write(target, content)
    click.echo(f"{target}: packed for {name}{source}")
    console = Console(highlight=False)
    for one in choice.packed:
        console.print(Padding(Text(one.slug, "bold"), (0, 0, 0, 2)))
        console.print(Padding(Text(pack.told_of_last_check(one, last[one.slug])), (0, 0, 0, 4)))
        for warning in one.warnings:
            console.print(Padding(Text(f"warning: {warning}", "yellow"), (0, 0, 0, 4)))
    if choice.left_out:
        left_out = ", ".join(f"{slug} ({why})" for slug, why in choice.left_out.items())
        console.print(Padding(Text(f"left out: {left_out}", "dim"), (0, 0, 0, 2)))


def student_name(given: str | None, course: Path) -> tuple[str, str]:
    """Return the student's name, and where it comes from if it was not given.

    Raises:
        BadInputError: there is none, or it can be no file's name.
    """
    name, source = given, ""
    if name is None:
        name, source = _git_name(course), ", the name in your git configuration"
    name = unicodedata.normalize("NFC", (name or "").strip())
    if not name:
        raise BadInputError("who hands in? Say so with --student NAME, as your course knows you")
    if file_stem(name) != name:
        raise BadInputError(
            f"--student {name!r}: a hand-in is a file of that name; use letters, digits, spaces "
            "inside, and - _ . @ + ( ) , = only, 80 characters at most"
        )
    return name, source


def _git_name(course: Path) -> str | None:
    try:
        run = subprocess.run(
            ["git", "config", "user.name"],
            cwd=course,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError:  # no git on this machine
        return None
    return run.stdout if run.returncode == 0 else None


def prove_it_reads(content: bytes, student: str, packed: tuple[pack.Packed, ...]) -> None:
    """Read a zip as `grader class` will, alone and under its student's name.

    Raises:
        BadInputError: it would read something else.
    """
    slugs = milestones.all_slugs()
    with tempfile.TemporaryDirectory(prefix="kv-capacity-") as folder:
        (Path(folder) / f"{student}.zip").write_bytes(content)
        hand_ins = find_hand_ins(Path(folder), slugs)
        found = {(one.student, one.slug): one.read() for one in hand_ins if not one.missing}
    if found != {(student, one.slug): one.raw for one in packed}:
        names = ", ".join(sorted({name for name, _ in found})) or "nobody"
        raise BadInputError(
            f"--student {student!r}: a course would read this as handed in by {names}; "
            "choose another name"
        )


def _refuse_to_overwrite(target: Path) -> None:
    """Refuse a place that holds something else than an earlier pack.

    Raises:
        BadInputError: it does, or has no folder.
    """
    if not target.absolute().parent.is_dir():
        raise BadInputError(f"{target}: its folder does not exist; make it first")
    if target.exists() and not _is_a_pack(target):
        raise BadInputError(
            f"{target}: is there and was not made by `grader pack`; name another file with --out"
        )


def _is_a_pack(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [n for n in archive.namelist() if n.rpartition("/")[2] == pack.MANIFEST]
            return any(json.loads(archive.read(n))["course"] == pack.COURSE for n in names)
    except Exception:  # any file at all may lie there
        return False


def _write(target: Path, content: bytes) -> None:
    unfinished = target.with_name(f"{target.name}.unfinished")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(target)
    except OSError as error:
        raise BadInputError(f"{target}: cannot be written: {error.strerror}") from None
