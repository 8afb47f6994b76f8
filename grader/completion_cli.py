"""`grader completion`: what a shell needs to complete commands, options and milestones."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

PROGRAM = "grader"
VARIABLE = "_GRADER_COMPLETE"  # what click looks for, made of the program's name
# The script itself goes into the shell's own file: a shell starts where no `grader` is on PATH.
HOW = {
    "bash": "grader completion bash >> ~/.bashrc (bash 4.4 or later)",
    "zsh": "grader completion zsh >> ~/.zshrc (which must have run compinit before)",
    "fish": "grader completion fish > ~/.config/fish/completions/grader.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(sorted(HOW)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell; its first line says where to put it."""
    make = get_completion_class(shell)
    assert make is not None, "click knows the three shells"
    found = make(ctx.find_root().command, {}, PROGRAM, VARIABLE)
    # Not its source(): for bash that starts a bash to ask its version, which may be another one.
    script = found.source_template % found.source_vars()
    click.echo(f"# Completes {PROGRAM} in {shell}. Once: {HOW[shell]}\n{script}")
