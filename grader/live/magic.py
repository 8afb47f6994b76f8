"""The line magic `%check`: its arguments, its display, and every ending told in a sentence."""

from __future__ import annotations

from typing import Any

from IPython import display as ipython_display
from IPython.core import magic_arguments
from IPython.core.error import UsageError

from grader.errors import BadInputError
from grader.live.asking import StoppedError
from grader.live.check import Reading, check_live, subject_of, with_fresh_run
from grader.live.history import History
from grader.live.keep import keep
from grader.live.show import Shown, Told, make_ready

USAGE = "type `%check`, `%check 2` or `%check --fresh`"
AS_BEFORE = "Your variables are as they were."
# IPython ships partial types.
display: Any = ipython_display.display
Parser: Any = magic_arguments.MagicArgumentParser


def register(shell: Any) -> None:
    """Give IPython's shell the magic, and note from now on when cells are run."""
    live = LiveCheck(shell)
    make_ready()
    shell.register_magic_function(live.check, magic_kind="line", magic_name="check")


class LiveCheck:
    """The checks of one live notebook."""

    def __init__(self, shell: Any) -> None:
        """`shell` is IPython's."""
        self._history = History(shell)
        self._reading = Reading()
        self._shell = shell
        self._parser = Parser(
            "%check",
            description="Grade what is defined in this notebook right now, on the public split.",
        )
        self._parser.add_argument(
            "milestone", nargs="?", default="", help="2, m2 or the notebook's name"
        )
        self._parser.add_argument(
            "--fresh", action="store_true", help="run the notebook from a fresh kernel as well"
        )

    def check(self, line: str) -> None:
        """Grade what is defined in this notebook right now, on the public split.

        `%check` finds the milestone by the notebook, `%check 2` names it. `%check --fresh` runs
        the notebook from a fresh kernel as well, and says what ends otherwise there.
        """
        try:
            wanted = self._parser.parse_argstring(line)
            self._check(wanted.milestone, fresh=wanted.fresh)
        except UsageError as error:
            display(Told(f"{error}; {USAGE}."))
        except BadInputError as error:
            display(Told(f"{error}."))
        except StoppedError as error:
            display(Told(f"stopped while {error}. Nothing was judged. {AS_BEFORE}"))
        except KeyboardInterrupt:
            display(Told(f"stopped. {AS_BEFORE}"))
        except Exception as error:
            display(
                Told(
                    f"BROKEN: the grader itself failed ({type(error).__name__}: {error}). This is "
                    "not your fault; please report it with your notebook."
                )
            )

    def _check(self, named: str, *, fresh: bool) -> None:
        subject = subject_of(named, self._shell.user_ns)
        live = check_live(subject, self._history, self._reading)
        shown = display(Shown(live), display_id=True)
        if fresh:
            live = with_fresh_run(live, subject, self._history)
            shown.update(Shown(live))
        keep(live, subject)
