"""Which notebook a kernel belongs to, and which milestone that is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import milestones
from grader.errors import BadInputError

SESSION = "JPY_SESSION_NAME"  # set by Jupyter Server for each kernel: the notebook's path
VS_CODE = "__vsc_ipynb_file__"  # set by VS Code in the namespace: the notebook's path


def notebook_file(namespace: Mapping[str, Any], environment: Mapping[str, str]) -> Path | None:
    """Return the file of the notebook that the kernel runs, where it can be found."""
    for told in (namespace.get(VS_CODE), environment.get(SESSION)):
        if isinstance(told, str) and told.endswith(".ipynb"):
            path = Path(told)
            return path if path.is_file() else None
    return None


def beside(slug: str, namespace: Mapping[str, Any], environment: Mapping[str, str]) -> Path | None:
    """Return the milestone's notebook in the working folder, where no front end names another.

    nbconvert and papermill run a notebook in its own folder and tell it no name.
    """
    if VS_CODE in namespace or SESSION in environment:
        return None
    path = Path(f"{slug}.ipynb")
    return path.absolute() if path.is_file() else None


def milestone_of(named: str, file: Path | None, defined: Collection[str]) -> str:
    """Return the slug meant: the one named, else the notebook's, else by what is defined.

    By that it is one of whose own functions at least twice as many are there as of any other.

    Raises:
        BadInputError: it is none, or it cannot be told; the message says what to type.
    """
    if named:
        try:
            return milestones.slug_of(named)
        except milestones.UnknownMilestoneError as error:
            raise BadInputError(str(error)) from None
    by_name = None if file is None else _by_stem(file.stem)
    if by_name is not None:
        return by_name
    counts = {slug: len(own & set(defined)) for slug, own in _own_names().items()}
    some = sorted((slug for slug in counts if counts[slug]), key=lambda slug: -counts[slug])
    if len(some) == 1 or (some and counts[some[0]] >= 2 * counts[some[1]]):
        return some[0]
    if not some:
        raise BadInputError(
            "which milestone? No function of any is defined here yet. Run the cells that define "
            "yours, or say which, for example `%check 2`"
        )
    numbers = " and ".join(map(milestones.number_of, sorted(some)))
    raise BadInputError(
        f"which milestone? Functions of milestones {numbers} are defined here; say which, for "
        f"example `%check {milestones.number_of(some[0])}`"
    )


def _own_names() -> dict[str, set[str]]:
    """Return the names that each milestone asks for and no other does."""
    asked = {slug: set(milestones.load(slug).functions) for slug in milestones.all_slugs()}
    return {
        slug: names - {name for other in asked if other != slug for name in asked[other]}
        for slug, names in asked.items()
    }


def _by_stem(stem: str) -> str | None:
    """Return the milestone of a file's name; copies (`-Copy1`, ` (1)`) are of it as well."""
    return next((slug for slug in milestones.all_slugs() if stem.startswith(slug)), None)
