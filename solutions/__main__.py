"""`python -m solutions COMMAND`: the instructors' and maintainers' commands."""

from __future__ import annotations

import signal
import sys
from importlib import import_module

from grader.errors import BadInputError
from milestones import UnknownMilestoneError

INTERRUPTED = 130  # as a shell reports a command that Ctrl-C ended

COMMANDS = {
    "render": ("solutions.render", "write the notebooks from their source, or check them"),
    "verify": ("solutions.verify", "prove that blank fails, solved passes, mistakes are caught"),
    "trial": ("solutions.trial", "one milestone's checks on a throwaway split, while writing them"),
    "split": ("solutions.split", "make a fresh hidden split, proved fair before it is used"),
    "reveal": ("solutions.reveal", "publish a split's commitment, open it later, verify it"),
    "runs": ("solutions.convert", "your own measurements as the runs that split --runs reads"),
    "release": ("solutions.release", "make the student repository, and prove it there"),
    "capacity": (
        "solutions.capacity.command",
        "a model's KV cache from its config.json, and what fits on a GPU",
    ),
    "picture": ("solutions.picture", "the README's picture of a report, from a real grading"),
    "world": (
        "solutions.world.command",
        "the world's figures, and how it compares with measurements",
    ),
}

WHOLE_OR_NOTHING = ("split", "release")  # what they make is there whole or not at all


def main() -> int:
    """Run one command."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in COMMANDS:
        width = max(map(len, COMMANDS))
        print("usage: python -m solutions COMMAND [options]\n", file=sys.stderr)
        for command, (_, does) in COMMANDS.items():
            print(f"  {command:{width}}  {does}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # cleans up as Ctrl-C does
    try:
        module = import_module(COMMANDS[name][0])
        return int(module.main(sys.argv[2:]))
    except (BadInputError, UnknownMilestoneError) as error:
        print(f"{name}: {error}", file=sys.stderr)
    except OSError as error:
        # a full disk's error names no file, and one of ours may have no number
        where = f"{error.filename}: " if error.filename else ""
        print(f"{name}: {where}{error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        outcome = "stopped, nothing was written" if name in WHOLE_OR_NOTHING else "interrupted"
        print(f"\n{name}: {outcome}", file=sys.stderr)
        return INTERRUPTED
    return 2


if __name__ == "__main__":
    sys.exit(main())
