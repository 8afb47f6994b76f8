"""The files a graded class leaves: grades, a report a hand-in, and notes for the instructor."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import milestones
from grader.classroom import Graded
from grader.errors import BadInputError
from grader.handins import HandIn, file_stem
from grader.html import class_page, feedback_page, near_copies
from grader.judge import read_mistakes
from grader.notebook import Notebook, parse_notebook
from grader.present import as_json
from grader.receipts import Issuer, public_pem
from grader.report import Report, shown_points
from grader.results import write_whole
from grader.split import Split

COLUMNS = ("student", "milestone", "points", "points_max", "reason")
MAX_TOLD = 5  # notebooks of one student in a note
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would run


def refuse_inputs(out: Path, inputs: Mapping[str, Path]) -> None:
    """Check that the folder for the results lies in none of what is read.

    A file more would make the split or the data unfit to be read again, and results among the
    hand-ins would be one more student.

    Raises:
        BadInputError: it does; the message says where and what to do.
    """
    for what, folder in inputs.items():
        if out.resolve().is_relative_to(folder.resolve()):
            raise BadInputError(
                f"--out {out}: lies in {what} ({folder}), which grading must not change; name a "
                "folder elsewhere, as grades/autumn"
            )


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
    """Write all that a graded class leaves, a student's files and then those of the class.

    For each student a report a hand-in, a page of feedback, a signed receipt, and where something
    was written for a person to mark, that as a document; for the class
    `grades.csv`, and for the instructor `class.html` and `notes.csv`.

    Raises:
        BadInputError: the folder cannot be written to.
    """
    for folder in ("feedback", "receipts", "reports"):
        (out / folder).mkdir(exist_ok=True)
    write_whole(out / "receipts" / "public.pem", public_pem(issuer.key))
    copies = near_copies(_write_students(graded, split, issuer, out))
    mistakes = {}
    for slug in _judged(graded):
        with contextlib.suppress(Exception):  # truth that cannot be read has broken its hand-ins
            mistakes[slug] = read_mistakes(split.truth, slug)
    page = class_page(
        graded,
        split_id=split.split_id,
        public=split.public,
        copies=copies,
        mistakes=mistakes,
        stem=file_stem,
    )
    write_whole(out / "class.html", page)
    write_whole(out / "grades.csv", table_lines(COLUMNS, map(_row, graded)))
    write_whole(out / "notes.csv", table(("student", "milestone", "note"), _notes(graded)))


def _notes(graded: Iterable[Graded]) -> list[tuple[str, str, str]]:
    told, lost = [], {}
    for one in graded:
        student = one.hand_in.student
        if one.report.note:
            told.append((student, one.hand_in.slug, one.report.note))
        if one.hand_in.unnamed:
            lost[student] = one.hand_in.unnamed
    return told + [(student, "", misnamed(files)) for student, files in lost.items()]


def unnamed(hand_ins: Iterable[HandIn]) -> dict[str, tuple[str, ...]]:
    """Return each student's notebooks that bear no milestone's name; nobody without any."""
    return {one.student: one.unnamed for one in hand_ins if one.unnamed}


def misnamed(files: Sequence[str]) -> str:
    """Say which notebooks were not graded for their names, and what to do."""
    more = f" and {len(files) - MAX_TOLD:,} more" if len(files) > MAX_TOLD else ""
    return (
        f"Not graded, because the name is no milestone's: {', '.join(files[:MAX_TOLD])}{more}. "
        "Rename what was handed in to <milestone>.ipynb and grade again."
    )


def _write_students(
    graded: Sequence[Graded], split: Split, issuer: Issuer, out: Path
) -> Iterator[tuple[str, str, Notebook]]:
    """Write each student's files, and yield their notebooks: none is kept longer than that."""
    for student, group in groupby(graded, lambda one: one.hand_in.student):
        theirs = tuple(group)
        notebooks = _notebooks(theirs)
        stem = file_stem(student)
        for one in theirs:
            _write_document(one, out)
            report = as_json(Report(split.split_id, split.public, (one.report,)))
            write_whole(report_path(out, student, one.hand_in.slug), report)
        _drop_labs_before(theirs, out)
        page = feedback_page(
            student, theirs, notebooks, split_id=split.split_id, public=split.public
        )
        write_whole(out / "feedback" / f"{stem}.html", page)
        write_whole(out / "receipts" / f"{stem}.json", issuer.receipt(student, theirs))
        for slug, notebook in notebooks.items():
            yield student, slug, notebook


def _drop_labs_before(theirs: Sequence[Graded], out: Path) -> None:
    """Remove what an earlier grading left of labs that are handed in no more."""
    student = theirs[0].hand_in.student
    for slug in set(milestones.BONUS_SLUGS) - {one.hand_in.slug for one in theirs}:
        report_path(out, student, slug).unlink(missing_ok=True)
        _document_path(out, student, slug).unlink(missing_ok=True)


def _notebooks(theirs: Sequence[Graded]) -> dict[str, Notebook]:
    """Return the notebooks of one student that can be read, by milestone."""
    found = {}
    for one in theirs:
        with contextlib.suppress(BadInputError):
            found[one.hand_in.slug] = parse_notebook(one.hand_in.read(), one.hand_in.slug)
    return found


def _judged(graded: Sequence[Graded]) -> list[str]:
    """Return the milestones of which at least one notebook was judged."""
    return sorted({one.hand_in.slug for one in graded if one.report.notebook_sha256})


def report_path(out: Path, student: str, slug: str) -> Path:
    """Return where the report of a hand-in lies."""
    folder = out / "reports" / file_stem(student)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{slug}.json"


def _document_path(out: Path, student: str, slug: str) -> Path:
    return out / "documents" / slug / f"{file_stem(student)}.md"


def _write_document(one: Graded, out: Path) -> None:
    """Write what a person reads of a hand-in; that of an earlier grading does not stay."""
    path = _document_path(out, one.hand_in.student, one.hand_in.slug)
    if one.report.document:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, one.report.document)
    elif path.is_file():
        path.unlink()


def _row(one: Graded) -> tuple[str, ...]:
    earned, most = one.report.main
    points = "" if earned is None else shown_points(earned)
    return one.hand_in.student, one.hand_in.slug, points, shown_points(most), str(one.reason)


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[str] = ()
) -> str:
    """Return a CSV table that a spreadsheet shows and does not run.

    Cells of the columns `numbers` are our own numbers: a sign makes none of them a formula.
    """
    return "".join(table_lines(header, rows, numbers))


def table_lines(
    header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[str] = ()
) -> Iterator[str]:
    """Yield the lines of such a table, of which none is kept."""
    line = _Line()
    # With this end of a line the writer quotes a lone carriage return too, which readers take for
    # one.
    writer = csv.writer(line, lineterminator="\r\n")
    writer.writerow(header)
    yield line.text
    for row in rows:
        writer.writerow(
            cell if column in numbers else spreadsheet_safe(cell)
            for column, cell in zip(header, row, strict=True)
        )
        yield line.text


class _Line:
    """Takes the line that a CSV writer wrote last, with our end of a line."""

    text = ""

    def write(self, line: str) -> None:
        self.text = line.removesuffix("\r\n") + "\n"


def spreadsheet_safe(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula: an apostrophe marks it as text."""
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell
