"""What a walled room shows of the machine: the folders that Python and its libraries lie in."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from grader.errors import BadInputError

PACKAGE_FOLDERS = ("site-packages", "dist-packages")


def libraries() -> tuple[str, ...]:
    """Return the folders a notebook's imports and commands come from, none inside another."""
    wanted = {Path("/usr"), Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix)}
    wanted |= {Path(entry) for entry in sys.path if Path(entry).name in PACKAGE_FOLDERS}
    real = {path for path in wanted if path.is_dir()} | {
        path.resolve() for path in wanted if path.is_dir()
    }
    outermost = [path for path in real if not any(path.is_relative_to(o) for o in real - {path})]
    return tuple(sorted(map(str, outermost)))


def refuse_to_show(secrets: Iterable[Path], shown: Iterable[str]) -> None:
    """Check that nothing secret lies in a folder that every room shows.

    Raises:
        BadInputError: something does; the message says what, where and what to do.
    """
    for secret in secrets:
        for folder in shown:
            if secret.resolve().is_relative_to(folder):
                raise BadInputError(
                    f"{secret}: lies inside {folder}, which every room shows because Python's "
                    "libraries lie there; move it elsewhere and try again"
                )
