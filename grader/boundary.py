"""The boundary of a walled room: what a process gives up before a notebook's code runs in it.

Two processes stand between the grader and the notebook. The *keeper*, outside, enters new
namespaces and waits; the first process inside lays out the room, gives up all rights and starts
the notebook's process. When the first one ends, the kernel ends every process of the room.

An ordinary user enters a user namespace first, which grants the rights to lay out the room. Root
lays it out with its own rights and then becomes a user that owns nothing, so that nothing a
notebook does is done as root.
"""

from __future__ import annotations

import os
import resource
import socket
from dataclasses import dataclass
from pathlib import Path

from grader import linux, seccomp
from grader.limits import Limits

STUDENT = 1_000  # the user and group inside, as on most machines with one user
SEPARATE = (
    linux.CLONE_NEWNS
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWNET
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
)
COURSE = Path("/course")
HOME = Path("/home/student")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_LINKED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # links into /usr on most systems
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "alternatives", "fonts")
_PASSWD = f"student:x:{STUDENT}:{STUDENT}:Student:{HOME}:/bin/sh\n"
_NAMES = "hosts: files\n"
_HOSTS = "127.0.0.1 localhost room\n::1 localhost\n"
_GROUP = f"student:x:{STUDENT}:\n"


@dataclass(frozen=True)
class View:
    """What a room shows of the machine: read-only folders at their own paths, and the course."""

    libraries: tuple[tuple[str, str], ...]  # where each appears, and where it really lies
    course: str  # its folders and files appear below /course
    outer_uid: int | None  # the user that root becomes; None: whoever the grader is


def leave(view: View) -> None:
    """In the keeper: enter new namespaces; its next child is the first process of the room.

    Raises:
        OSError: the machine does not allow it.
    """
    if view.outer_uid is not None:
        linux.unshare(SEPARATE)
        return
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(SEPARATE | linux.CLONE_NEWUSER)
    linux.map_identity(STUDENT, uid, gid)


def lay_out(view: View, limits: Limits) -> None:
    """In the first process: make the room the whole file system, then give up every right.

    Raises:
        OSError: the machine does not allow it.
    """
    _make_root(view, limits)
    if view.outer_uid is not None:
        os.setgroups([])
        os.setresgid(view.outer_uid, view.outer_uid, view.outer_uid)
        os.setresuid(view.outer_uid, view.outer_uid, view.outer_uid)
        linux.set_dumpable(True)  # a change of user made /proc/self root's, and the map is there
        linux.unshare(linux.CLONE_NEWUSER)
        linux.map_identity(STUDENT, view.outer_uid, view.outer_uid)
    linux.drop_capabilities()
    linux.no_new_privileges()
    if seccomp.known_machine():
        seccomp.install()
    os.chdir(COURSE / "notebooks")


def bound(limits: Limits) -> None:
    """In the notebook's process: the bounds that the kernel holds it to."""
    wanted = {
        resource.RLIMIT_NPROC: limits.processes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
        # The grader counts a room's CPU seconds; this one ends a single process without it.
        resource.RLIMIT_CPU: int(limits.total_cpu_s * 4),
    }
    for which, value in wanted.items():
        _, hard = resource.getrlimit(which)
        kept = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (kept, kept))


def _make_root(view: View, limits: Limits) -> None:
    # Between the two pivots Python's own folder is not where it was: nothing may be imported.
    inside = STUDENT if view.outer_uid is None else view.outer_uid
    flags = linux.MS_NOSUID | linux.MS_NODEV
    linux.mount("none", Path("/"), None, linux.MS_REC | linux.MS_PRIVATE)
    base = Path("/tmp")  # exists everywhere; only this process sees what is mounted on it
    linux.mount("base", base, "tmpfs", flags, "mode=755")
    old, new = base / "old", base / "new"
    old.mkdir()
    new.mkdir()
    bounds = f"mode=755,size={limits.disk_bytes},nr_inodes={limits.disk_files}"
    linux.mount("room", new, "tmpfs", flags, bounds)
    os.chdir(base)
    linux.pivot_root(".", "old")
    os.chdir("/")
    old, new = Path("/old"), Path("/new")
    owned = [*_writable(new), *_show(view, old, new)]
    for path in owned:
        os.chown(path, inside, inside)
    os.chdir(new)
    linux.mount("proc", new / "proc", "proc", flags | linux.MS_NOEXEC)
    if view.outer_uid is None:  # the user may be root, whom the kernel lets turn its switches
        linux.read_only(new / "proc")
    linux.pivot_root(".", ".")  # the old root now lies over the new one ...
    linux.detach(".")  # ... and goes, with all that it showed
    os.chdir("/")
    linux.loopback_up()  # the room's own, with nobody else on it
    socket.sethostname("room")  # the name of the machine is not the notebook's business


def _writable(new: Path) -> list[Path]:
    """Make the folders a notebook may write to; all lie in the one bounded file system."""
    made = []
    for name in ("tmp", "var/tmp", "dev/shm", "run", str(HOME)[1:], "course", "course/notebooks"):
        path = new / name
        path.mkdir(parents=True)
        made.append(path)
    return made


def _show(view: View, old: Path, new: Path) -> list[Path]:
    """Lay what a notebook may read into the new root; return the files that it may own."""
    for name in ("proc", "etc", "dev/pts"):
        (new / name).mkdir(parents=True, exist_ok=True)
    for device in _DEVICES:
        (new / "dev" / device).touch()
        linux.mount(str(old / "dev" / device), new / "dev" / device, None, linux.MS_BIND)
    for name, target in {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
                         "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
                         "ptmx": "pts/ptmx"}.items():  # fmt: skip
        (new / "dev" / name).symlink_to(target)
    quiet = linux.MS_NOSUID | linux.MS_NOEXEC
    terminals = "newinstance,ptmxmode=0666,mode=620,max=32"  # the machine has 4,096 for all
    linux.mount("pts", new / "dev/pts", "devpts", quiet, terminals)
    for name in (*_LINKED, *(f"etc/{part}" for part in _ETC)):
        if (old / name).is_symlink():
            (new / name).symlink_to((old / name).readlink())
        else:
            _bind(old / name, new / name)
    for at, real in view.libraries:  # a link on the way to it would lead into the new root
        _bind(old / real[1:], new / at[1:])
    for entry in sorted((old / view.course[1:]).iterdir()):
        _bind(entry, new / COURSE.name / entry.name)
    accounts = {"passwd": _PASSWD, "group": _GROUP, "hosts": _HOSTS, "nsswitch.conf": _NAMES}
    for name, text in accounts.items():
        (new / "etc" / name).write_text(text, encoding="utf-8")
    return [new / "etc" / name for name in accounts]


def _bind(source: Path, target: Path) -> None:
    if not source.exists():
        return
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    linux.mount(str(source), target, None, linux.MS_BIND | linux.MS_REC)
    linux.read_only(target)
