"""A filter of system calls: what no notebook needs and a thief or a kernel exploit would want.

The namespaces already take away what these calls would reach; the filter keeps a notebook from
making namespaces of its own and from the parts of the kernel where holes have been found. It
denies by name, so an honest library that uses an unusual call works.

Numbers: `arch/x86/entry/syscalls/syscall_64.tbl` and `include/uapi/asm-generic/unistd.h` of the
Linux sources; the filter's form: `Documentation/userspace-api/seccomp_filter.rst`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from dataclasses import dataclass

from grader.linux import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
)

# name: number on x86_64, number on aarch64
DENIED: dict[str, tuple[int, int]] = {
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # namespaces and mounts
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    # keys, which no namespace but the user's bounds
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # wide doors into the kernel
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "personality": (135, 92),
    "lookup_dcookie": (212, 18),
    "vhangup": (153, 58),
    # memory that belongs to no process and no file system, so that no bound counts it
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "io_setup": (206, 0),
}
_CLONE, _CLONE3, _SOCKET = (56, 220), (435, 435), (41, 198)
_NEW_NAMESPACES = (
    CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET
)
# Others (netlink, packet, vsock, crypto, ...) reach beyond a network namespace or into drivers.
FAMILIES = (int(socket.AF_INET), int(getattr(socket, "AF_UNIX", 1)), int(socket.AF_INET6))

_ARCHITECTURES = {"x86_64": (0, 0xC000_003E), "aarch64": (1, 0xC000_00B7)}  # AUDIT_ARCH_*
_X32_BIT = 0x4000_0000  # x86_64's second table of calls
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARG0 = 0, 4, 16  # in struct seccomp_data; low half of arg 0
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _FAIL_WITH, _KILL = 0x7FFF_0000, 0x0005_0000, 0x8000_0000
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


@dataclass(frozen=True)
class _Step:
    """One instruction: jump distances are counted from the next one."""

    code: int
    value: int
    if_true: int = 0
    if_false: int = 0

    def packed(self) -> bytes:
        return struct.pack("<HBBI", self.code, self.if_true, self.if_false, self.value)


def known_machine() -> bool:
    """Tell whether the numbers of this machine's system calls are known here."""
    return os.uname().machine in _ARCHITECTURES


def program(machine: str) -> bytes:
    """Return the filter for a machine, `x86_64` or `aarch64`, as the kernel reads it."""
    column, architecture = _ARCHITECTURES[machine]
    deny = _Step(_RETURN, _FAIL_WITH | errno.EPERM)
    steps = [
        _Step(_LOAD, _OFFSET_ARCH),
        _Step(_JUMP_EQUAL, architecture, if_true=1),
        _Step(_RETURN, _KILL),  # the calls of another architecture have other numbers
        _Step(_LOAD, _OFFSET_NUMBER),
    ]
    if machine == "x86_64":
        steps += [_Step(_JUMP_AT_LEAST, _X32_BIT, if_false=1), deny]
    for numbers in DENIED.values():
        steps += [_Step(_JUMP_EQUAL, numbers[column], if_false=1), deny]
    # The arguments of clone3 lie in memory that a filter cannot read; the C library then takes
    # clone, whose flags it can.
    no_clone3 = _Step(_RETURN, _FAIL_WITH | errno.ENOSYS)
    steps += [_Step(_JUMP_EQUAL, _CLONE3[column], if_false=1), no_clone3]
    steps += [
        _Step(_JUMP_EQUAL, _CLONE[column], if_false=3),
        _Step(_LOAD, _OFFSET_ARG0),
        _Step(_JUMP_ANY_BIT, _NEW_NAMESPACES, if_false=1),
        deny,
        _Step(_LOAD, _OFFSET_NUMBER),
        _Step(_JUMP_EQUAL, _SOCKET[column], if_false=len(FAMILIES) + 2),
        _Step(_LOAD, _OFFSET_ARG0),
    ]
    for place, family in enumerate(FAMILIES):
        to_allow = len(FAMILIES) - place  # over the rest and the denial
        steps.append(_Step(_JUMP_EQUAL, family, if_true=to_allow))
    steps += [deny, _Step(_RETURN, _ALLOW)]
    return b"".join(step.packed() for step in steps)


def install() -> None:
    """Put the filter on this process and all it starts; asks for `no_new_privileges` before.

    Raises:
        OSError: the kernel has no filters, or refuses this one.
    """
    code = program(os.uname().machine)
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_void_p))

    whole = Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.prctl(
        ctypes.c_int(_PR_SET_SECCOMP),
        ctypes.c_ulong(_MODE_FILTER),
        ctypes.byref(whole),
        ctypes.c_ulong(0),
        ctypes.c_ulong(0),
    )
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp filter: {os.strerror(number)}")
