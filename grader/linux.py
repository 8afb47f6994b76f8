"""The few Linux system calls behind a room's boundary that Python 3.11 has no function for.

Constants are those of the kernel's public headers (`<linux/sched.h>`, `<linux/mount.h>`,
`<linux/prctl.h>`, `<linux/capability.h>`); numbers of the newer calls are the same on every
architecture.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4_096, 16_384, 1 << 18
MNT_DETACH = 2

_MOUNT_SETATTR = 442  # Linux 5.12
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV = 1, 2, 4

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_CAPABILITY_VERSION_3 = 0x2008_0522
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_LAST_POSSIBLE_CAPABILITY = 63  # a capability set is 64 bits

_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_PERF_HEAD = "=IIQQQQQ"  # type, size, config, period, sample and read formats, flags
_PERF_ATTRIBUTES_SIZE = 128  # PERF_ATTR_SIZE_VER7
_PERF_SOFTWARE, _PERF_TASK_CLOCK = 1, 1
_PERF_INHERIT, _PERF_EXCLUDE_KERNEL, _PERF_EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_PERF_CLOSE_ON_EXEC = 8


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Enter new namespaces."""
    _checked(_libc().unshare(ctypes.c_int(flags)), "unshare")


def map_identity(inside: int, uid: int, gid: int) -> None:
    """In a new user namespace, show the one outer user and group there is as `inside`."""
    proc = Path("/proc/self")
    (proc / "setgroups").write_text("deny", encoding="utf-8")  # the kernel asks for this first
    (proc / "gid_map").write_text(f"{inside} {gid} 1", encoding="utf-8")
    (proc / "uid_map").write_text(f"{inside} {uid} 1", encoding="utf-8")


def mount(source: str, target: Path, kind: str | None, flags: int, options: str = "") -> None:
    """Mount; `kind` is a file system, or None for a bind or a change of flags."""
    result = _libc().mount(
        os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        options.encode(),
    )
    _checked(result, f"mount {target}")


def read_only(target: Path) -> None:
    """Make a mount and all mounts below it read-only, without set-user-id files and devices."""
    wanted = _MountAttributes(_MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV, 0, 0, 0)
    result = _libc().syscall(
        ctypes.c_long(_MOUNT_SETATTR),
        ctypes.c_long(_AT_FDCWD),
        os.fsencode(target),
        ctypes.c_long(_AT_RECURSIVE),
        ctypes.byref(wanted),
        ctypes.c_long(ctypes.sizeof(wanted)),
    )
    _checked(result, f"mount_setattr {target}")


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root folder and lay the old root at `old`."""
    _checked(_libc().pivot_root(new.encode(), old.encode()), "pivot_root")


def detach(target: str) -> None:
    """Unmount a tree at once, whoever still uses it."""
    _checked(_libc().umount2(target.encode(), ctypes.c_int(MNT_DETACH)), f"umount {target}")


def loopback_up() -> None:
    """Let processes of this network namespace talk to one another over 127.0.0.1 and ::1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        fcntl.ioctl(channel, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def die_with_parent(signal_number: int) -> None:
    """Ask for a signal when the parent ends, however that happens."""
    _checked(_prctl(_PR_SET_PDEATHSIG, signal_number), "prctl")


def set_dumpable(dumpable: bool) -> None:
    """Let processes of the same user look into this one through /proc, or not."""
    _checked(_prctl(_PR_SET_DUMPABLE, int(dumpable)), "prctl")


def no_new_privileges() -> None:
    """Give up gaining rights by starting a program (set-user-id files, file capabilities)."""
    _checked(_prctl(_PR_SET_NO_NEW_PRIVS, 1), "prctl")


def drop_capabilities() -> None:
    """Give up every capability, for good."""
    for capability in range(_LAST_POSSIBLE_CAPABILITY + 1):
        if _prctl(_PR_CAPBSET_DROP, capability) < 0:
            break  # beyond the kernel's last one
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; 64 bits in two halves
    _checked(_libc().capset(header, nothing), "capset")


def task_clock() -> int | None:
    """Open a clock of the CPU time of this thread and of all it starts from now on.

    Eight bytes read from it are nanoseconds. It counts what each process used however that ends,
    waited for or not, which `os.times` and /proc do not. None where the kernel gives no such clock
    (`perf_event_open` of <linux/perf_event.h>, a software event, user time's privilege).
    """
    number = _PERF_EVENT_OPEN.get(os.uname().machine)
    if number is None:
        return None
    attributes = ctypes.create_string_buffer(_PERF_ATTRIBUTES_SIZE)
    # Without the two exclusions it takes a privilege; a task clock runs on in the kernel anyway.
    flags = _PERF_INHERIT | _PERF_EXCLUDE_KERNEL | _PERF_EXCLUDE_HYPERVISOR
    struct.pack_into(
        _PERF_HEAD, attributes, 0, _PERF_SOFTWARE, len(attributes), _PERF_TASK_CLOCK, 0, 0, 0, flags
    )
    this_thread, any_cpu, no_group = 0, -1, -1
    opened = _libc().syscall(
        ctypes.c_long(number), attributes, this_thread, any_cpu, no_group, _PERF_CLOSE_ON_EXEC
    )
    return None if opened < 0 else int(opened)


def read_clock(clock: int) -> float:
    """Return the seconds that a task clock has counted."""
    nanoseconds: int = struct.unpack("=Q", os.read(clock, 8))[0]
    return nanoseconds / 1e9


def _prctl(option: int, value: int) -> int:
    zero = ctypes.c_ulong(0)
    result: int = _libc().prctl(ctypes.c_int(option), ctypes.c_ulong(value), zero, zero, zero)
    return result
