"""How it is judged: notebooks run in a room, answers come out as data, checks compare them.

Nothing here knows a milestone by name, except `grader.serve`, which serves the planner.

In a live notebook `%load_ext grader` gives the magic `%check`, and `from grader import check` the
function. Both import what they need only then.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

GRADED_RUN = "KV_CAPACITY_GRADED_RUN"  # set in the environment of every room
NOT_HERE = "%check: not inside the graded run, where your cells are run and then asked anyway."


def load_ipython_extension(shell: Any) -> None:
    """Give IPython the magic `%check` (called by `%load_ext grader`)."""
    if _in_graded_run():  # a room shows no grader to import from, and grades by itself

        def say_not_here(_line: str) -> None:
            print(NOT_HERE)

        shell.register_magic_function(say_not_here, magic_kind="line", magic_name="check")
        return
    from grader.live.magic import register

    register(shell)


def check(milestone: object = "", *, fresh: bool = False) -> None:
    """Grade what is defined in this notebook right now, as `%check MILESTONE` does.

    With `fresh` the notebook is run from a fresh kernel as well, and the two are compared.
    """
    if _in_graded_run():
        print(NOT_HERE)
        return
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is None:
        print("check() looks at a live notebook; outside one use the command `grader check`.")
        return
    if shell.find_line_magic("check") is None:
        shell.extension_manager.load_extension("grader")
    shell.run_line_magic("check", f"{milestone} {'--fresh' if fresh else ''}".strip())


def _in_graded_run() -> bool:
    import os

    return GRADED_RUN in os.environ
