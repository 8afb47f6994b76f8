"""The bounds on one notebook: time, memory, output, and what else of a machine it may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on one notebook. CPU seconds decide; wall time is a generous second bound."""

    cell_cpu_s: float = 120.0  # the slowest solved cell, a LightGBM fit, takes a few
    call_cpu_s: float = 60.0
    total_cpu_s: float = 600.0  # cells, and calls without a bound of their own; solved ones: 20
    wall_per_cpu: float = 10.0  # a busy machine may give a process a tenth of a core
    idle_s: float = 120.0  # asleep, with no processor asked for: nothing in a room is waited for
    total_wall_s: float = 3_600.0  # an hour: whoever sleeps that long learns nothing from it
    spent_cpu_s: float = 0.0  # of that in all, by the rooms that this one goes on for
    spent_wall_s: float = 0.0
    memory_bytes: int = 4 * 2**30  # the solved notebooks stay below 0.6 GiB
    output_bytes: int = 200 * 2**20  # an honest print of 100 MB passes
    disk_bytes: int = 2**30  # all files a walled notebook keeps at once; a plot is under 1 MB
    disk_files: int = 20_000  # a package that a notebook unpacks has a few thousand
    processes: int = 256  # threads count; joblib on 64 cores starts 64 processes of two threads
    sockets: int = 256  # walled; each may hold 0.4 MB that no process is charged for
    open_files: int = 1_024  # what a login shell gets
