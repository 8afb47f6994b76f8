"""Gradescope: the results.json of a submission, and an autograder to upload.

Both follow Gradescope's specification of autograders
(gradescope-autograders.readthedocs.io/en/latest/specs/).
"""

from __future__ import annotations

import json
import stat
import zipfile
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from grader.errors import BadInputError
from grader.handins import file_stem
from grader.report import CheckReport, MilestoneReport, Outcome, shown_points
from grader.split import open_split, read_manifest

WALLED = "Your notebook ran in a room with an operating-system boundary around it."
TRUSTED = "Your notebook ran without a boundary around it."
RELEASED = ("milestones", "grader", "data")  # of a course, what grades
RELEASED_FILES = ("pyproject.toml", "constraints.txt", "README.md", "LICENSE")
TRUTH_INSIDE = (
    "The truth of the split is inside this zip, and so on Gradescope's machines. Upload it only to "
    "an assignment whose autograder students cannot download, and make a fresh split afterwards."
)
UNTRUSTED = (
    "Where its container gives no boundary around a notebook, this autograder grades nothing and "
    "says so. A container without extra rights gives none. --trust-submissions makes one that runs "
    "notebooks all the same: they can then read the truth that lies beside them."
)
EPOCH = (2020, 1, 1, 0, 0, 0)  # one content, one zip


def results(
    milestones: Sequence[MilestoneReport],
    *,
    score: Decimal | None = None,
    output: str = "",
    public: bool = True,
) -> dict[str, Any]:
    """Return results.json as data; `score` stands for the sum of the tests where it is given.

    There is no way to say "not known yet" in it, so there is none for a report with a BROKEN check:
    without a results.json Gradescope tells the student that the autograder failed.
    """
    assert all(m.points is not None for m in milestones)
    content: dict[str, Any] = {
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [
            _test(milestone, check, f"{number}.{position}")
            for number, milestone in enumerate(milestones, start=1)
            for position, check in enumerate(milestone.checks, start=1)
        ],
        "extra_data": {
            "notebooks": {m.milestone: m.notebook_sha256 for m in milestones},
            "public_split": public,
        },
    }
    if output:
        content["output"] = output
    if score is not None:
        content["score"] = float(score)
    return content


def _test(milestone: MilestoneReport, check: CheckReport, number: str) -> dict[str, Any]:
    lines = [check.sentence]
    if check.figure is not None:
        lines.append(f"{check.figure:.4f} (bar {check.bar:g})")
    if check.outcome is Outcome.SKIPPED:
        lines.append("Skipped: it waits for another check.")
    if check.hint:
        lines.append(check.hint)
    points = f"{shown_points(check.points)}/{shown_points(check.points_max)}"
    if check.bonus:
        points += " bonus"
    return {
        "name": f"{milestone.milestone}: {check.name} ({points})",
        "number": number,
        "score": check.points,
        "max_score": check.points_max,
        "status": "passed" if check.outcome is Outcome.PASSED else "failed",
        "output": "\n".join(lines),
        "output_format": "text",
        "visibility": "visible",
    }


def as_text(content: dict[str, Any]) -> str:
    """Return results.json as it is written."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def result_path(student: str) -> str:
    """Return where a student's results.json lies in an export."""
    return f"{file_stem(student)}/results.json"


# ---------------------------------------------------------------- the autograder

SETUP = """\
#!/usr/bin/env bash
# Runs once, as root, when Gradescope builds the image.
set -euo pipefail
cd /autograder/source
find_python() {
    for name in python3.13 python3.12 python3.11 python3; do
        if command -v "$name" >/dev/null &&
            "$name" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))'; then
            command -v "$name"
            return
        fi
    done
    return 1
}
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y libgomp1
find_python >/dev/null || apt-get install -y python3 python3-venv
find_python >/dev/null || apt-get install -y python3.11 python3.11-venv
"$(find_python)" -m venv /autograder/venv
/autograder/venv/bin/python -m pip install --quiet --constraint release/constraints.txt ./release
"""

RUN = """\
#!/usr/bin/env bash
# Runs for each submission. Without a results.json Gradescope says that the autograder failed.
set -euo pipefail
cd "$(dirname "$0")"
export PYTHONPATH="$PWD/source/release"
exec venv/bin/python -m grader.gradebook.on_gradescope "$PWD"{trust}
"""


def write_autograder(course: Path, split_folder: Path, out: Path, *, trust: bool) -> int:
    """Write an autograder zip: the grader, the public data and a split. Return its file count.

    `trust` lets it run notebooks without a boundary where the container gives none.

    Raises:
        BadInputError: course or split cannot be read, or the zip not be written.
    """
    read_manifest(course / "data", skip=("public_split",))
    open_split(split_folder)
    files = {
        "setup.sh": SETUP.encode(),
        "run_autograder": RUN.format(trust=" --trust-submissions" if trust else "").encode(),
    }
    for name, path in _release(course):
        files[f"release/{name}"] = path.read_bytes()
    for name, path in _tree(split_folder):
        files[f"split/{name}"] = path.read_bytes()
    unfinished = out.with_name(f".{out.name}.unfinished")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in sorted(files.items()):
                info = zipfile.ZipInfo(name, EPOCH)
                mode = 0o755 if "/" not in name else 0o644
                info.external_attr = (stat.S_IFREG | mode) << 16
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, content)
        unfinished.replace(out)
    except OSError as error:
        raise BadInputError(f"{out}: cannot be written: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return len(files)


def _release(course: Path) -> Iterator[tuple[str, Path]]:
    for name in RELEASED:
        if not (course / name).is_dir():
            raise BadInputError(f"{course}: has no {name}/, so it is no course's folder")
        for path, file in _tree(course / name):
            yield f"{name}/{path}", file
    for name in RELEASED_FILES:
        if not (course / name).is_file():
            raise BadInputError(f"{course}: has no {name}, so it is no course's folder")
        yield name, course / name


def _tree(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder that are neither hidden nor compiled."""
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        dropped = any(p.startswith((".", "~")) or p == "__pycache__" for p in relative.parts)
        if path.is_file() and not path.is_symlink() and not dropped:
            yield relative.as_posix(), path
