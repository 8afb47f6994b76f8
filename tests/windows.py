"""What Windows lacks, taken away from this process: run before the grader is imported.

A simulation: the interpreter and its libraries stay those of this machine and are imported first;
then all that only POSIX has is gone, and `sys.platform` says win32. What it cannot show is how
Windows itself does things.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys

LIBRARIES = (
    "IPython.core.interactiveshell", "IPython.core.magics", "IPython.extensions.storemagic",
    "asyncio", "click.shell_completion", "concurrent.futures.thread", "cryptography.hazmat",
    "ctypes", "ctypes.util", "datasketch", "filelock", "jinja2", "junitparser",
    "lightgbm", "matplotlib.font_manager", "matplotlib.pyplot", "matplotlib_inline.backend_inline",
    "multiprocessing.pool", "nbconvert", "nbformat", "numpy", "pandas", "platform", "psutil",
    "pydantic", "rich.console", "rich.progress", "scipy.optimize", "sklearn.ensemble",
    "sqlalchemy.dialects.sqlite", "sqlite3", "subprocess", "tempfile", "threadpoolctl", "uuid",
    "watchfiles", "webbrowser", "yaml", "zipfile", "fastapi", "uvicorn", "distributed",
)  # fmt: skip
MODULES = ("fcntl", "grp", "posix_ipc", "pty", "pwd", "resource", "syslog", "termios", "tty")
OF_OS = (
    "chown", "fchown", "fork", "forkpty", "geteuid", "getegid", "getgid", "getgroups", "getpgid",
    "getresuid", "getuid", "killpg", "mkfifo", "mknod", "openpty", "pidfd_open", "posix_fallocate",
    "posix_spawn", "sched_getaffinity", "sched_setaffinity", "setegid", "seteuid", "setgid",
    "setpgid", "setresuid", "setsid", "setuid", "sysconf", "uname", "wait", "wait3", "wait4",
)  # fmt: skip
OF_SIGNAL = ("SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "setitimer", "pause", "pthread_sigmask")
OF_SOCKET = ("send_fds", "recv_fds", "sethostname")


def become_windows() -> None:
    """Take away what Windows lacks."""
    import socket

    for name in LIBRARIES:
        with contextlib.suppress(ImportError):  # one of an extra that is not installed
            importlib.import_module(name)
    for name in MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # to import it raises
    for owner, names in ((os, OF_OS), (signal, OF_SIGNAL), (socket, OF_SOCKET)):
        for name in names:
            if hasattr(owner, name):
                delattr(owner, name)
    sys.platform = "win32"
