"""`grader serve`: the planner of a milestone-7 notebook over HTTP, with a page to show it on.

The one package of the grader that knows a milestone. The notebook runs in a process of its own
(`planner`), its calls wait in a bounded line (`turns`), and whatever a request is, it first passes
a gate (`gate`).
"""

from __future__ import annotations

from grader.errors import BadInputError

try:
    import fastapi
    import fastapi_offline
    import uvicorn
except ImportError as missing:
    raise BadInputError(
        f"`grader serve` needs {missing.name}, which is not installed; "
        "install it in the course's folder with: pip install -c constraints.txt -e '.[serve]'"
    ) from None

__all__ = ["fastapi", "fastapi_offline", "uvicorn"]
