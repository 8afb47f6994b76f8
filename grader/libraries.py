"""What notebooks import, imported ahead of them by a process that waits for one."""

from __future__ import annotations

import contextlib
import importlib

LIBRARIES = (
    "IPython.core.interactiveshell",
    "IPython.extensions.storemagic",
    "lightgbm",
    "matplotlib.font_manager",
    "matplotlib.pyplot",
    "matplotlib_inline.backend_inline",
    "pandas",
    "scipy.optimize",
    "sklearn.ensemble",
    "sklearn.linear_model",
    "sklearn.metrics",
    "sklearn.model_selection",
    "sklearn.pipeline",
    "sklearn.preprocessing",
)
"""None of these starts a thread when it is imported."""


def import_libraries() -> None:
    """Import them all.

    Raises:
        ImportError, OSError: one is not there, or a shared library of its own is not.
    """
    for name in LIBRARIES:
        importlib.import_module(name)


def import_those_there() -> None:
    """Import those that can be: on a student's machine the OpenMP of LightGBM may be missing."""
    for name in LIBRARIES:
        with contextlib.suppress(ImportError, OSError):
            importlib.import_module(name)
