"""The `grader` command line."""

from __future__ import annotations

import importlib
import io
import signal
import sys
from datetime import datetime
from pathlib import Path

import click
from click.shell_completion import CompletionItem

import milestones
from grader import __version__
from grader.errors import BadInputError
from grader.options import OUT_DIR, milestone_argument
from grader.paths import course_folder
from grader.report import EXIT_BAD_INPUT, EXIT_BROKEN, EXIT_INTERRUPTED

# Commands that import much, imported when they are asked for: none waits for another's, and a
# shell that completes a word waits for none.
ELSEWHERE = {
    "check": "grader.check_cli:check",
    "class": "grader.class_cli:class_command",
    "completion": "grader.completion_cli:completion",
    "gradebook": "grader.gradebook_cli:gradebook",
    "pack": "grader.pack_cli:pack_command",
    "status": "grader.status_cli:status",
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

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands that begin so, none of them imported, and the options."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [*map(CompletionItem, names), *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="kv-capacity")
def cli() -> None:
    """Grade the KV Capacity notebooks."""


@cli.command()
@milestone_argument()
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
@click.option("--name", "names", multiple=True, help="A host name it is reached by; repeatable.")
@click.option("--open", "browse", is_flag=True, help="Open its page in your browser.")
def serve(notebook: Path, host: str, port: int, names: tuple[str, ...], browse: bool) -> None:
    """Serve the planner of a milestone 7 notebook over HTTP, with its OpenAPI page."""
    from grader.serve.command import serve as serve_notebook  # FastAPI is an optional extra

    serve_notebook(notebook, host, port, names, browse=browse)


def main() -> None:
    """Run the command line; bad input ends in one sentence, a fault of ours in BROKEN."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a console that knows few characters shows escapes for the others
            stream.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does
    try:
        sys.exit(cli.main(prog_name="grader", standalone_mode=False))
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
