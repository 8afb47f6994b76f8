"""What a person sees while a notebook is graded: a bar on a terminal, a plain line elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from grader.perform import Progress as Told


@contextmanager
def shown_progress() -> Iterator[Callable[[str], Told]]:
    """Yield what makes, of a milestone's slug, the function that is told of its progress."""
    console = Console(stderr=True)
    if not console.is_terminal:

        def plain(slug: str) -> Told:
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

        def live(slug: str) -> Told:
            task = bar.add_task("starting", slug=slug, total=None)

            def step(phrase: str, done: int, total: int) -> None:
                bar.update(task, description=phrase, completed=done, total=total)
                if done == total:
                    bar.remove_task(task)

            return step

        yield live
