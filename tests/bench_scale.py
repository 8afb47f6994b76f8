"""`make bench-class`: how `grader class` grows with the class, in time and in memory.

Each class is generated as one in the middle of a term: seven notebooks a student, solved, blank,
each of the named mistakes in turn, odd, broken or missing, and each with the student's name in a
cell, so that no two are the same and none is answered from a result that was kept.

With `--few-trees` milestone 6 fits a twentieth of its trees: half of the time of a class goes
there, and what the grader itself holds in memory does not hang on it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat
import pandas as pd
import psutil

import milestones
from solutions.exam import named_mistakes
from solutions.lesson import ROOT, notebook_text, solved_notebook, student_notebook
from tests.few_trees import fit_few_trees
from tests.grader.odd import NAMES, read_odd

SEED = 7
SAMPLE_S = 0.5
ODD_SLUG = "m2_kv_bytes"  # what the odd notebooks of the tests solve
KINDS = (
    *("solved",) * 4, *("mistake",) * 5, *("blank",) * 6,
    "odd", "raises", "exits", "page", "missing",
)  # fmt: skip


@dataclass(frozen=True)
class Size:
    """What one class took."""

    students: int
    notebooks: int
    wall_s: float
    cpu_s: float
    own_bytes: int  # the most that the grader's own process held, which judges and writes
    peak_bytes: int  # the most that it and the rooms beside it held together
    reasons: dict[str, int]  # how many hand-ins ended for each


@dataclass
class Peak:
    """The most memory seen so far: of a process, and of it and all below it together."""

    own_bytes: int = 0
    all_bytes: int = 0


class Hands:
    """Writes hand-ins: of a kind by chance, and of each kind one variety after the other."""

    def __init__(self, *, few_trees: bool) -> None:
        self._few_trees = few_trees
        self._chance = random.Random(SEED)
        self._mistakes = {slug: itertools.cycle(named_mistakes(slug)) for slug in milestones.SLUGS}
        self._odd = itertools.cycle(NAMES)

    def in_(self, folder: Path, student: str) -> int:
        """Write one student's notebooks; return how many there are to grade."""
        folder.mkdir(parents=True)
        written = 0
        for slug in milestones.SLUGS:
            kind = self._chance.choice(KINDS)
            path = folder / f"{slug}.ipynb"
            if kind == "page":
                path.write_text("<!DOCTYPE html>", encoding="utf-8")
            elif kind != "missing":
                path.write_text(self._notebook(kind, slug, student), encoding="utf-8")
                written += 1
        return written

    def _notebook(self, kind: str, slug: str, student: str) -> str:
        notebook = nbformat.reads(_text("blank" if kind == "blank" else "solved", slug), 4)
        if kind == "odd" and slug == ODD_SLUG:
            notebook = read_odd(next(self._odd)).notebook
        if kind == "mistake":
            for edit in next(self._mistakes[slug]).edits:
                for cell in notebook.cells:
                    if cell.source.startswith((f"def {edit.function}(", f"{edit.function} =")):
                        cell.source = edit.apply(cell.source)
        if self._few_trees:
            fit_few_trees(notebook)
        first = {"raises": "\n1 / 0", "exits": "\nimport os\nos._exit(1)"}.get(kind, "")
        name = nbformat.v4.new_code_cell(f"student = {student!r}{first}", id="student")
        notebook.cells.insert(0, name)
        return notebook_text(notebook)


@cache
def _text(kind: str, slug: str) -> str:
    return notebook_text(student_notebook(slug) if kind == "blank" else solved_notebook(slug))


@contextlib.contextmanager
def peak_memory(pid: int) -> Iterator[Peak]:
    """Watch the proportional share of memory of a process and of all below it; yield the peaks."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(SAMPLE_S):
            with contextlib.suppress(psutil.Error):
                whole = psutil.Process(pid)
                own = whole.memory_full_info().pss
                below = 0
                for process in whole.children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        below += process.memory_full_info().pss
                peak.own_bytes = max(peak.own_bytes, own)
                peak.all_bytes = max(peak.all_bytes, own + below)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield peak
    finally:
        done.set()
        watching.join()


def grade(students: int, split: Path, place: Path, *, few_trees: bool) -> Size:
    """Grade a generated class of a size and return what it took."""
    from tests.cpu_clock import cpu_s

    hands = Hands(few_trees=few_trees)
    names = [f"student-{number:04}" for number in range(students)]
    hand_ins = place / f"class of {students}"
    notebooks = sum(hands.in_(hand_ins / name, name) for name in names)
    out = place / f"grades of {students}"
    command = [sys.executable, "-m", "grader", "class", str(hand_ins), "--split", str(split),
               "--out", str(out), "--workers", "2"]  # fmt: skip
    before, started = cpu_s(), time.perf_counter()
    run = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    with peak_memory(run.pid) as peak:
        _, said = run.communicate()
    if run.returncode:
        raise SystemExit(f"grader class ended with {run.returncode}:\n{said[-2_000:]}")
    wall_s = time.perf_counter() - started
    grades = pd.read_csv(out / "grades.csv")
    reasons = {str(reason): int(n) for reason, n in grades["reason"].value_counts().items()}
    used = cpu_s() - before
    return Size(students, notebooks, wall_s, used, peak.own_bytes, peak.all_bytes, reasons)


def main() -> None:
    """Grade classes of several sizes on one fresh hidden split and print how they grow."""
    parser = argparse.ArgumentParser("python -m tests.bench_scale", description=__doc__)
    parser.add_argument("--students", type=int, nargs="+", default=[10, 30, 100])
    parser.add_argument("--few-trees", action="store_true", help="spare milestone 6's fits")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        split = place / "split"
        making = [sys.executable, "-m", "solutions", "split", "--out", str(split)]
        subprocess.run(making, cwd=ROOT, check=True, capture_output=True)
        print(
            f"{'students':>8}{'notebooks':>11}{'wall s':>9}{'CPU s':>9}{'a minute':>10}"
            f"{'CPU s each':>12}{'own MiB':>9}{'all MiB':>9}  ended"
        )
        for students in args.students:
            size = grade(students, split, place, few_trees=args.few_trees)
            print(
                f"{size.students:>8,}{size.notebooks:>11,}{size.wall_s:>9.1f}{size.cpu_s:>9.1f}"
                f"{60 * size.notebooks / size.wall_s:>10.0f}{size.cpu_s / size.notebooks:>12.2f}"
                f"{size.own_bytes / 2**20:>9.0f}{size.peak_bytes / 2**20:>9.0f}  "
                + ", ".join(f"{count:,} {reason}" for reason, count in size.reasons.items()),
                flush=True,
            )


if __name__ == "__main__":
    main()
