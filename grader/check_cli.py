"""`grader check`: one's own notebooks, graded once or on every save."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import click
from rich.console import Console

import milestones
from grader.cold import COLD
from grader.errors import BadInputError
from grader.grade import grade
from grader.hosts import IN_ROOMS, WITHOUT_BOUNDARY, walled_host
from grader.notebook import read_notebook
from grader.options import OUT_DIR, OUT_FILE, milestone_argument
from grader.paths import course_folder
from grader.present import as_json, as_junit, print_report
from grader.progress import shown_progress
from grader.report import Report, exit_code
from grader.split import open_split, read_manifest


@click.command()
@milestone_argument(nargs=-1)
@click.option("--notebooks", type=OUT_DIR, help="Folder of notebooks; default: the course's.")
@click.option("--split", "split_folder", type=OUT_DIR, help="Split to grade on; default: public.")
@click.option("--json", "json_file", type=OUT_FILE, help="Write the report as JSON.")
@click.option("--junit", "junit_file", type=OUT_FILE, help="Write the report as JUnit XML.")
@click.option("--html", "html_file", type=OUT_FILE, help="Write the report as a page to read.")
@click.option("--room", is_flag=True, help="Put the boundary of `grader class` around it (Linux).")
def check(
    milestone: tuple[str, ...],
    notebooks: Path | None,
    split_folder: Path | None,
    json_file: Path | None,
    junit_file: Path | None,
    html_file: Path | None,
    room: bool,
) -> None:
    """Grade your notebooks: `grader check 5`, or all of them with no argument.

    Exits 0 when every check passed, 1 when one failed, 2 on bad usage or input, 3 when the grader
    itself broke.
    """
    course = course_folder()
    data = course / "data"
    read_manifest(data, skip=("public_split",))
    split = open_split(split_folder or data / "public_split")
    folder = notebooks or course / "notebooks"
    if not folder.is_dir():
        raise BadInputError(f"{folder}: there is no such folder of notebooks")
    for file in (json_file, junit_file, html_file):
        if file is not None and not file.absolute().parent.is_dir():
            raise BadInputError(f"{file}: its folder does not exist; make it first")

    reports = []
    with shown_progress() as progress, walled_host() if room else nullcontext(COLD) as host:
        for slug in milestone or milestones.SLUGS:
            path = folder / f"{slug}.ipynb"
            reports.append(
                grade(milestones.load(slug), path, split, data, progress=progress(slug), host=host)
            )
    report = Report(split.split_id, split.public, tuple(reports))
    for file, written in ((json_file, as_json), (junit_file, as_junit)):
        if file is not None:
            _write(file, written(report))
    if html_file is not None:
        _write(html_file, _page(report, folder))
    print_report(report, Console(highlight=False))
    click.echo(IN_ROOMS if room else WITHOUT_BOUNDARY)
    sys.exit(exit_code(reports))


def _page(report: Report, folder: Path) -> str:
    from grader.html import report_page  # a slow import, for those who ask for a page

    notebooks = {}
    for milestone in report.milestones:
        if milestone.unreadable is None:
            path = folder / f"{milestone.milestone}.ipynb"
            notebooks[milestone.milestone] = read_notebook(path)
    return report_page(report, notebooks)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise BadInputError(f"{file}: cannot be written: {error.strerror}") from None
