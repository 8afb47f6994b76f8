"""Ask one calculator all questions: `python ask.py ADAPTER`, cases as JSON in, answers as JSON out.

Run with the calculator's interpreter and without a network: every connection is refused here, so
that an answer comes from the file alone and nobody is asked for the names of files.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import sys
import warnings
from typing import Any, NoReturn

from tests.calculators import adapters


def _refused(*_args: Any, **_kwargs: Any) -> NoReturn:
    raise OSError("calculators are compared without a network")


def main() -> None:
    """Answer on the real standard output; whatever a calculator prints goes nowhere."""
    socket.getaddrinfo = _refused
    socket.socket.connect = _refused  # type: ignore[method-assign]
    warnings.simplefilter("ignore")
    ask = getattr(adapters, sys.argv[1])
    cases = [adapters.Case(**case) for case in json.load(sys.stdin)]
    answers: list[dict[str, Any]] = []
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        for case in cases:
            try:
                answers.append({"bytes": ask(case), "error": ""})
            except (Exception, SystemExit) as error:
                answers.append({"bytes": None, "error": f"{type(error).__name__}: {error}"})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
