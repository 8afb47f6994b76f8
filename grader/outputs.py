"""The files a graded class leaves: grades, a report a hand-in, and notes for the instructor."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

from grader.classroom import Graded
from grader.errors import BadInputError
from grader.handins import file_stem
from grader.present import as_json
from grader.receipts import Issuer, public_pem
from grader.report import Report, shown_points
from grader.results import write_whole
from grader.split import Split

COLUMNS = ("student", "milestone", "points", "points_max", "reason")
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would run


def make_ready(out: Path) -> None:
    """Make the folder for the results before hours are spent on them.

    Raises:
        BadInputError: it cannot be made or written to.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=out):
            pass
    except OSError as error:
        raise BadInputError(f"{out}: cannot be written to: {error.strerror}") from None


def write_class(graded: Sequence[Graded], split: Split, issuer: Issuer, out: Path) -> None:
    """Write all that a graded class leaves.

    `grades.csv`; `notes.csv`, for the instructor alone; a report for each hand-in; and for each
    student a signed receipt, with the public key beside them.

    Raises:
        BadInputError: the folder cannot be written to.
    """
    for one in graded:
        report = as_json(Report(split.split_id, split.public, (one.report,)))
        write_whole(report_path(out, one.hand_in.student, one.hand_in.slug), report)
    receipts = out / "receipts"
    receipts.mkdir(exist_ok=True)
    write_whole(receipts / "public.pem", public_pem(issuer.key))
    for student, theirs in groupby(graded, lambda one: one.hand_in.student):
        path = receipts / f"{file_stem(student)}.json"
        write_whole(path, issuer.receipt(student, tuple(theirs)))
    write_whole(out / "grades.csv", table(COLUMNS, map(_row, graded)))
    notes = [
        (one.hand_in.student, one.hand_in.slug, one.report.note)
        for one in graded
        if one.report.note
    ]
    write_whole(out / "notes.csv", table(("student", "milestone", "note"), notes))


def report_path(out: Path, student: str, slug: str) -> Path:
    """Return where the report of a hand-in lies."""
    folder = out / "reports" / file_stem(student)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{slug}.json"


def _row(one: Graded) -> tuple[str, ...]:
    points = "" if one.report.points is None else shown_points(one.report.points)
    points_max = shown_points(one.report.points_max)
    return one.hand_in.student, one.hand_in.slug, points, points_max, str(one.reason)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a CSV table that a spreadsheet shows and does not run."""
    safe = [tuple(map(spreadsheet_safe, row)) for row in rows]
    # The writer leaves a lone carriage return unquoted, which readers take for a line's end.
    splits = any("\r" in cell for row in safe for cell in row)
    text = io.StringIO()
    writer = csv.writer(
        text, lineterminator="\n", quoting=csv.QUOTE_ALL if splits else csv.QUOTE_MINIMAL
    )
    writer.writerow(header)
    writer.writerows(safe)
    return text.getvalue()


def spreadsheet_safe(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula: an apostrophe marks it as text."""
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell
