"""Label files that are a trap: left where a thief would look, and never what they seem.

Their values are drawn at random from the public labels, so they say nothing about a hidden run,
and honest predictions, which cannot know them, are no more like them than chance allows.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from grader.report import MilestoneReport, Outcome
from grader.split import Split
from milestones.runs import LABELS
from milestones.spec import Answer, Answers, Call, Milestone, Table

QUESTIONS = "questions/runs.csv"
LEFT_AT = ("truth/runs.csv", "split/truth/runs.csv", "data/hidden_split/truth/runs.csv")
MIN_ROWS = 200
MAX_COLUMNS = 16  # the widest honest answer about the runs has four
# Of 200 rows or more, honest predictions pass this rank correlation with values drawn at random
# less than once in 1e12 (a standard deviation is 0.07); half of a thief's blend passes it.
SUSPICIOUS = 0.5
TOLD = "These predictions follow a label file that was left in the room as a trap."
NOTE = "predictions follow the label file left as a trap ({calls}): talk to the student"


@dataclass(frozen=True)
class Bait:
    """A folder of false label files, and their labels by row of the split's runs."""

    folder: Path
    labels: np.ndarray  # (n runs, labels)

    def taken_by(self, answers: Answers) -> list[Call]:
        """Return the calls whose answers follow the bait."""
        return [answer.call for answer in answers.by_id.values() if self._follows(answer)]

    def failed(
        self, milestone: Milestone, report: MilestoneReport, taken: list[Call]
    ) -> MilestoneReport:
        """Return the report with every check that rests on such an answer failed."""
        if not taken:
            return report
        topics = {call.topic for call in taken}
        checks = tuple(
            replace(
                judged,
                outcome=Outcome.FAILED,
                points=0.0,
                figure=None,
                bar=None,
                hint=TOLD,
                mistake="",
            )
            if topics & set(check.topics)
            else judged
            for check, judged in zip(milestone.checks, report.checks, strict=True)
        )
        return replace(
            report, checks=checks, note=NOTE.format(calls=", ".join(call.id for call in taken))
        )

    def _follows(self, answer: Answer) -> bool:
        value = answer.value
        if answer.problem is not None or not isinstance(value, np.ndarray):
            return False
        for rows in _rows_asked(answer, len(self.labels)):
            if len(rows) < MIN_ROWS or value.shape[:1] != (len(rows),):
                continue
            columns = value.reshape(len(rows), -1).T
            if len(columns) > MAX_COLUMNS:  # of nothing that was asked for
                continue
            for left in self.labels[rows].T:
                if any(abs(_rank_correlation(column, left)) > SUSPICIOUS for column in columns):
                    return True
        return False


def leave_bait(split: Split, data: Path, folder: Path) -> Bait | None:
    """Write the false label files of a split below `folder`; None where it has no runs."""
    questions = split.folder / QUESTIONS
    if not questions.is_file():
        return None
    run_ids = pd.read_csv(questions, usecols=["run_id"], dtype=str)["run_id"]
    seen = pd.read_csv(data / "train.csv", usecols=list(LABELS))
    chance = np.random.default_rng(secrets.randbits(128))
    drawn = seen.iloc[chance.integers(len(seen), size=len(run_ids))].reset_index(drop=True)
    for place in LEFT_AT:
        path = folder / place
        path.parent.mkdir(parents=True)
        drawn.set_axis(run_ids).to_csv(path)
    return Bait(folder, drawn[list(LABELS)].to_numpy())


def _rows_asked(answer: Answer, n_runs: int) -> Iterator[np.ndarray]:
    """Yield the rows of the split's runs that a call put its question about."""
    for value in answer.call.args.values():
        if isinstance(value, Table) and value.path == QUESTIONS:
            yield np.arange(n_runs) if value.rows is None else np.array(value.rows)


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Return Spearman's over the rows that hold a number; 0 where too few do, or all the same.

    Few rows may follow anything by chance: a lookup that finds little must accuse nobody.
    """
    known = np.isfinite(a)
    a, b = a[known], b[known]
    if len(a) < MIN_ROWS or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(pd.Series(a).corr(pd.Series(b), method="spearman"))
