"""Where a course lies: the folder that holds `data/` and `notebooks/`."""

from __future__ import annotations

from pathlib import Path

from grader.errors import BadInputError


def course_folder(start: Path | None = None) -> Path:
    """Return the nearest folder, from `start` upwards, that holds the course's data.

    An installed copy that runs from its own checkout finds that one when none is above `start`.

    Raises:
        BadInputError: no such folder; the message says where it looked.
    """
    here = (start or Path.cwd()).resolve()
    beside_package = Path(__file__).resolve().parent.parent
    for folder in (here, *here.parents, beside_package):
        if (folder / "data" / "MANIFEST.json").is_file():
            return folder
    raise BadInputError(
        f"{here}: no course here or above (no data/MANIFEST.json); "
        "change into the folder you cloned and try again"
    )
