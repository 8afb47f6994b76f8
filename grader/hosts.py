"""Which way to start rooms a command takes: walled where asked for, or as the user."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from grader.cold import COLD
from grader.errors import BadInputError
from grader.host import Host, NoBoundaryError

IN_ROOMS = "Each notebook runs in a room with an operating-system boundary around it."
WITHOUT_BOUNDARY = "The notebooks ran with your own rights, without a boundary around them."
TRUSTED = (
    "No boundary: {why}.\nAs --trust-submissions says, the notebooks run with your own rights: "
    "they can read your files and the truth of the split, and use the network."
)
REFUSED = (
    "this machine gives no boundary around a notebook: {why}. Linux 5.12 and later gives one to "
    "root, and to other users where user namespaces are allowed (on Ubuntu by sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0, in a container by running it privileged)"
    "{otherwise}"
)


@contextmanager
def walled_host(otherwise: str = "") -> Iterator[Host]:
    """Open a host of walled rooms.

    Raises:
        BadInputError: the machine gives none; the message says what is missing and `otherwise`.
    """
    with ExitStack() as stack:
        try:
            host = stack.enter_context(_open_warm())
        except NoBoundaryError as error:
            raise BadInputError(REFUSED.format(why=error, otherwise=otherwise)) from None
        yield host


@contextmanager
def walled_or_trusted_host() -> Iterator[tuple[Host, str]]:
    """Open a host of walled rooms, or where there is none one without; say which it is."""
    with ExitStack() as stack:
        try:
            host = stack.enter_context(_open_warm())
        except NoBoundaryError as error:
            yield COLD, TRUSTED.format(why=error)
            return
        yield host, IN_ROOMS


@contextmanager
def _open_warm() -> Iterator[Host]:
    if sys.platform != "linux":
        raise NoBoundaryError(f"it needs Linux namespaces, and this is {sys.platform}")
    from grader.warm import open_warm  # it imports what only Linux has

    with open_warm() as host:
        yield host
