"""What runs on Gradescope: a submission's notebooks are graded, and results.json is written.

    python -m grader.gradebook.on_gradescope FOLDER [--trust-submissions]

FOLDER is Gradescope's `/autograder`: `submission/` is read, `results/results.json` written. Each
notebook runs in a walled room. Where the container gives no boundary, nothing is graded, unless
the zip was made with --trust-submissions; what was done is said in the result. Whatever ends as
BROKEN leaves no results.json, and Gradescope says that the autograder failed: never a zero.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import milestones
from grader.errors import BadInputError
from grader.grade import grade
from grader.gradebook.gradescope import TRUSTED, WALLED, as_text, results
from grader.hosts import walled_host, walled_or_trusted_host
from grader.report import Outcome
from grader.split import open_split, read_manifest
from grader.view import refuse_to_show

TRUST = "--trust-submissions"


def main(argv: list[str]) -> int:
    """Grade one submission; return 0 where a result was written."""
    root, trust = Path(argv[0]), TRUST in argv[1:]
    try:
        _grade(root, trust=trust)
    except BadInputError as error:
        print(f"BROKEN: {error}")  # Gradescope shows it to instructors alone
        return 3
    return 0


def _grade(root: Path, *, trust: bool) -> None:
    source = root / "source"
    data = source / "release" / "data"
    read_manifest(data, skip=("public_split",))
    split = open_split(source / "split")
    found, output = notebooks(root / "submission")
    with ExitStack() as stack:
        if trust:
            host, said = stack.enter_context(walled_or_trusted_host())
        else:
            host = stack.enter_context(
                walled_host("; to run notebooks without one make the zip with " + TRUST)
            )
            said = ""
        print(said)
        refuse_to_show((source / "split", root / "submission"), host.shown)
        reports = [
            grade(milestones.load(slug), path, split, data, host=host)
            for slug, path in found.items()
        ]
        output.append(WALLED if host.walled else TRUSTED)
    broken = [r.milestone for r in reports if r.count(Outcome.BROKEN)]
    if broken:
        raise BadInputError(f"the grader broke on {', '.join(broken)}; no points are affected")
    content = results(reports, output="\n".join(output), public=split.public)
    if not content["tests"]:
        content["score"] = 0.0
    folder = root / "results"
    folder.mkdir(exist_ok=True)
    (folder / "results.json").write_text(as_text(content), encoding="utf-8", newline="\n")


def notebooks(folder: Path) -> tuple[dict[str, Path], list[str]]:
    """Return a submission's notebooks by milestone, and what to tell about the others."""
    found: dict[str, Path] = {}
    told = []
    for path in sorted(folder.rglob("*.ipynb"), key=lambda p: (len(p.parts), str(p))):
        if path.is_symlink() or any(p.startswith(".") for p in path.relative_to(folder).parts):
            continue
        try:
            slug = milestones.slug_of(path.name)
        except milestones.UnknownMilestoneError:
            told.append(f"{path.name} is no milestone's notebook; it was not graded.")
            continue
        if slug in found:
            told.append(f"{slug}.ipynb is there more than once; the first was graded.")
            continue
        found[slug] = path
    if not found:
        names = ", ".join(f"{slug}.ipynb" for slug in milestones.SLUGS)
        told.append(f"No notebook was found; hand in any of {names}.")
    return dict(sorted(found.items())), told


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
