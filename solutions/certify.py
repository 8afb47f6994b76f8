"""The certificate of a split: section by section, what was measured on it and what was proved."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

import pandas as pd

import milestones
from grader.report import CheckReport, MilestoneReport
from milestones.runs import COLUMNS, LABELS, RAW_COLUMNS
from milestones.spec import Files
from solutions.exam import public_runs
from solutions.instructor_runs import OwnRuns
from solutions.proof import Proof, prove
from solutions.world.figures import REQUIRED, Figures, Required
from solutions.world.tune import read_tuned

MAX_RANK_CORRELATION = 0.95  # a single raw column that nearly orders the labels would be a shortcut
WORKERS = 2


@dataclass(frozen=True)
class Certificate:
    """What was found out about one split; it is fair when `faults` is empty."""

    figures: dict[str, float]
    proofs: tuple[Proof, ...]
    repeated_rows: int
    top_rank_correlation: tuple[str, str, float]
    faults: tuple[str, ...]
    own: OwnRuns | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the certificate as it is written into the split."""
        column, label, value = self.top_rank_correlation
        return {
            "schema": 1,
            "fair": not self.faults,
            "runs": None
            if self.own is None
            else {
                "file_sha256": self.own.file_sha256,
                "figures_required": False,
                "public_rows_dropped": self.own.dropped,
            },
            "figures": {
                band.name: {
                    "what": band.sentence,
                    "value": _rounded(self.figures[band.name]),
                    "low": band.low,
                    "high": band.high if math.isfinite(band.high) else None,
                }
                for band in REQUIRED
            },
            "reference": {
                proof.slug: {
                    **_points(proof.reference),
                    "figures": {
                        check.name: {"figure": _rounded(check.figure), "bar": check.bar}
                        for check in proof.reference
                        if check.figure is not None
                    },
                }
                for proof in self.proofs
            },
            "mistakes_caught": {
                proof.slug: {name: list(checks) for name, checks in proof.caught.items()}
                for proof in self.proofs
            },
            "questions_that_repeat_a_public_row": self.repeated_rows,
            "top_rank_correlation": {"column": column, "label": label, "value": _rounded(value)},
            "faults": list(self.faults),
        }


def certify(
    folder: Path, runs: pd.DataFrame, own: OwnRuns | None = None, here: Executor | None = None
) -> Certificate:
    """Measure and prove everything about a split whose questions and truth are written.

    With an instructor's `own` training runs, figures are measured against them and reported, not
    required. The work is done by two processes of its own, or by `here`, and then every answer
    that was judged stays in its proof.
    """
    own = None if own is None or own.train is None else own
    required = own is None
    train = None if own is None else own.train
    with nullcontext(here) if here is not None else workers(WORKERS) as pool:
        slow_first = sorted(milestones.all_slugs(), key=lambda slug: slug < "m5")
        waiting: dict[str, Future[Proof]] = {
            slug: pool.submit(prove, slug, folder, margins=required, keep=here is not None)
            for slug in slow_first
        }
        figures_waiting = pool.submit(_measure, train, runs)
        proofs = tuple(waiting[slug].result() for slug in milestones.all_slugs())
        figures = figures_waiting.result()
    repeated = repeated_rows(folder, runs)
    top = top_rank_correlation(runs)
    faults = [fault for proof in proofs for fault in proof.faults]
    if required:
        faults += [
            _outside(band, figures[band.name])
            for band in REQUIRED
            if not band.holds(figures[band.name])
        ]
        if top[2] > MAX_RANK_CORRELATION:
            faults.append(f"{top[0]} alone nearly orders {top[1]}: rank correlation {top[2]:.3f}")
    if repeated:
        faults.append(f"{repeated} questions repeat a public row")
    return Certificate(figures, proofs, repeated, top, tuple(faults), own)


def _points(checks: tuple[CheckReport, ...]) -> dict[str, float | None]:
    report = MilestoneReport("", "", "", checks)
    points: dict[str, float | None] = {"points": report.points, "points_max": report.points_max}
    if report.bonus_max:
        points |= {"bonus": report.bonus, "bonus_max": report.bonus_max}
    return points


def _rounded(figure: float) -> float | None:
    """Return a figure as JSON can hold it: own runs of one model leave some undefined."""
    return round(figure, 4) if math.isfinite(figure) else None


def _measure(train: pd.DataFrame | None, test: pd.DataFrame) -> dict[str, float]:
    return (public_figures() if train is None else _figures(train)).measure(test)


@cache
def public_figures() -> Figures:
    """Return what measures the figures of section 4: fitted on the public runs once a process."""
    return _figures(public_runs("train"))


def _figures(train: pd.DataFrame) -> Figures:
    return Figures(train, {scheme: best["settings"] for scheme, best in read_tuned().items()})


def _outside(band: Required, value: float) -> str:
    return f"{band.name} is {value:.4f}, outside {band.low:g} to {band.high:g}"


@contextmanager
def workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Give a pool of processes that end with the work: at once when it is stopped."""
    # One thread a process: two LightGBM fits side by side would spin against each other.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    before = set(active_children())
    pool = ProcessPoolExecutor(
        count,
        mp_context=get_context("spawn"),
        # A Ctrl-C reaches every process of the terminal; one of them answers it, in one sentence.
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(active_children()) - before:
            worker.terminate()
            worker.join()
        raise
    pool.shutdown()


def repeated_rows(folder: Path, runs: pd.DataFrame) -> int:
    """Return how many question rows of the split stand, label aside, in the public data.

    An overlay of training runs (`data/`) asks nothing. The public split asks about the validation
    runs themselves, `runs`: there only its labelled tables must keep clear of them.
    """
    asked = [column for column in COLUMNS if column not in (*LABELS, "run_id")]
    validation = public_runs("validation")
    is_public = validation["run_id"].isin(runs["run_id"]).all()
    found = 0
    for path in sorted((folder / "questions").rglob("*.csv")):
        if path.parent.name == "data":
            continue
        table = Files(path.parent).table(path.name)
        if not set(asked) <= set(table.columns):
            continue
        others = [public_runs("train")]
        if not is_public or set(LABELS) & set(table.columns):
            others.append(validation)
        public = pd.concat(others)[asked].drop_duplicates()
        found += len(table[asked].drop_duplicates().merge(public, on=asked))
    return found


def top_rank_correlation(runs: pd.DataFrame) -> tuple[str, str, float]:
    """Return the raw column and the label with the strongest rank correlation, and how strong.

    A constant column (own runs may have one) orders nothing.
    """
    strengths = {
        (column, label): abs(float(runs[column].corr(runs[label], method="spearman")))
        for column in RAW_COLUMNS
        if (runs[column] != runs[column].iloc[0]).any()
        for label in LABELS
    }
    nothing = ((RAW_COLUMNS[0], LABELS[0]), 0.0)
    (column, label), strongest = max(strengths.items(), key=lambda item: item[1], default=nothing)
    return column, label, strongest
