"""CPU seconds of everything that descends from this thread, waited for or not.

`os.times` knows only of processes that were waited for. The processes of a room are ended with
their PID namespace, where the kernel waits for nobody: most of what they used would be missing
from what `grader class` costs. Where the kernel gives no clock that counts them, `os.times` stands
in, and the table says so.
"""

from __future__ import annotations

import os
import platform

if platform.system() == "Linux":
    from grader.linux import read_clock, task_clock

    _CLOCK = task_clock()
else:
    _CLOCK = None
COUNTS_ALL = _CLOCK is not None


def cpu_s() -> float:
    """Return the CPU seconds used so far; the difference of two readings is what ran between."""
    if _CLOCK is not None:
        return read_clock(_CLOCK)
    used = os.times()
    return used.children_user + used.children_system
