"""CPU seconds of everything that descends from this thread, waited for or not.

`os.times` knows only of processes that were waited for. The processes of a room are ended with
their PID namespace, where the kernel waits for nobody: most of what they used would be missing
from what `grader class` costs. The kernel's task clock (perf_event_open, as `perf stat` uses it)
is handed on to every descendant and adds up what each used, however it ends. Where the kernel
gives no such clock, `os.times` stands in, and the table says so.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_SYSCALLS = {"x86_64": 298, "aarch64": 241}  # perf_event_open
_ATTRIBUTES = "=IIQQQQQ"  # type, size, config, period, sample and read formats, flags
_SIZE = 128  # PERF_ATTR_SIZE_VER7
_SOFTWARE, _TASK_CLOCK = 1, 1
_INHERIT, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 1, 1 << 5, 1 << 6
_THIS_THREAD, _ANY_CPU, _NO_GROUP, _CLOSE_ON_EXEC = 0, -1, -1, 8


def _open_task_clock() -> int | None:
    """Return a descriptor of the clock; None where there is none."""
    number = _SYSCALLS.get(platform.machine())
    if number is None or platform.system() != "Linux":
        return None
    # Without the two exclusions it takes a privilege; a task clock runs on in the kernel anyway.
    flags = _INHERIT | _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    attributes = ctypes.create_string_buffer(_SIZE)
    struct.pack_into(_ATTRIBUTES, attributes, 0, _SOFTWARE, _SIZE, _TASK_CLOCK, 0, 0, 0, flags)
    opened = ctypes.CDLL(None).syscall(
        number, attributes, _THIS_THREAD, _ANY_CPU, _NO_GROUP, _CLOSE_ON_EXEC
    )
    return None if opened < 0 else int(opened)


_TASK_CLOCK_END = _open_task_clock()
COUNTS_ALL = _TASK_CLOCK_END is not None


def cpu_s() -> float:
    """Return the CPU seconds used so far; the difference of two readings is what ran between."""
    if _TASK_CLOCK_END is not None:
        nanoseconds: int = struct.unpack("=Q", os.read(_TASK_CLOCK_END, 8))[0]
        return nanoseconds / 1e9
    used = os.times()
    return used.children_user + used.children_system
