"""The environment variables of a room's process, the same for every way to start one."""

from __future__ import annotations

from pathlib import Path

from grader import GRADED_RUN

PACKAGES = Path(__file__).resolve().parent.parent  # where this very copy of the grader lies


def environment() -> dict[str, str]:
    """Return the variables that make a notebook's results the same wherever it is graded."""
    return {
        GRADED_RUN: "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "NO_COLOR": "1",
        "PYTHONBREAKPOINT": "0",  # one left in is run over, as by a kernel without a debugger
        # One thread each: sums come out the same on any machine, and two fits side by side do
        # not spin against each other (OMP_NUM_THREADS alone does not cure that).
        "OMP_THREAD_LIMIT": "1",
        "OMP_WAIT_POLICY": "passive",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "VECLIB_MAXIMUM_THREADS": "1",
    }
