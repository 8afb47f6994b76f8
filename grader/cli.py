"""The `grader` command line."""

from __future__ import annotations

import importlib
import io
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from pathlib import Path

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
)

import milestones
from grader import __version__
from grader.cold import COLD
from grader.errors import BadInputError
from grader.grade import grade
from grader.hosts import IN_ROOMS, WITHOUT_BOUNDARY, walled_host
from grader.notebook import read_notebook
from grader.paths import course_folder
from grader.present import as_json, as_junit, print_report
from grader.report import EXIT_BAD_INPUT, EXIT_BROKEN, Report, exit_code
from grader.split import open_split, read_manifest

EXIT_INTERRUPTED = 130  # what a shell reports for a command that Ctrl-C ended
OUT_DIR = click.Path(file_okay=False, path_type=Path)
OUT_FILE = click.Path(dir_okay=False, path_type=Path)


# Commands for instructors, imported when they are asked for: a check must not wait for them.
ELSEWHERE = {
    "class": "grader.class_cli:class_command",
    "gradebook": "grader.gradebook_cli:gradebook",
    "verify": "grader.class_cli:verify",
}


class LazyGroup(click.Group):
    """A group that imports some of its commands late, as click's documentation shows it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted([*super().list_commands(ctx), *ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now if it lies elsewhere."""
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, _, name = ELSEWHERE[cmd_name].partition(":")
        found: click.Command = getattr(importlib.import_module(module), name)
        return found


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="kv-capacity")
def cli() -> None:
    """Grade the KV Capacity notebooks."""


def _slug(_context: click.Context, _parameter: click.Parameter, value: object) -> object:
    try:
        if isinstance(value, tuple):
            return tuple(dict.fromkeys(milestones.slug_of(name) for name in value))
        return milestones.slug_of(str(value))
    except milestones.UnknownMilestoneError as error:
        raise click.BadParameter(str(error)) from None


@cli.command()
@click.argument("milestone", nargs=-1, callback=_slug)
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
    with _progress() as progress, walled_host() if room else nullcontext(COLD) as host:
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


@contextmanager
def _progress() -> Iterator[Callable[[str], Callable[[str, int, int], None]]]:
    """Show a bar on a terminal, and one plain line a milestone elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:

        def plain(slug: str) -> Callable[[str, int, int], None]:
            click.echo(f"grading {slug} ...", err=True)
            return lambda _phrase, _done, _total: None

        yield plain
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.fields[slug]}"),
        BarColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:

        def live(slug: str) -> Callable[[str, int, int], None]:
            task = bar.add_task("starting", slug=slug, total=None)

            def step(phrase: str, done: int, total: int) -> None:
                bar.update(task, description=phrase, completed=done, total=total)
                if done == total:
                    bar.remove_task(task)

            return step

        yield live


@cli.command()
@click.argument("milestone", callback=_slug)
@click.option("--notebooks", type=OUT_DIR, help="Folder of notebooks; default: the course's.")
def reset(milestone: str, notebooks: Path | None) -> None:
    """Give the blank notebook again; what is there is kept beside it."""
    folder = notebooks or course_folder() / "notebooks"
    blank = Path(milestones.__file__).parent / milestone / "blank.ipynb"
    target = folder / f"{milestone}.ipynb"
    if not folder.is_dir():
        raise BadInputError(f"{folder}: there is no such folder of notebooks")
    if target.exists():
        if target.read_bytes() == blank.read_bytes():
            click.echo(f"{target} is already blank.")
            return
        kept = _free_name(target)
        target.rename(kept)
        click.echo(f"Kept your work as {kept}")
    target.write_bytes(blank.read_bytes())
    click.echo(f"{target} is blank again.")


def _free_name(path: Path) -> Path:
    stamp = datetime.now().strftime("%Y-%m-%d-%H%M%S")
    number = 0
    while True:
        suffix = f"-{number}" if number else ""
        candidate = path.with_name(f"{path.stem}.{stamp}{suffix}.ipynb")
        if not candidate.exists():
            return candidate
        number += 1


@cli.command()
@click.argument("notebook", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(1, 65_535))
def serve(notebook: Path, host: str, port: int) -> None:
    """Serve the planner of a milestone 7 notebook over HTTP, with its OpenAPI page."""
    from grader.serve import serve as serve_notebook  # FastAPI is an optional extra

    serve_notebook(notebook, host, port)


def main() -> None:
    """Run the command line; bad input ends in one sentence, a fault of ours in BROKEN."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a console that knows few characters shows escapes for the others
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does
    try:
        sys.exit(cli.main(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_BAD_INPUT)
    except (click.Abort, KeyboardInterrupt):
        click.echo("\ngrader: interrupted; nothing was graded and no report written", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except BadInputError as error:
        click.echo(f"grader: {error}", err=True)
        sys.exit(EXIT_BAD_INPUT)
    except Exception as error:
        click.echo(
            f"grader: BROKEN: the grader itself failed ({type(error).__name__}: {error}). "
            "No points are affected; please report this with the command you ran.",
            err=True,
        )
        sys.exit(EXIT_BROKEN)


if __name__ == "__main__":
    main()
