"""The memory that a family of processes holds, counted from outside."""

from __future__ import annotations

import contextlib
import mmap
from pathlib import Path

import psutil

PAGE = mmap.PAGESIZE
# Memory shared between processes and named by no file shows so in Linux's list of mappings. It
# stays until it is unmapped, though a process may give back its own pages of it (MADV_DONTNEED).
SHARED_AND_NAMELESS = "/dev/zero (deleted)"


def memory_bytes(family: list[psutil.Process], bound: int) -> int:
    """Return the bytes that a family holds: what is resident, and shared memory out of sight.

    The quick sum counts a page once for each process that shares it, so a family beyond `bound` is
    counted again by its shares. Only one whose address space passes `bound` can hide so much, so
    only then its lists of mappings, which are slow to read, are read.
    """
    resident = sum(map(_resident, family))
    if resident > bound:
        resident = sum(map(_share, family))
    if resident > bound or sum(map(_addressed, family)) <= bound:
        return resident
    shared: dict[str, int] = {}
    for process in family:
        shared |= _shared_and_nameless(process.pid)
    return resident + sum(shared.values())


def _resident(process: psutil.Process) -> int:
    try:
        found: int = process.memory_info().rss
    except psutil.Error:
        return 0
    return found or _of_a_thread(process.pid, column=1)


def _addressed(process: psutil.Process) -> int:
    try:
        found: int = process.memory_info().vms
    except psutil.Error:
        return 0
    return found or _of_a_thread(process.pid, column=0)


def _share(process: psutil.Process) -> int:
    """Return a process's proportional share of what is resident, where the system tells it."""
    try:
        found: int = process.memory_full_info().pss
    except (psutil.Error, AttributeError):
        return _resident(process)
    return found or _resident(process)


def _of_a_thread(pid: int, column: int) -> int:
    """Return a size from the threads of a process whose first one has ended: its own file is 0."""
    with contextlib.suppress(OSError, ValueError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            pages = int((task / "statm").read_text(encoding="utf-8").split()[column])
            if pages:
                return pages * PAGE
    return 0


def _shared_and_nameless(pid: int) -> dict[str, int]:
    """Return the sizes of a process's shared mappings of no file, by inode (proc_pid_maps(5))."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):  # it has ended, or the system has no such list
        for task in Path(f"/proc/{pid}/task").iterdir():
            for line in (task / "maps").read_text(encoding="utf-8").splitlines():
                if line.endswith(SHARED_AND_NAMELESS):
                    span, _rights, _offset, _device, inode, *_name = line.split()
                    start, _, end = span.partition("-")
                    found[inode] = found.get(inode, 0) + int(end, 16) - int(start, 16)
            if found:
                break  # threads share their mappings
    return found
