"""The `grader gradebook` commands: rules, overrides, marks by hand, and the way to an LMS.

What the gradebook is kept with is an extra, so it is imported where a command needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING

import click

import milestones
from grader.errors import BadInputError
from grader.paths import course_folder
from grader.results import write_whole

if TYPE_CHECKING:
    from grader.gradebook.exports import Export, Term
    from grader.gradebook.rules import Rules

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
FORMATS = ("csv", "canvas", "moodle", "gradescope", "junit", "nbgrader")
MOODLE_FIELDS = ("Email address", "ID number", "Username")


@contextmanager
def _extra() -> Iterator[None]:
    """Say how to install what is missing."""
    try:
        yield
    except ImportError as missing:
        raise BadInputError(
            f"`grader gradebook` needs {missing.name}, which is not installed; "
            "install it in the course's folder with: pip install -e '.[class]'"
        ) from None


def _slug(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else milestones.slug_of(value)
    except milestones.UnknownMilestoneError as error:
        raise click.BadParameter(str(error)) from None


def _points(_context: click.Context, _parameter: click.Parameter, value: str | None) -> object:
    try:
        return None if value is None else Decimal(value)
    except InvalidOperation:
        raise click.BadParameter(f"{value!r} is no number") from None


@click.group()
def gradebook() -> None:
    """Keep a class's grades: rules, overrides, marks by hand, exports.

    BOOK is the gradebook.sqlite that `grader class` wrote, or the URL of a PostgreSQL database.
    """


@gradebook.command()
@click.argument("file", type=FILE, required=False)
@click.option("--example", is_flag=True, help="Print a rules file with every key explained.")
def rules(file: Path | None, example: bool) -> None:
    """Check the rules of a term in FILE, or print an example."""
    with _extra():
        from grader.gradebook.rules import example as example_rules
        from grader.gradebook.rules import read_rules
    if example == (file is not None):
        raise click.UsageError("give a FILE to check, or --example")
    if file is None:
        click.echo(example_rules(), nl=False)
        return
    found = read_rules(file)
    named = {slug for slug, _ in found.tables} | {one.milestone for one in found.extensions}
    labs = [slug for slug in milestones.BONUS_SLUGS if slug in named]
    for slug in (*milestones.SLUGS, *labs):
        due = found.deadline(slug)
        click.echo(f"{slug}: {'no deadline' if due is None else f'due {due.shown()}'}")
    for extension in found.extensions:
        where = extension.milestone or "every milestone"
        click.echo(f"{extension.student}: {where} until {extension.due.shown()}")


@gradebook.command()
@click.argument("book")
@click.argument("student")
@click.argument("milestone", callback=_slug)
@click.option("--check", "part", default="", help="Set this check's points, not the milestone's.")
@click.option("--points", callback=_points, help="The points that are to count.")
@click.option("--withdraw", is_flag=True, help="Take an earlier override back.")
@click.option("--author", required=True, help="Who decides this.")
@click.option("--reason", required=True, help="Why.")
def override(
    book: str, student: str, milestone: str, part: str, points: Decimal | None, withdraw: bool,
    author: str, reason: str,
) -> None:  # fmt: skip
    """Set the points of STUDENT in MILESTONE; the latest override rules, all are kept.

    Points of a whole milestone are final: no late penalty is taken from them.
    """
    with _extra():
        from grader.gradebook import book as books
    if withdraw == (points is not None):
        raise click.UsageError("give --points, or --withdraw")
    with books.open_book(book) as opened:
        done = books.override(
            opened, student, milestone, points, author=author, reason=reason, part=part
        )
    click.echo(done)


@gradebook.command()
@click.argument("book")
@click.argument("milestone", callback=_slug)
@click.argument("marks", type=FILE)
@click.option("--rubric", type=FILE, required=True, help="CSV or TOML: the criteria.")
def manual(book: str, milestone: str, marks: Path, rubric: Path) -> None:
    """Merge points given by hand: MARKS is CSV (student, criterion, points, comment, author).

    All of them are written, or none: every fault of the file is told with its row.
    """
    with _extra():
        from grader.gradebook.book import open_book
        from grader.gradebook.manual import merge_marks, read_marks, read_rubric
    criteria, read = read_rubric(rubric), read_marks(marks)
    with open_book(book) as opened:
        merged = merge_marks(opened, milestone, criteria, read, name=str(marks))
    click.echo(f"{merged.new} new, {merged.changed} changed, {merged.same} as they were")


@gradebook.command()
@click.argument("book")
@click.argument("student", required=False)
@click.option("--milestone", callback=_slug, help="Of this milestone alone.")
def history(book: str, student: str | None, milestone: str | None) -> None:
    """Print what was changed, when and by whom, the oldest first."""
    with _extra():
        from grader.gradebook import book as books
    with books.open_book(book) as opened:
        for one in books.history(opened, student, milestone):
            what = f"{one.student} {one.milestone} {one.part}".rstrip()
            click.echo(
                f"{one.at:%Y-%m-%d %H:%M:%S}Z  {what}  {one.kind}: {one.before or '-'} -> "
                f"{one.after}  ({one.author}: {one.reason or '-'})"
            )


def _common(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--split", "split_id", help="The split that counts, where the book has more."),
        click.option(
            "--times",
            "times_file",
            type=FILE,
            help="CSV (student, milestone, handed_in_at): the LMS's times in place of the files'.",
        ),
        click.option("--rules", "rules_file", type=FILE, help="Rules of the term; default: none."),
    ):
        command = option(command)
    return command


@gradebook.command()
@click.argument("book")
@click.argument("student")
@_common
def explain(
    book: str, student: str, rules_file: Path | None, times_file: Path | None, split_id: str | None
) -> None:
    """Print how a student's points come about, step by step."""
    term = _term(book, rules_file, times_file, split_id, None)
    for standing in term.standings:
        if standing.student == student:
            for slug, final in standing.finals.items():
                _say(f"{slug}: {final.told}")
                for line in final.lines:
                    _say(f"    {line}")
            _say(f"total: {_of(standing.total.points, standing.total.points_max)}")
            return
    raise BadInputError(f"there is no student {student!r} in the gradebook")


def _say(text: str) -> None:
    click.echo(text)


def _of(points: Decimal | None, maximum: Decimal) -> str:
    from grader.gradebook.points import shown

    return f"{shown(points)} of {shown(maximum)}"


def _term(
    book: str, rules_file: Path | None, times_file: Path | None, split_id: str | None,
    roster: Path | None,
) -> Term:  # fmt: skip
    with _extra():
        from grader.gradebook.book import open_book, read_class
        from grader.gradebook.exports import Term
        from grader.gradebook.roster import read_roster
        from grader.gradebook.rules import Rules, read_rules
        from grader.gradebook.standings import standings, strangers
        from grader.gradebook.times import read_times, with_times
    ruling: Rules = Rules() if rules_file is None else read_rules(rules_file)
    people = None if roster is None else read_roster(roster)
    with open_book(book) as opened:
        record = read_class(opened, split_id)
    if times_file is not None:
        times = read_times(times_file, ruling.zone)
        record = with_times(record, times, name=str(times_file))
    for name in strangers(record, ruling):
        click.echo(f"{rules_file}: an extension is for {name!r}, who is not in the book", err=True)
    return Term(record, ruling, standings(record, ruling), people)


@gradebook.command()
@click.argument("book")
@click.option("--format", "form", type=click.Choice(FORMATS), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File to write.")
@click.option("--roster", type=FILE, help="The gradebook as Canvas or Moodle exported it.")
@click.option(
    "--identify-by",
    type=click.Choice(MOODLE_FIELDS),
    default=MOODLE_FIELDS[0],
    show_default=True,
    help="The field by which Moodle knows a student.",
)
@_common
def export(
    book: str, form: str, out: Path, roster: Path | None, identify_by: str,
    rules_file: Path | None, times_file: Path | None, split_id: str | None,
) -> None:  # fmt: skip
    """Write final points for an LMS or another tool; docs/exports.md describes the formats.

    What is not known yet is empty. `gradescope` writes a folder: a results.json a student.
    """
    _refuse_to_replace(out, book, rules_file, times_file, roster)
    term = _term(book, rules_file, times_file, split_id, roster)
    from grader.gradebook import exports

    if form == "gradescope":
        _write_results(term, out)
        return
    written: Export = {
        "csv": exports.as_csv,
        "canvas": exports.as_canvas,
        "moodle": lambda term: exports.as_moodle(term, identify_by),
        "nbgrader": exports.as_nbgrader,
        "junit": exports.junit,
    }[form](term)
    if not out.absolute().parent.is_dir():
        raise BadInputError(f"{out}: its folder does not exist; make it first")
    write_whole(out, written.text)
    for remark in written.remarks:
        click.echo(remark, err=True)
    click.echo(str(out))


def _refuse_to_replace(out: Path, *read: str | Path | None) -> None:
    """Check that what is written is none of what is read: a gradebook's marks are nowhere else.

    Raises:
        BadInputError: it is; the message says which and what to do.
    """
    for source in read:
        # a gradebook's URL is a path that is not there
        if source is not None and out.exists() and Path(source).exists() and out.samefile(source):
            raise BadInputError(
                f"--out {out}: is {source}, which is read here; name another file, nothing was "
                "changed"
            )


def _write_results(term: Term, out: Path) -> None:
    from grader.gradebook.exports import results_files

    files, remarks = results_files(term)
    for name, text in files.items():
        path = out / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInputError(f"{path.parent}: cannot be made: {error.strerror}") from None
        write_whole(path, text)
    for remark in remarks:
        click.echo(remark, err=True)
    click.echo(f"{out}: {len(files)} results.json")


@gradebook.command("copy")
@click.argument("book")
@click.argument("out", type=FILE)
def copy(book: str, out: Path) -> None:
    """Write BOOK as a new SQLite file OUT; the same content gives the same bytes."""
    with _extra():
        from grader.gradebook.book import copy_sorted, open_book
    with open_book(book) as opened:
        copy_sorted(opened, out)
    click.echo(str(out))


@gradebook.command("gradescope-zip")
@click.option("--split", "split_folder", type=FOLDER, required=True, help="Split to grade on.")
@click.option("--course", type=FOLDER, help="The course's folder; default: this one.")
@click.option("--out", type=FILE, required=True, help="The zip to write.")
@click.option(
    "--trust-submissions",
    is_flag=True,
    help="Where Gradescope's container gives no boundary, run the notebooks without one.",
)
def gradescope_zip(
    split_folder: Path, course: Path | None, out: Path, trust_submissions: bool
) -> None:
    """Write an autograder to upload to Gradescope: the grader, the data and a split."""
    from grader.gradebook.gradescope import TRUTH_INSIDE, UNTRUSTED, write_autograder

    count = write_autograder(course or course_folder(), split_folder, out, trust=trust_submissions)
    click.echo(f"{out}: {count} files")
    click.echo(TRUTH_INSIDE, err=True)
    if not trust_submissions:
        click.echo(UNTRUSTED, err=True)


@gradebook.command("github-workflow")
@click.option("--out", type=FILE, help="The file to write; default: print it.")
def github_workflow(out: Path | None) -> None:
    """Write the workflow of a GitHub Classroom assignment: .github/workflows/classroom.yml."""
    from grader.gradebook.github import workflow

    text = workflow([(slug, milestones.load(slug).title) for slug in milestones.SLUGS])
    if out is None:
        click.echo(text, nl=False)
        return
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, text)
    click.echo(str(out))


@gradebook.command("github-result", hidden=True)
@click.argument("report", type=FILE)
def github_result(report: Path) -> None:
    """Print what a step of that workflow hands to GitHub Classroom's reporter."""
    from grader.gradebook.github import result

    click.echo(result(report))


if __name__ == "__main__":
    sys.exit(gradebook())
