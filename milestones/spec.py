"""The words a milestone is written in: calls to the student's code, and checks of what comes back.

A *call* says which function is called with which question, and in what form the answer travels
back. A *check* compares answers with the truth of a split and returns a verdict. Both are data or
pure functions, so the same milestone is asked inside a room, inside a test and inside a live
notebook alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from milestones.compared import Compared
from milestones.diagnosis import Breakdown

# ---------------------------------------------------------------- what is asked


@dataclass(frozen=True)
class Table:
    """An argument: a CSV, read afresh into a DataFrame for each call.

    `path` starts with `data/` (public facts) or `questions/` (the split). `rows` picks rows by
    position, in that order, and the index starts again at 0; without it the whole table is given.
    """

    path: str
    rows: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """What a call that is shown names it by."""
        return self.path.rpartition("/")[2].removesuffix(".csv")


@dataclass(frozen=True)
class Tree:
    """An argument: a JSON file of the questions whose lists of numbers become float64 arrays.

    `pick` walks into the file by keys first. Each call gets a copy of its own.
    """

    path: str
    pick: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Result:
    """An argument: what an earlier call returned, as it lies in the student's process.

    `item` takes one element of a returned tuple.
    """

    call_id: str
    item: int | None = None


Returns = Literal["json", "array", "columns", "kept", "array_and_kept", "raised"]
"""The form an answer travels in.

`json`: numbers, text, lists and dicts. `array`: one float64 array. `columns`: the named columns of
a DataFrame as one (n, len(columns)) array. `kept`: stays in the student's process, for a later
`Result`. `array_and_kept`: a pair whose first half travels as an array. `raised`: the exception
that the call must end in, as `{"raised": type, "message": text}`, or `{"returned": text}`.
"""


@dataclass(frozen=True)
class Call:
    """One question: call `function` with `args` by keyword, or read a variable of that name.

    `id` is `topic` or `topic/case`; checks choose their answers by topic. `cpu_s`, where given, is
    a bound on the CPU seconds of this one call that is part of the task; it is measured from
    outside and reported as yes or no.
    """

    id: str
    function: str
    args: Mapping[str, Any]
    returns: Returns = "json"
    columns: tuple[str, ...] = ()
    cpu_s: float | None = None
    variable: bool = False

    @property
    def topic(self) -> str:
        """The part of the id before the first slash."""
        return self.id.partition("/")[0]

    def __str__(self) -> str:
        """Show the call as a person would type it, with long arguments named, not printed."""
        if self.variable:
            return self.function
        shown = ", ".join(f"{name}={_shown(value)}" for name, value in self.args.items())
        return f"{self.function}({shown})"


CUT = "..."  # stands for the rest of an argument that is too long to be shown


def _shown(value: Any) -> str:
    if isinstance(value, Table):
        return value.name if value.rows is None else f"{value.name}.iloc[...]"
    if isinstance(value, Tree):
        return str(value.pick[-1]) if value.pick else value.path.rpartition("/")[2]
    if isinstance(value, Result):
        return f"<result of {value.call_id}>"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}{CUT}"


# ---------------------------------------------------------------- what comes back


@dataclass(frozen=True)
class Problem:
    """Why a call has no usable answer: `summary` names no question, `detail` may.

    `was_put` tells that it is the question itself that came to this.
    """

    summary: str
    detail: str = ""
    was_put: bool = False


@dataclass(frozen=True)
class Answer:
    """What one call came back with: a value, or the problem that stands in its place.

    Where a dict of it held what cannot be sent, a NaN for one, a problem stands at that key.

    `in_time` tells whether the call kept its bound on CPU seconds, where it has one.
    """

    call: Call
    value: Any = None
    problem: Problem | None = None
    in_time: bool = True


@dataclass(frozen=True)
class Answers:
    """All answers of one run of a notebook, by call id; `again` are those of a second run."""

    by_id: Mapping[str, Answer]
    again: Mapping[str, Answer] | None = None

    def value(self, call_id: str) -> Any:
        """Return the value of one answer; a check sees only answers without a problem."""
        return self.by_id[call_id].value

    def under(self, topic: str) -> Iterator[Answer]:
        """Yield the answers of one topic, in the order they were asked."""
        return (answer for answer in self.by_id.values() if answer.call.topic == topic)


# ---------------------------------------------------------------- files of a split


@dataclass(frozen=True)
class Files:
    """The files below one folder of a split (`questions/` or `truth/`), read on demand.

    `worked_out` is for what several checks make of them, for as long as one judging lasts.
    """

    root: Path
    worked_out: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def json(self, path: str) -> Any:
        """Return a JSON file's content."""
        return json.loads((self.root / path).read_text(encoding="utf-8"))

    def table(self, path: str) -> pd.DataFrame:
        """Return a CSV as a DataFrame; `run_id` stays text."""
        return pd.read_csv(self.root / path, dtype={"run_id": str})

    def arrays(self, path: str) -> dict[str, np.ndarray]:
        """Return the arrays of an .npz file, none of which may be pickled."""
        with np.load(self.root / path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}


# ---------------------------------------------------------------- how it is judged


@dataclass(frozen=True)
class Verdict:
    """What a check found: the share of its points earned, and what to say.

    `asked` names the first question that failed, in its table's `row` where it has one, and
    `detail` what came back: both are shown on the public split only. `remark` holds for the answers
    as a whole and is shown on any split. `figure_name` says what the figure is, and
    `highest_is_best` which of two is the better. `think` is what to think about, where the verdict
    itself knows what went wrong. A check passes at a share of 1.
    """

    share: float
    detail: str = ""
    remark: str = ""
    figure: float | None = None
    bar: float | None = None
    asked: str = ""
    row: int | None = None
    figure_name: str = ""
    highest_is_best: bool = False
    think: str = ""

    @property
    def passed(self) -> bool:
        """Whether every point is earned."""
        return self.share == 1.0


def passed(remark: str = "") -> Verdict:
    """Return a verdict that earns every point."""
    return Verdict(1.0, remark=remark)


def failed(detail: str, remark: str = "", asked: str = "", row: int | None = None) -> Verdict:
    """Return a verdict that earns nothing."""
    return Verdict(0.0, detail=detail, remark=remark, asked=asked, row=row)


Judge = Callable[[Answers, Files], Verdict]

ReadTable = Callable[[str], pd.DataFrame]
"""Reads a public table by the path that a `Table` names it by."""

Compare = Callable[[Answers, Files, ReadTable], Sequence[Compared]]
"""Puts what a check compares side by side, so that a slip common to all of it can be seen."""

Cut = Callable[[Answers, Files, ReadTable], Breakdown | None]
"""Cuts what a check judged into slices that show where its error lies."""


@dataclass(frozen=True)
class Check:
    """One independent promise about the student's work, with its points.

    `topics` are the topics of the calls it reads: where one of those has no answer, the check
    fails with that reason and `judge` is not asked, unless it `sees_problems` and counts them
    itself. `needs` names checks that must have passed; else this one is SKIPPED. `reads` are the
    parts of an answer that it looks at (columns of an array, keys of a dict), all when empty: a
    known mistake is recognised by these alone. The points of a `bonus` check are told beside those
    of its milestone and never among them.

    For the diagnosis of a failing check: `think` is what to think about where no known mistake and
    no slip says more; `compare` gives what slips are sought in, and `cut` the slices of an error.
    """

    name: str
    sentence: str
    points: float
    topics: tuple[str, ...]
    judge: Judge
    needs: tuple[str, ...] = ()
    reads: tuple[int | str, ...] = ()
    sees_problems: bool = False
    bonus: bool = False
    think: str = ""
    compare: Compare | None = None
    cut: Cut | None = None


def check(
    points: float,
    topics: Sequence[str],
    needs: Sequence[str] = (),
    reads: Sequence[int | str] = (),
    *,
    sees_problems: bool = False,
    bonus: bool = False,
    think: str = "",
    compare: Compare | None = None,
    cut: Cut | None = None,
) -> Callable[[Judge], Check]:
    """Make a check of a function; its name is the check's, its docstring what the student reads."""

    def make(judge: Judge) -> Check:
        name = getattr(judge, "__name__", "")
        sentence = " ".join((judge.__doc__ or "").split())
        assert name, "a check is made of a named function"
        assert sentence, f"the check {name} needs a docstring for the student"
        return Check(
            name,
            sentence,
            points,
            tuple(topics),
            judge,
            tuple(needs),
            tuple(reads),
            sees_problems,
            bonus,
            think,
            compare,
            cut,
        )

    return make


@dataclass(frozen=True)
class Milestone:
    """One milestone: the names the student defines, the calls that ask, the checks that judge.

    `runs` is how often the notebook is run from a fresh start; a second run, where asked for,
    shows whether a result can be reproduced. `document` returns, of the answers, what a person
    reads and marks beside the checks, as Markdown; empty where nothing was written.
    """

    slug: str
    title: str
    functions: tuple[str, ...]
    calls: Callable[[Files], list[Call]]
    checks: tuple[Check, ...]
    runs: int = 1
    document: Callable[[Answers], str] | None = None

    @property
    def points(self) -> float:
        """The most this milestone can earn of the course's points; 0 where all is bonus."""
        return sum(check.points for check in self.checks if not check.bonus)

    @property
    def bonus(self) -> float:
        """The most this milestone can earn beside them."""
        return sum(check.points for check in self.checks if check.bonus)
