"""When notebooks were handed in, as the LMS knows it: read from CSV, laid over what files tell.

A download keeps no times, or the times of the download. What an instructor gives here counts
instead, for the points that are computed with it; the gradebook itself is not changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import milestones
from grader.errors import BadInputError
from grader.gradebook.book import ClassRecord
from grader.gradebook.manual import csv_rows
from grader.gradebook.points import Attempt, Entry, numbered
from grader.gradebook.rules import due_at

COLUMNS = ("student", "milestone", "handed_in_at")
NOTEBOOK = "notebook_sha256"  # needed only where a student has several attempts
SHORTEST_HASH = 8  # characters: enough to tell the attempts of one student apart


@dataclass(frozen=True)
class Time:
    """When one notebook was handed in, and the row it stands in; `sha256` may be a beginning."""

    row: int
    student: str
    slug: str
    at: datetime
    sha256: str = ""


def read_times(path: Path, zone: ZoneInfo | None) -> list[Time]:
    """Read times: CSV with student, milestone, handed_in_at and, if needed, notebook_sha256.

    A time is ISO 8601, as `2026-10-31 23:59:59`; one without an offset is of `zone`.

    Raises:
        BadInputError: something in it cannot be read; the message has a line for each fault.
    """
    times, faults = [], []
    for number, row in csv_rows(path, COLUMNS, (NOTEBOOK,)):
        try:
            slug = milestones.slug_of(row["milestone"])
        except milestones.UnknownMilestoneError as error:
            faults.append(f"{path}: row {number}: {error}")
            continue
        at = _moment(row["handed_in_at"], zone, f"{path}: row {number}", faults)
        sha256 = row.get(NOTEBOOK, "").lower()
        if sha256 and len(sha256) < SHORTEST_HASH:
            faults.append(
                f"{path}: row {number}: {NOTEBOOK} needs at least {SHORTEST_HASH} characters"
            )
        if at is not None:
            times.append(Time(number, row["student"], slug, at, sha256))
    if faults:
        raise BadInputError("\n".join(faults))
    return times


def _moment(text: str, zone: ZoneInfo | None, where: str, faults: list[str]) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        faults.append(f"{where}: {text!r} is no time; write it as 2026-10-31 23:59:59")
        return None
    if len(text) <= len("2026-10-31"):
        faults.append(f"{where}: {text!r} is a day without a time; add it, as {text} 23:59:59")
        return None
    due = due_at(moment, zone, where, faults)
    return None if due is None else due.at


def with_times(record: ClassRecord, times: Sequence[Time], *, name: str = "times") -> ClassRecord:
    """Return the record with these times in place of those that files told.

    Raises:
        BadInputError: a row is about no attempt, or about several; a line for each such row.
    """
    told: dict[tuple[str, str], list[Time]] = defaultdict(list)
    for time in times:
        told[time.student, time.slug].append(time)
    faults: list[str] = []
    entries = {
        key: _timed(entry, told.pop(key, []), name, faults) for key, entry in record.entries.items()
    }
    for (student, slug), left in told.items():
        what = slug if student in record.students else repr(student)
        faults += [f"{name}: row {one.row}: the gradebook holds no {what}" for one in left]
    if faults:
        raise BadInputError("\n".join(sorted(faults)))
    return replace(record, entries=entries)


def _timed(entry: Entry, times: Sequence[Time], name: str, faults: list[str]) -> Entry:
    at: dict[str, list[datetime]] = defaultdict(list)
    for time in times:
        meant = [one for one in entry.attempts if one.notebook_sha256.startswith(time.sha256)]
        if len(meant) == 1:
            at[meant[0].notebook_sha256].append(time.at)
        elif not entry.attempts or not meant:
            what = "this notebook" if entry.attempts else "anything"
            faults.append(f"{name}: row {time.row}: {entry.student!r} has not handed in {what}")
        else:
            faults.append(
                f"{name}: row {time.row}: {entry.student!r} has {len(meant)} attempts; add the "
                f"column {NOTEBOOK} ({', '.join(one.notebook_sha256[:12] for one in meant)})"
            )
    return replace(entry, attempts=numbered(_with(entry.attempts, at)))


def _with(attempts: Sequence[Attempt], at: dict[str, list[datetime]]) -> Iterator[Attempt]:
    for attempt in attempts:
        times = at.get(attempt.notebook_sha256)
        if times is None:
            yield attempt
        else:
            yield replace(attempt, handed_in_at=min(times), last_handed_in_at=max(times))
