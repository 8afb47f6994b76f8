"""What each notebook came to, kept by what it was graded with, so that none is graded twice.

One small file a result, named by a hash of all that decides it: the notebook, the split, the data,
this very grader and its bounds. A file appears whole or not at all, so a run that is killed at any
moment, or meets a full disk, goes on where it was.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from grader.errors import BadInputError
from grader.report import CellError, CheckReport, MilestoneReport, Outcome, Stop
from grader.split import sha256_of
from grader.surroundings import PACKAGES
from milestones.diagnosis import Breakdown, Diagnosis, Part

DECIDING = (".py", ".toml", ".md")  # code; questions with their points; a template


def fingerprint() -> str:
    """Return a hash of the grader's and the milestones' own code, and of the data it reads."""
    whole = hashlib.sha256()
    for package in ("grader", "milestones"):
        files = (path for path in (PACKAGES / package).rglob("*") if path.suffix in DECIDING)
        for path in sorted(files):
            whole.update(f"{path.relative_to(PACKAGES).as_posix()} {sha256_of(path)}\n".encode())
    return whole.hexdigest()


class Results:
    """The results of one class, in a folder."""

    def __init__(self, folder: Path, made_with: Mapping[str, object]) -> None:
        """Open the folder; `made_with` is all that decides a result but the notebook itself."""
        self._folder = folder
        self._made_with = dict(made_with)
        self._lock = threading.Lock()
        self._under_way = WeakValueDictionary[str, threading.Lock]()  # a lock while one holds it
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.unfinished"):
            path.unlink()

    def of(
        self, slug: str, notebook_sha256: str, grade: Callable[[], MilestoneReport]
    ) -> MilestoneReport:
        """Return the result of a notebook: the one that is kept, or else what `grade` returns.

        A result that is BROKEN is no result and is not kept. Notebooks with the same bytes are
        graded once, though many hand them in at a time.

        Raises:
            BadInputError: a result cannot be written.
        """
        made_with = {**self._made_with, "milestone": slug, "notebook": notebook_sha256}
        key = hashlib.sha256(json.dumps(made_with, sort_keys=True).encode()).hexdigest()
        path = self._folder / f"{key}.json"
        with self._lock:
            mine = self._under_way.setdefault(key, threading.Lock())
        with mine:
            kept = _read(path)
            if kept is not None:
                return kept
            report = grade()
            if not report.count(Outcome.BROKEN):
                write_whole(path, as_text(report), sync=True)
            return report


def write_whole(path: Path, text: str | Iterable[str], *, sync: bool = False) -> None:
    """Write a file that is there whole or not at all, however this process ends.

    A long text may come in parts, of which none is kept. With `sync` it is on the disk when this
    returns, however the machine ends. What is no file, as /dev/stdout or a named pipe, is written
    to and never replaced by one.

    Raises:
        BadInputError: it cannot be written.
    """
    unfinished = path.with_name(f"{path.name}.unfinished")
    parts = (text,) if isinstance(text, str) else text
    try:
        if path.exists() and not path.is_file():
            with path.open("w", encoding="utf-8", newline="\n") as stream:
                stream.writelines(parts)
            return
        try:
            with unfinished.open("w", encoding="utf-8", newline="\n") as stream:
                stream.writelines(parts)
                if sync:
                    stream.flush()
                    os.fsync(stream.fileno())
            unfinished.replace(path)
        except BaseException:  # whoever makes the parts may stop too
            with contextlib.suppress(OSError):
                unfinished.unlink()
            raise
    except OSError as error:
        raise BadInputError(
            f"{path}: cannot be written: {error.strerror}; nothing that was graded is lost: make "
            "room and start the same command again, it goes on where it was"
        ) from None


def _read(path: Path) -> MilestoneReport | None:
    """Return a kept result; None where there is none, or one that was tampered with or cut."""
    try:
        return from_text(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def as_text(report: MilestoneReport) -> str:
    """Return a report as JSON, whole: what `from_text` reads."""
    return json.dumps(asdict(report), allow_nan=False)


def from_text(text: str) -> MilestoneReport:
    """Return the report that `as_text` wrote.

    Raises:
        ValueError, KeyError, TypeError: it is none.
    """
    content = json.loads(text)
    checks = tuple(
        CheckReport(
            **{
                **check,
                "outcome": Outcome(check["outcome"]),
                "diagnosis": _diagnosis(check["diagnosis"]),
            }
        )
        for check in content["checks"]
    )
    cells = tuple(CellError(**cell) for cell in content["cells"])
    stop = None if content["stop"] is None else Stop(**content["stop"])
    return MilestoneReport(**{**content, "checks": checks, "cells": cells, "stop": stop})


def _diagnosis(content: dict[str, Any] | None) -> Diagnosis | None:
    if content is None:
        return None
    cut = content["breakdown"]
    if cut is not None:
        cut = Breakdown(**{**cut, "parts": tuple(Part(**part) for part in cut["parts"])})
    return Diagnosis(**{**content, "breakdown": cut})
