"""`grader check`: one's own notebooks, graded once or on every save."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import click
from rich.console import Console

import milestones
from grader import history
from grader.cold import COLD
from grader.desk import Desk
from grader.errors import BadInputError
from grader.grade import grade, unreadable
from grader.host import Host
from grader.hosts import IN_ROOMS, WITHOUT_BOUNDARY, walled_host
from grader.options import OUT_DIR, OUT_FILE, milestone_argument
from grader.paths import course_folder
from grader.present import print_report
from grader.progress import shown_progress
from grader.report import MilestoneReport, Report, exit_code
from grader.spare import open_spares
from grader.written import Files, show_in_browser

PAGE = "report.html"  # of `--open` without a file, in the grader's own folder
SPARES = 2  # a milestone that is run twice takes both; for others a second save finds one, too


@click.command()
@milestone_argument(nargs=-1)
@click.option("--notebooks", type=OUT_DIR, help="Folder of notebooks; default: the course's.")
@click.option("--split", "split_folder", type=OUT_DIR, help="Split to grade on; default: public.")
@click.option("--json", "json_file", type=OUT_FILE, help="Write the report as JSON.")
@click.option("--junit", "junit_file", type=OUT_FILE, help="Write the report as JUnit XML.")
@click.option("--html", "html_file", type=OUT_FILE, help="Write the report as a page to read.")
@click.option("--open", "browse", is_flag=True, help="Show the page in the browser.")
@click.option("--watch", "on_save", is_flag=True, help="Grade again on every save, until Ctrl-C.")
@click.option("--room", is_flag=True, help="Put the boundary of `grader class` around it (Linux).")
def check(
    milestone: tuple[str, ...],
    notebooks: Path | None,
    split_folder: Path | None,
    json_file: Path | None,
    junit_file: Path | None,
    html_file: Path | None,
    browse: bool,
    on_save: bool,
    room: bool,
) -> None:
    """Grade your notebooks: `grader check 5`, or all of them with no argument.

    Exits 0 when every check passed, 1 when one failed, 2 on bad usage or input, 3 when the grader
    itself broke; a bonus that is missed fails nothing, unless all of a milestone is bonus. With
    --watch that is the state when Ctrl-C ends it.
    """
    course = course_folder()
    desk = Desk(course, notebooks or course / "notebooks", split_folder)
    desk.split()
    if not desk.folder.is_dir():
        raise BadInputError(f"{desk.folder}: there is no such folder of notebooks")
    if browse and html_file is None:
        html_file = history.own_folder(course) / PAGE
    files = Files(json_file, junit_file, html_file)
    files.refuse_lost_ones()
    slugs = milestone or milestones.SLUGS
    if on_save:
        reports = _on_every_save(slugs, desk, files, room=room, browse=browse)
    else:
        reports = _once(slugs, desk, files, room=room)
        if browse and html_file is not None:
            show_in_browser(html_file)
    sys.exit(exit_code(reports))


def _once(
    slugs: Sequence[str], desk: Desk, files: Files, *, room: bool
) -> tuple[MilestoneReport, ...]:
    split = desk.split()
    reports = []
    with shown_progress() as progress, walled_host() if room else nullcontext(COLD) as host:
        for slug in slugs:
            milestone, path, told = milestones.load(slug), desk.notebook(slug), progress(slug)
            reports.append(grade(milestone, path, split, desk.data, progress=told, host=host))
    report = Report(split.split_id, split.public, tuple(reports))
    desk.remember(report, "check")
    files.write(report, desk.folder)
    print_report(report, Console(highlight=False))
    click.echo(IN_ROOMS if room else WITHOUT_BOUNDARY)
    return report.milestones


def _on_every_save(
    slugs: Sequence[str], desk: Desk, files: Files, *, room: bool, browse: bool
) -> tuple[MilestoneReport, ...]:
    from grader.watch import watch  # what a check that is done once does without
    from grader.watch_show import WatchScreen

    page = files.html if browse else None
    screen = WatchScreen(desk, files, page, Console(highlight=False), alone=len(slugs) == 1)
    with _ready_host(room=room) as (host, refill):

        def grade_one(slug: str, cancelled: threading.Event) -> MilestoneReport:
            milestone, path = milestones.load(slug), desk.notebook(slug)
            try:
                split = desk.split()  # an update of the course may come while it watches
            except BadInputError as error:
                return unreadable(milestone, str(error))
            with shown_progress() as progress:
                told = progress(slug)
                return grade(
                    milestone, path, split, desk.data, None, told, host=host, cancelled=cancelled
                )

        def idle() -> None:
            screen.idle()
            refill()

        screen.begin(len(slugs))
        last = watch(slugs, desk.folder, grade_one, screen, idle)
    if not last:
        raise KeyboardInterrupt
    if sys.stdout.isatty():
        click.echo()  # the terminal has put ^C on this line
    click.echo(IN_ROOMS if room else WITHOUT_BOUNDARY)
    return tuple(last.values())


@contextmanager
def _ready_host(*, room: bool) -> Iterator[tuple[Host, Callable[[], None]]]:
    """Open a host that is fast from the second notebook on, and what to call in a quiet moment."""
    if room:
        with walled_host() as walled:
            yield walled, lambda: None
        return
    with open_spares(SPARES) as spares:
        yield spares, spares.refill
