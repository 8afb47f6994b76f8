"""From a verdict to a diagnosis: what was asked, what came back, what it equals, a thought.

Pure. On a split that is not public only what holds for the answers as a whole is told.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import pandas as pd

from grader.places import Places
from grader.trouble import printable
from milestones.compared import Compared, Slip
from milestones.diagnosis import Breakdown, Diagnosis
from milestones.slips import recognise
from milestones.spec import Answers, Check, Files, ReadTable, Verdict

NOTHING = (
    "Does the function `return` its result? What it only prints, or only assigns, never comes back."
)
MAX_TEXT = 2_000  # characters; an answer that is quoted (its keys, a message) may have any length


_A_WORD = re.compile(r"\A[a-z]+(?=[ ,;:])")  # and no name of code


@dataclass(frozen=True)
class Known:
    """A known mistake that all answers equal: its hint, and how many answers there are."""

    hint: str
    n_answers: int


@dataclass(frozen=True)
class Judged:
    """A failed check with what it was judged on; `unanswered` where there was nothing to judge."""

    check: Check
    verdict: Verdict
    answers: Answers
    truth: Files
    unanswered: bool = False


def explain(
    judged: Judged, known: Known | None, read_table: ReadTable | None, *, public: bool
) -> Diagnosis:
    """Return the diagnosis of a failed check.

    Slips and slices are sought on a public split where `read_table` reads its tables.
    """
    verdict = judged.verdict
    slip, breakdown = None, None
    compared: Sequence[Compared] = ()
    if public and read_table is not None and not judged.unanswered:
        # What explains an outcome must not change it: a fault of ours here costs a sentence.
        with contextlib.suppress(Exception):
            compared = _compared(judged, read_table)
            slip = None if known is not None else recognise(compared)
        with contextlib.suppress(Exception):
            breakdown = _breakdown(judged, read_table)
    came_back = (verdict.detail if public else "", verdict.remark)
    if judged.unanswered:
        came_back = came_back[::-1]  # what happened, and then how
    told = Diagnosis(
        asked=_in_its_row(verdict, compared) if public else "",
        came_back=" ".join(_sentences(came_back)),
        equals=_equals(known, slip),
        think=_think(judged, known, slip),
        breakdown=breakdown,
    )
    return replace(
        told,
        asked=printable(_short(told.asked)),
        equals=printable(told.equals),
        think=" ".join(_sentences((told.think,))),
    )


def reader(places: Places) -> ReadTable:
    """Return what reads the tables that calls name, from where they lie, each once."""

    @cache
    def read_table(path: str) -> pd.DataFrame:
        return pd.read_csv(places.file(path), dtype={"run_id": str})

    return read_table


def in_one_string(diagnosis: Diagnosis, *, equals: bool = True) -> str:
    """Return a diagnosis as one text of whole sentences, with or without what it equals."""
    came_back = diagnosis.came_back
    if diagnosis.asked and came_back:
        came_back = f"{diagnosis.asked}: {came_back}"
    told = (came_back, diagnosis.equals if equals else "", diagnosis.think)
    return " ".join(_sentences(told))


def _compared(judged: Judged, read_table: ReadTable) -> Sequence[Compared]:
    compare = judged.check.compare
    return () if compare is None else compare(judged.answers, judged.truth, read_table)


def _breakdown(judged: Judged, read_table: ReadTable) -> Breakdown | None:
    cut = judged.check.cut
    return None if cut is None else cut(judged.answers, judged.truth, read_table)


def _in_its_row(verdict: Verdict, compared: Sequence[Compared]) -> str:
    """Return the question, and where it is a row of a table the row's number and quantities."""
    if verdict.row is None:
        return verdict.asked
    table = next((one for one in compared if one.rows), None)
    names = () if table is None else table.of_row
    quantities = {} if table is None else table.quantities
    shown = ", ".join(f"{name}={quantities[name][verdict.row]:g}" for name in names)
    row = f"{verdict.asked}, row {verdict.row}"
    return f"{row} ({shown})" if shown else row


def _equals(known: Known | None, slip: Slip | None) -> str:
    if known is not None:
        return f"a known mistake, in {'all your answers' if known.n_answers > 1 else 'your answer'}"
    return "" if slip is None else str(slip)


def _think(judged: Judged, known: Known | None, slip: Slip | None) -> str:
    if judged.verdict.think:
        return judged.verdict.think
    if known is not None:
        return known.hint
    if slip is not None:
        return slip.think
    if judged.unanswered:
        return ""
    return NOTHING if _returns_nothing(judged) else judged.check.think


def _returns_nothing(judged: Judged) -> bool:
    """Tell whether a function answered None to every question, as one without `return` does."""
    asked = [a for topic in judged.check.topics for a in judged.answers.under(topic)]
    return all(a.value is None and a.call.returns == "json" and not a.call.variable for a in asked)


def _sentences(parts: Sequence[str]) -> list[str]:
    """Return each part once, as a sentence that any report can hold, whatever it quotes."""
    told = (printable(_short(part.strip())) for part in parts if part.strip())
    unique = dict.fromkeys(_A_WORD.sub(lambda word: word.group().capitalize(), p) for p in told)
    return [part if part.endswith((".", "!", "?", ")")) else f"{part}." for part in unique]


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."
