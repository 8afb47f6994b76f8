"""`make bench`: what grading costs, as ratios against plain Python and Jupyter in one run.

For each solved notebook: `grader check`, `python` on the same cells as a script, and
`jupyter nbconvert --execute`, in turn, so that a slow moment of the machine meets all three.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import milestones
from grader.notebook import read_notebook
from solutions.lesson import ROOT
from solutions.render import solved_path
from tests.cpu_clock import cpu_s

SOLVED = str(ROOT / "solutions" / "solved")
GRADER_CHECK = [sys.executable, "-m", "grader", "check", "--notebooks", SOLVED]
COLUMNS = ("grader", "python", "nbconvert")


@dataclass(frozen=True)
class Cost:
    """Wall and CPU seconds of one command, its children's included."""

    wall_s: float
    cpu_s: float


def measure(command: list[str], cwd: Path) -> Cost:
    """Run a command to its end and return what it cost."""
    before = cpu_s()
    started = time.perf_counter()
    environment = {**os.environ, "MPLBACKEND": "agg", "OMP_WAIT_POLICY": "passive"}
    run = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False)
    wall_s = time.perf_counter() - started
    used = cpu_s() - before
    if run.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{run.stderr.decode()[-2000:]}")
    return Cost(wall_s, used)


def commands(slug: str, folder: Path) -> dict[str, list[str]]:
    """Return the three commands for one solved notebook."""
    script = folder / f"{slug}.py"
    cells = read_notebook(solved_path(slug)).cells
    script.write_text("\n\n".join(cell.source for cell in cells), encoding="utf-8")
    solved = str(solved_path(slug))
    return {
        "grader": [*GRADER_CHECK, slug],
        "python": [sys.executable, str(script)],
        "nbconvert": [
            sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute",
            "--output-dir", str(folder), solved,
        ],
    }  # fmt: skip


def main() -> None:
    """Measure every milestone and all seven; print medians and ratios."""
    parser = argparse.ArgumentParser("python -m tests.bench", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    print(f"median of {repeats}, wall seconds (CPU seconds)   grader against the others, wall")
    print(
        f"{'':24}"
        + "".join(f"{name:>16}" for name in COLUMNS)
        + f"{'/ python':>10}{'/ nbconvert':>12}"
    )
    totals = dict.fromkeys(COLUMNS, 0.0)
    with tempfile.TemporaryDirectory() as temporary:
        for slug in milestones.SLUGS:
            runs: dict[str, list[Cost]] = {name: [] for name in COLUMNS}
            for _ in range(repeats):
                for name, command in commands(slug, Path(temporary)).items():
                    runs[name].append(measure(command, ROOT / "notebooks"))
            wall = {n: statistics.median(c.wall_s for c in costs) for n, costs in runs.items()}
            cpu = {n: statistics.median(c.cpu_s for c in costs) for n, costs in runs.items()}
            print_row(slug, {n: f"{wall[n]:.2f} ({cpu[n]:.2f})" for n in COLUMNS}, wall)
            for name in COLUMNS:
                totals[name] += wall[name]
        print_row("all seven, one by one", {n: f"{totals[n]:.2f}" for n in COLUMNS}, totals)
        together = measure(GRADER_CHECK, ROOT)
        print(f"{'grader check, all seven':24}{together.wall_s:>9.2f} ({together.cpu_s:.2f})")
        split = Path(temporary) / "split"
        made = measure([sys.executable, "-m", "solutions", "split", "--out", str(split)], ROOT)
        print(f"{'solutions split':24}{made.wall_s:>9.2f} ({made.cpu_s:.2f})")


def print_row(title: str, shown: dict[str, str], wall: dict[str, float]) -> None:
    """Print one line of the table."""
    cells = "".join(f"{shown[name]:>16}" for name in COLUMNS)
    ratios = f"{wall['grader'] / wall['python']:>10.2f}{wall['grader'] / wall['nbconvert']:>12.2f}"
    print(f"{title:24}{cells}{ratios}", flush=True)


if __name__ == "__main__":
    main()
