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
    found = {
        slug: [name for name in milestones.load(slug).functions if name in defined]
        for slug in milestones.SLUGS
    }
    whole = [slug for slug in found if len(found[slug]) == len(milestones.load(slug).functions)]
    some = [slug for slug in found if found[slug]]
    for candidates in (whole, some):
        if len(candidates) == 1:
            return candidates[0]
    example = f"say which, for example `%check {_number(some[0]) if some else 2}`"
    if not some:
        raise BadInputError(
            "which milestone? No function of any is defined here yet. Run the cells that define "
            f"yours, or {example}"
        )
    numbers = " and ".join(_number(slug) for slug in whole or some)
    raise BadInputError(
        f"which milestone? Functions of milestones {numbers} are defined here; {example}"
    )


def _by_stem(stem: str) -> str | None:
    """Return the milestone of a file's name; copies (`-Copy1`, ` (1)`) are of it as well."""
    return next((slug for slug in milestones.SLUGS if stem.startswith(slug)), None)


def _number(slug: str) -> str:
    return str(milestones.SLUGS.index(slug) + 1)
