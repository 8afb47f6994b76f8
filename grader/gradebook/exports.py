"""A class's final points in the forms that other tools take in.

Each form is the one its tool publishes; docs/exports.md names the sources and says how each was
checked. What is not known yet is an empty cell, never a zero. No cell is a formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from unicodedata import category

import milestones
from grader.gradebook.book import ClassRecord
from grader.gradebook.gradescope import as_text, result_path, results
from grader.gradebook.points import Final, shown
from grader.gradebook.roster import LAST, Person, Roster
from grader.gradebook.rules import Rules
from grader.gradebook.standings import Standing
from grader.outputs import spreadsheet_safe, table
from grader.present import as_junit
from grader.report import MilestoneReport, Report

TOTAL = "total"
CSV_COLUMNS = (
    "student", "milestone", "points", "points_max", "before_penalty", "days_late", "attempt",
    "attempts", "handed_in_at", "reason", "explanation",
)  # fmt: skip
CANVAS_COLUMNS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
NBGRADER_COLUMNS = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email",
    "raw_score", "late_submission_penalty", "score", "max_score",
)  # fmt: skip


@dataclass(frozen=True)
class Export:
    """The text of a file, and what whoever imports it must know."""

    text: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Term:
    """All that an export is made of."""

    record: ClassRecord
    rules: Rules
    standings: Sequence[Standing]
    roster: Roster | None = None


def as_csv(term: Term) -> Export:
    """Return one row a student and milestone, and one for each total, with the explanation."""
    rows = []
    for standing in term.standings:
        for slug, final in standing.finals.items():
            entry = term.record.entries[standing.student, slug]
            attempt = final.attempt
            rows.append(
                (
                    standing.student, slug, _cell(final.points), shown(final.points_max),
                    _cell(final.before_penalty), str(final.days_late),
                    str(attempt.number) if attempt else "", str(len(entry.attempts)),
                    _utc(attempt.handed_in_at if attempt else None),
                    _reason(final, missing=entry.missing), "; ".join(final.lines),
                )
            )  # fmt: skip
        total = standing.total
        rows.append(
            (
                standing.student, TOTAL, _cell(total.points), shown(total.points_max), "", "", "",
                "", "", "", "; ".join(total.lines),
            )
        )  # fmt: skip
    return Export(_table(CSV_COLUMNS, rows))


def _reason(final: Final, *, missing: bool) -> str:
    if final.attempt is not None:
        return final.attempt.reason
    return "missing" if missing else "not graded"


# ---------------------------------------------------------------- Canvas


def as_canvas(term: Term) -> Export:
    """Return a gradebook for Canvas's "Import Grades".

    Canvas reads the student from the columns up to `Section`, an assignment from a header
    `Title (id)` or its title, and its points from the row `Points Possible`
    (GradebookImporter and GradebookExporter of github.com/instructure/canvas-lms, lib/). With the
    roster, a gradebook that Canvas exported, those columns are repeated as Canvas wrote them;
    without it students are found by name alone and assignments by their title.
    """
    slugs, roster = term.record.slugs, term.roster
    if roster is None:
        leading: tuple[str, ...] = CANVAS_COLUMNS
        lines: list[tuple[tuple[str, ...], Standing]] = [
            ((s.student, "", "", "", ""), s) for s in term.standings
        ]
        remarks = [
            "without --roster Canvas finds students by name and offers to make new assignments; "
            "export the gradebook from Canvas and name it to be sure of both"
        ]
    else:
        section = next((i for i, n in enumerate(roster.header) if "Section" in n), None)
        width = len(CANVAS_COLUMNS) if section is None else section + 1
        leading = roster.header[:width]
        found, remarks = roster.matched(term.record.students)
        lines = [
            (tuple(found[s.student].cells.get(name, "") for name in leading), s)
            for s in term.standings
            if s.student in found
        ]
        if section is None:
            remarks.append("the roster has no column `Section`, so Canvas did not export it")
    titles = {slug: _canvas_title(slug, roster) for slug in slugs}
    possible = {
        slug: max((s.finals[slug].points_max for s in term.standings), default=Decimal(0))
        for slug in slugs
    }
    blank = ("",) * (len(leading) - 1)
    rows = [("    Points Possible", *blank, *(shown(possible[slug]) for slug in slugs))]
    rows += [
        (*identity, *(_cell(s.finals[slug].points) for slug in slugs)) for identity, s in lines
    ]
    remarks += _changed_by_safety(cells for cells, _ in lines)
    if any(s.finals[slug].points is None for _, s in lines for slug in slugs):
        remarks.append(
            "empty cells are points that are not known yet; Canvas takes them as no score"
        )
    return Export(_table((*leading, *titles.values()), rows), tuple(remarks))


def _canvas_title(slug: str, roster: Roster | None) -> str:
    """Return the header of a milestone's assignment: as Canvas has it, if it does."""
    for header in roster.header if roster else ():
        title, _, number = header.rpartition(" (")
        bare = title if number.rstrip(")").isdigit() else header
        if bare.strip().lower() in _names(slug):
            return header
    return slug


def _names(slug: str) -> set[str]:
    """Return what a milestone may be called in an LMS."""
    short = slug.partition("_")[0]
    names = {slug, short, f"milestone {short.removeprefix('m')}"}
    if slug in milestones.SLUGS:
        names.add(milestones.load(slug).title.lower())
    return names


# ---------------------------------------------------------------- Moodle


def as_moodle(term: Term, identify_by: str = "Email address") -> Export:
    """Return a table for Moodle's "Import grades: CSV file".

    Moodle maps one column to a field of the user and each other to a grade item, reads an empty
    cell as no grade, and aborts the whole import at the first user it does not know
    (grade/import/csv/classes/load_data.php of github.com/moodle/moodle; docs.moodle.org, Grade
    import). So students who are not in the roster are left out. Without a roster the gradebook's
    own names stand in the column `identify_by`.
    """
    slugs = term.record.slugs
    remarks: list[str] = []
    if term.roster is None:
        lines = [((s.student,), s) for s in term.standings]
    else:
        found, remarks = term.roster.matched(term.record.students)
        lines = [
            ((found[s.student].get(identify_by.lower()),), s)
            for s in term.standings
            if s.student in found
        ]
        unnamed = [s.student for (who,), s in lines if not who]
        remarks += [f"{name}: has no {identify_by} in the roster; left out" for name in unnamed]
        lines = [(who, s) for who, s in lines if who[0]]
    rows = [
        (*who, *(_cell(s.finals[slug].points) for slug in slugs), _cell(s.total.points))
        for who, s in lines
    ]
    remarks += _changed_by_safety(cells for cells, _ in lines)
    if any((f.points or 0) > f.points_max for _, s in lines for f in s.finals.values()):
        remarks.append(
            "some points lie above an item's maximum; Moodle cuts them off there unless its "
            "setting `Unlimited grades` is on"
        )
    remarks.append(f"in Moodle choose: map from {identify_by!r}, map to the same field of the user")
    return Export(_table((identify_by, *slugs, TOTAL), rows), tuple(remarks))


# ---------------------------------------------------------------- nbgrader


def as_nbgrader(term: Term) -> Export:
    """Return the table that `nbgrader export` writes (CsvExportPlugin of nbgrader 0.9).

    There `score` is `raw_score` less `late_submission_penalty`, and not below 0; times are UTC
    without a zone. What is not known yet is empty, where nbgrader would write a zero.
    """
    found: dict[str, Person] = {}
    remarks: list[str] = []
    if term.roster is not None:
        found, remarks = term.roster.matched(term.record.students)
    rows = []
    for slug in term.record.slugs:
        due = term.rules.deadline(slug)
        for standing in term.standings:
            final, person = standing.finals[slug], found.get(standing.student, Person({}))
            attempt = final.attempt
            rows.append(
                (
                    slug,
                    _naive(due.at if due else None),
                    _naive(attempt.handed_in_at if attempt else None),
                    standing.student,
                    person.get(*LAST),
                    person.get("first name", "firstname"),
                    person.get("email address", "email"),
                    _double(final.before_penalty if final.points is not None else None),
                    _double(final.penalty),
                    _double(final.points),
                    _double(final.points_max),
                )
            )
    return Export(_table(NBGRADER_COLUMNS, rows), tuple(remarks))


def _naive(moment: datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S")


def _double(points: Decimal | None) -> str:
    return "" if points is None else str(float(points))


# ---------------------------------------------------------------- JUnit


def junit(term: Term) -> Export:
    """Return the checks of the attempts that count as JUnit XML: a suite a student and milestone.

    Outcomes are those of the checks; rules, overrides and marks are not in it.
    """
    reports = []
    for standing in term.standings:
        for slug, final in standing.finals.items():
            if final.attempt is None:
                continue
            key = (standing.student, slug, final.attempt.notebook_sha256)
            reports.append(
                replace(term.record.reports[key], milestone=f"{standing.student}.{slug}")
            )
    return Export(as_junit(Report(term.record.split_id, False, tuple(reports))))


# ---------------------------------------------------------------- Gradescope


def results_files(term: Term) -> tuple[dict[str, str], list[str]]:
    """Return a results.json a student, by path, and who has none since points are not known."""
    files, remarks = {}, []
    for standing in term.standings:
        if standing.total.points is None:
            remarks.append(f"{standing.student}: {standing.total.lines[0]}; left out")
            continue
        reports = [
            term.record.reports[standing.student, slug, final.attempt.notebook_sha256]
            for slug, final in standing.finals.items()
            if final.attempt is not None
        ]
        lines = [
            f"{slug}: {final.told} ({'; '.join(final.lines)})"
            for slug, final in standing.finals.items()
        ]
        content = results(
            [_known(report) for report in reports],
            score=standing.total.points,
            output="\n".join(lines),
            public=False,
        )
        files[result_path(standing.student)] = as_text(content)
    return files, remarks


def _known(report: MilestoneReport) -> MilestoneReport:
    """Leave out checks that are BROKEN: where points are known all the same, a person set them."""
    checks = tuple(check for check in report.checks if check.points is not None)
    return replace(report, checks=checks)


# ---------------------------------------------------------------- cells


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a CSV table; a carriage return in a name would begin a row, so it is dropped."""
    return table([*map(_printable, header)], ([*map(_printable, row)] for row in rows))


def _printable(cell: str) -> str:
    return "".join(c for c in cell if c == "\n" or category(c) != "Cc")


def _cell(points: Decimal | None) -> str:
    return "" if points is None else shown(points)


def _utc(moment: datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _changed_by_safety(rows: Iterable[Sequence[str]]) -> list[str]:
    """Say whose cells got an apostrophe, since an LMS will not know them by it."""
    changed = sum(any(spreadsheet_safe(cell) != cell for cell in cells) for cells in rows)
    if not changed:
        return []
    return [
        f"{changed} students have a cell that a spreadsheet would run as a formula; it is written "
        "with an apostrophe before it, so the LMS may not know them: enter their points by hand"
    ]
