"""What the commands' arguments and options have in common."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
from click.shell_completion import CompletionItem

import milestones

OUT_DIR = click.Path(file_okay=False, path_type=Path)
OUT_FILE = click.Path(dir_okay=False, path_type=Path)


def _slug(_context: click.Context, _parameter: click.Parameter, value: object) -> object:
    """Return the slug of a milestone's name, or of several those of each, once."""
    try:
        if isinstance(value, tuple):
            return tuple(dict.fromkeys(milestones.slug_of(name) for name in value))
        return milestones.slug_of(str(value))
    except milestones.UnknownMilestoneError as error:
        raise click.BadParameter(str(error)) from None


def _slugs_that_begin_so(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the slugs that complete a word and are not on the line yet."""
    given = ctx.params.get(param.name or "") or ()
    return [
        CompletionItem(slug)
        for slug in milestones.all_slugs()
        if slug.startswith(incomplete.lower()) and slug not in given
    ]


milestone_argument = partial(
    click.argument, "milestone", callback=_slug, shell_complete=_slugs_that_begin_so
)
"""An argument that names a milestone by number, short name or slug; `nargs=-1` takes several."""
