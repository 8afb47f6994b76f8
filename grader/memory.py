"""The memory that a family of processes holds, counted from outside."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

# Memory shared between processes and named by no file shows so in Linux's list of mappings. It
# stays until it is unmapped, though a process may give back its own pages of it (MADV_DONTNEED).
SHARED_AND_NAMELESS = "/dev/zero (deleted)"


def memory_bytes(family: list[psutil.Process], bound: int) -> int:
    """Return the bytes that a family holds: what is resident, and shared memory out of sight.

    Only a family whose address space passes `bound` can hide so much, so that only its list of
    mappings, which is slow to read, is read.
    """
    resident, addressed = 0, 0
    for process in family:
        with contextlib.suppress(psutil.Error):
            memory = process.memory_info()
            resident += memory.rss
            addressed += memory.vms
    if addressed <= bound or resident > bound:
        return resident
    shared: dict[str, int] = {}
    for process in family:
        shared |= _shared_and_nameless(process.pid)
    return resident + sum(shared.values())


def _shared_and_nameless(pid: int) -> dict[str, int]:
    """Return the sizes of a process's shared mappings of no file, by inode (proc_pid_maps(5))."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):  # it has ended, or the system has no such list
        for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
            if line.endswith(SHARED_AND_NAMELESS):
                span, _rights, _offset, _device, inode, *_name = line.split()
                start, _, end = span.partition("-")
                found[inode] = found.get(inode, 0) + int(end, 16) - int(start, 16)
    return found
