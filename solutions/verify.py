"""`python -m solutions verify`: the proofs that the whole course holds together."""

from __future__ import annotations

import argparse
import json
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import milestones
from grader.grade import grade
from grader.report import shown_points
from grader.split import open_split
from solutions.exam import SEED_BYTES, number_from, write_manifest, write_questions
from solutions.lesson import ROOT, for_student, read_lesson
from solutions.proof import prove
from solutions.render import blank_paths, drift, solved_path

N_SEEDS = 3
COURSE_POINTS = 100
TELLING_LINE = 30  # characters: a shorter line of code may stand anywhere by chance
PUBLIC_TRUTH = Path("data/public_split/truth")  # its mistakes' answers are right but for one
STUDENT_TREES = ("milestones", "grader", "notebooks", "data", "docs")


def main(argv: list[str]) -> int:
    """Run every proof; print what fails; exit 1 when anything does."""
    parser = argparse.ArgumentParser("python -m solutions verify", description=__doc__)
    parser.add_argument(
        "--seeds", type=number_from(1), default=N_SEEDS, help="fresh splits to prove on"
    )
    args = parser.parse_args(argv)
    faults = []
    for title, found in (
        ("every tree is complete", missing_parts()),
        ("every notebook is what its source gives", all_drift()),
        ("nothing of a solution is in the student's trees", leaks()),
        ("the course has 100 points", wrong_points()),
        ("mistakes are caught, on fresh splits", unfair_splits(args.seeds)),
    ):
        sentences = list(found)
        print(f"{'ok  ' if not sentences else 'FAIL'}  {title}", flush=True)
        for sentence in sentences:
            print(f"      {sentence}")
        faults += sentences
    return 1 if faults else 0


def missing_parts() -> Iterator[str]:
    """Yield a sentence for each file that a milestone lacks."""
    for slug in milestones.all_slugs():
        needed = [
            ROOT / "milestones" / slug / "handout.md",
            *(
                ROOT / "solutions" / slug / f"{part}.py"
                for part in ("lesson", "oracle", "mistakes")
            ),
            *blank_paths(slug),
            solved_path(slug),
        ]
        for path in needed:
            if not path.exists():
                yield f"{path.relative_to(ROOT)} is missing"


def all_drift() -> Iterator[str]:
    """Yield a sentence for each notebook that differs from its source."""
    for slug in milestones.all_slugs():
        yield from drift(slug)


def leaks(course: Path = ROOT, files: Iterable[Path] | None = None) -> Iterator[str]:
    """Yield a sentence for each line of a solution that stands in a student's text file.

    `files` are those to look at, relative to `course`: everything in its students' trees if not
    given. Any file that is UTF-8 is text; the truth of the public split is public.
    """
    if files is None:
        trees = (path for tree in STUDENT_TREES for path in (course / tree).rglob("*"))
        files = [path.relative_to(course) for path in trees if "__pycache__" not in path.parts]
    told = [path for path in files if not path.is_relative_to(PUBLIC_TRUTH)]
    texts = {path: text for path in told if (text := _text(course / path))}
    for slug in milestones.all_slugs():
        for line in sorted(solution_lines(slug)):
            written = {
                line,
                *(json.dumps(line, ensure_ascii=plain)[1:-1] for plain in (True, False)),
            }
            for path, text in texts.items():
                if any(form in text for form in written):
                    yield f"{path} holds a line of {slug}'s solution: {line}"


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else None
    except UnicodeDecodeError:
        return None


def solution_lines(slug: str) -> set[str]:
    """Return the telling lines that only the solved copy of a lesson holds."""
    given: set[str] = set()
    secret: set[str] = set()
    for cell in read_lesson(slug):
        lines = {line.strip() for line in cell.source.splitlines()}
        if cell.kind != "exercise":
            given |= lines
            continue
        kept = {line.strip() for line in for_student(cell).splitlines()}
        given |= kept
        secret |= lines - kept
    return {
        line
        for line in secret - given
        if len(line) >= TELLING_LINE and not line.startswith(("#", "import ", "from "))
    }


def wrong_points() -> Iterator[str]:
    """Yield a sentence when the points do not add up to the course's."""
    points = {slug: milestones.load(slug).points for slug in milestones.SLUGS}
    if sum(points.values()) != COURSE_POINTS:
        yield f"the milestones have {sum(points.values()):g} points, not {COURSE_POINTS}: {points}"


def unfair_splits(n_seeds: int) -> Iterator[str]:
    """Yield a sentence for each proof that fails on fresh splits, judged here and in rooms."""
    for number in range(n_seeds):
        seed = secrets.token_bytes(SEED_BYTES)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "split"
            write_questions(folder, seed, 0)
            for slug in milestones.all_slugs():
                yield from (f"seed {seed.hex()}: {f}" for f in prove(slug, folder).faults)
            write_manifest(folder, "hidden", seed, 0)
            yield from (f"seed {seed.hex()}: {f}" for f in room_faults(folder, blanks=number == 0))


def room_faults(folder: Path, *, blanks: bool) -> Iterator[str]:
    """Yield a sentence for each solved notebook below full marks, or blank one above zero."""
    split = open_split(folder)
    for slug in milestones.all_slugs():
        milestone = milestones.load(slug)
        solved = grade(milestone, solved_path(slug), split, ROOT / "data")
        if (solved.points, solved.bonus) != (milestone.points, milestone.bonus):
            lost = [f"{c.name}: {c.hint}" for c in solved.checks if c.points != c.points_max]
            earned = f"{shown_points(solved.points)} and {shown_points(solved.bonus)} bonus"
            most = f"{milestone.points:g} and {milestone.bonus:g}"
            yield f"the solved {slug} earns {earned} of {most}: {lost}"
        if blanks:
            blank = grade(milestone, blank_paths(slug)[1], split, ROOT / "data")
            if (blank.points, blank.bonus) != (0, 0):
                earned = f"{shown_points(blank.points)} and {shown_points(blank.bonus)} bonus"
                yield f"the blank {slug} earns {earned}"
