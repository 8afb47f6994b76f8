"""`make bench`: what `%check` costs in a live notebook beyond the student's own code.

For each solved notebook, run once in a shell of this process: a first check, and the median of
those after it, in CPU seconds, which a busy machine does not stretch. The functions' own are taken
around each call and left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

os.environ.setdefault("MPLBACKEND", "agg")

import milestones
from grader.live.check import Reading, check_live, subject_of
from grader.live.show import Shown, make_ready
from grader.notebook import read_notebook
from solutions.lesson import ROOT
from solutions.render import solved_path
from tests.grader.livenotebook import LiveNotebook


@dataclass
class Own:
    """Seconds spent in the student's functions; of those that call each other, the outermost's."""

    seconds: float = 0.0
    depth: int = 0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its seconds counted."""

        def counted(*given: Any, **named: Any) -> Any:
            started = time.process_time()
            self.depth += 1
            try:
                return function(*given, **named)
            finally:
                self.depth -= 1
                if self.depth == 0:
                    self.seconds += time.process_time() - started

        return counted


def checks(slug: str, path: Path, repeats: int) -> tuple[list[float], list[float]]:
    """Return the seconds of each check of a live notebook beyond its functions, and theirs."""
    os.environ["JPY_SESSION_NAME"] = str(path)
    path.write_bytes(solved_path(slug).read_bytes())
    notebook, own, reading = LiveNotebook(path), Own(), Reading()
    with redirect_stdout(StringIO()):
        notebook.run(*(cell.source for cell in read_notebook(path).cells))
    names = notebook.shell.user_ns
    for name in milestones.load(slug).functions:
        if callable(names.get(name)):
            names[name] = own.timed(names[name])
    beyond, theirs = [], []
    for _ in range(1 + repeats):
        own.seconds, started = 0.0, time.process_time()
        live = check_live(subject_of("", names), notebook.history, reading)
        Shown(live)._repr_mimebundle_()
        beyond.append(time.process_time() - started - own.seconds)
        theirs.append(own.seconds)
        assert live.report.points == live.report.points_max, slug
    return beyond, theirs


def main() -> None:
    """Measure every milestone, or those that are named."""
    parser = argparse.ArgumentParser("python -m tests.bench_live", description=__doc__)
    parser.add_argument("milestone", nargs="*", type=milestones.slug_of, default=milestones.SLUGS)
    parser.add_argument("--repeats", type=int, default=5)
    wanted = parser.parse_args()
    repeats: int = wanted.repeats
    os.chdir(ROOT / "notebooks")
    make_ready()
    print(f"%check, CPU seconds beyond the student's own code, median of {repeats}")
    print(f"{'':24}{'first':>10}{'then':>10}{'own code':>10}")
    with tempfile.TemporaryDirectory() as temporary:
        for slug in wanted.milestone:
            beyond, theirs = checks(slug, Path(temporary) / f"{slug}.ipynb", repeats)
            then, own = statistics.median(beyond[1:]), statistics.median(theirs[1:])
            print(f"{slug:24}{beyond[0]:>10.3f}{then:>10.3f}{own:>10.3f}", flush=True)


if __name__ == "__main__":
    main()
