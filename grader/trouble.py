"""Why a call has no usable answer, in sentences of ours.

A student's process says only which kind of trouble it met. Everything else that it says (the
type it returned, a message, the name of an exception of its own) could quote a hidden question,
so it stays in the detail, which is shown on the public split alone.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass

from milestones.spec import Call, Problem

SENTENCES = {
    "missing": "`{function}` is not defined",
    "no_function": "`{function}` is not a function",
    "unbuilt": "`{function}` could not be asked: an earlier call gave nothing to go on with",
    "unread": "`{function}` could not be asked: the notebook's process cannot read the question",
    "unwritten": "`{function}` is not written yet",
    "raised": "`{function}` raised {error} on a question",
    "wrong_form": "`{function}` gave something other than what was asked for",
    "unreadable": "`{function}` gave a value that cannot be read",
}
WAS_PUT = ("raised", "wrong_form", "unreadable")  # the question was put, and something came of it
OWN_ERROR = "an exception of its own"


@dataclass(frozen=True)
class Trouble:
    """What the student's process met instead of an answer: a kind of `SENTENCES`, and more."""

    kind: str
    error: str = ""
    detail: str = ""


def problem(call: Call, trouble: Trouble) -> Problem:
    """Return the problem as a report tells it; an unknown kind is as good as no answer."""
    sentence = SENTENCES.get(trouble.kind, SENTENCES["unreadable"])
    summary = sentence.format(function=call.function, error=known_error(trouble.error))
    return Problem(summary, trouble.detail, was_put=trouble.kind in WAS_PUT and not call.variable)


def printable(text: str) -> str:
    """Return text that every terminal, JSON and XML file can hold: no controls, no surrogates."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c.isprintable() else "?" for c in whole)


def known_error(name: str) -> str:
    """Return the name of an exception that Python itself has, and only of such a one."""
    found = getattr(builtins, name, None)
    if isinstance(found, type) and issubclass(found, BaseException):
        return name
    return OWN_ERROR
