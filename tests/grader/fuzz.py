"""What the fuzz tests share: how many cases each runs, and the odd values they are made of.

In the suite every run sees the same cases. `KV_FUZZ=long` draws fresh ones, and many more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar
from xml.etree import ElementTree

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import milestones
from grader.judge import Mistake, read_mistakes
from grader.present import as_json, as_junit
from grader.report import CheckReport, MilestoneReport, Outcome, Report
from grader.wire import MAX_INT_BITS
from milestones.spec import Answers, Files, Milestone, Problem
from solutions.exam import reference_answers
from solutions.lesson import ROOT

LONG = os.environ.get("KV_FUZZ") == "long"
TIMES_LONGER = int(os.environ.get("KV_FUZZ_TIMES", "10"))

Case = TypeVar("Case")


def in_the_suite(cases: Sequence[Case], one_in: int = 3) -> Sequence[Case]:
    """Return one case of so many, for tests that are dear; all in a long run."""
    return cases if LONG else cases[::one_in]


RUN_IN_THE_SUITE = milestones.all_slugs() if LONG else (*milestones.SLUGS, "x3_latent_attention")
"""Whose solved notebooks the suite runs: those of other labs measure for half a minute each."""
GRADED_IN_THE_SUITE = (
    milestones.all_slugs()
    if LONG
    else ("m2_kv_bytes", "m5_roofline", "m7_planner", "x3_latent_attention")
)
"""Of them, whose the suite also grades elsewhere: one with a bonus, one run twice, plans, a lab."""
MARK = "SMUGGLED"  # in every text of an answer: a report on a hidden split that holds it quotes
MARKED_NUMBER = 987654321987654321
ENDLESS = 2**MAX_INT_BITS - 1  # the largest whole number that an answer may be


def fuzzed(examples: int) -> settings:
    """Return the settings of a fuzz test of so many cases in the suite."""
    return settings(
        max_examples=examples * (TIMES_LONGER if LONG else 1),
        derandomize=not LONG,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


# ---------------------------------------------------------------- odd values

ODD_FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, -5e-324, 1e-300, 1e-9, 1e15, 2.0**53 + 2, 1e300,
    1.7976931348623157e308, -1.7976931348623157e308,
)  # fmt: skip
ODD_IN_ARRAYS = (*ODD_FLOATS, float("nan"), float("inf"), float("-inf"))
ODD_INTS = (0, 1, -1, 2**31, 2**63, -(2**63), 10**15, MARKED_NUMBER, ENDLESS, -ENDLESS)
ODD_TEXTS = (
    "",
    "\x00",
    "\x1b[2J\x1b]0;title\x07",
    "\ufffe\uffff",
    "\u202eabc",
    "\n\n",
    "x" * 5_000,
)

UNSENT = Problem(f"nan at [0] at [{MARK}]")  # at a key of a dict whose value cannot be sent

texts = (st.sampled_from(ODD_TEXTS) | st.text(max_size=8)).map(lambda text: MARK + text)
numbers = (
    st.sampled_from(ODD_FLOATS)
    | st.sampled_from(ODD_INTS)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
)
leaves = st.none() | st.booleans() | numbers | texts


def trees(keys: st.SearchStrategy[str], *beside: Any) -> st.SearchStrategy[Any]:
    """Return JSON values as strict JSON lets them through, whose dicts may hold these keys.

    What is given `beside` may stand at a key of a dict too, as UNSENT may in an answer.
    """
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                keys | texts, inner | st.sampled_from(beside) if beside else inner, max_size=6
            )
        ),
        max_leaves=12,
    )


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """Draw a float64 array of the shape asked for, or of another, filled with odd values."""
    rows = shape[0] if shape else 4
    found = draw(
        st.sampled_from([shape, shape, shape, (*shape, 1), (rows, 4), (rows + 1, *shape[1:]), (0,)])
        | st.lists(st.integers(0, 4), max_size=4).map(tuple)
        | st.sampled_from([(0, 10**9), (10**9, 0), (rows, 0)])
    )
    few = draw(st.lists(st.sampled_from(ODD_IN_ARRAYS) | st.floats(), min_size=1, max_size=4))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    filled = chance.choice(np.array(few), size=found)
    return np.asfortranarray(filled) if draw(st.booleans()) else filled


# ---------------------------------------------------------------- what is judged


class Shelf(Files):
    """The files of a split, each read once."""

    def json(self, path: str) -> Any:
        return _once("json", self.root, path)

    def table(self, path: str) -> Any:
        return _once("table", self.root, path)

    def arrays(self, path: str) -> Any:
        return _once("arrays", self.root, path)


@cache
def _once(kind: str, root: Any, path: str) -> Any:
    return getattr(Files(root), kind)(path)


PUBLIC = ROOT / "data" / "public_split"
TRUTH = Shelf(PUBLIC / "truth")


@cache
def milestone_of(slug: str) -> Milestone:
    """Return a milestone, loaded once."""
    return milestones.load(slug)


@cache
def right_answers(slug: str) -> Answers:
    """Return the solved notebook's answers on the public split, two runs where two are asked."""
    first = reference_answers(slug, PUBLIC)
    return Answers(first.by_id, first.by_id if milestone_of(slug).runs > 1 else None)


@cache
def mistakes_of(slug: str) -> tuple[Mistake, ...]:
    """Return the mistakes that the public split stores."""
    return read_mistakes(TRUTH, slug)


def sound(slug: str, checks: tuple[CheckReport, ...], *, public: bool) -> None:
    """Assert what holds of every report, whatever was answered."""
    milestone = milestone_of(slug)
    assert [c.name for c in checks] == [c.name for c in milestone.checks]
    for report in checks:
        assert report.outcome is not Outcome.BROKEN, (report.name, report.hint)
        assert report.points is not None
        full = report.points == report.points_max
        assert full is (report.outcome is Outcome.PASSED)
        assert report.points in (0, report.points_max / 2, report.points_max)
        assert report.figure is None or np.isfinite(report.figure)
        assert report.hint.isprintable()
        assert len(report.hint) < 5_000
        if not public:
            assert MARK not in report.hint
            assert str(MARKED_NUMBER)[:6] not in report.hint.replace(",", "")
    readable(MilestoneReport(slug, milestone.title, "", checks), public=public)


def readable(report: MilestoneReport, *, public: bool = True) -> None:
    """Assert that a report can be written as strict JSON and as XML, and read again."""
    whole = Report("split", public, (report,))
    written = as_json(whole)
    written.encode("utf-8")
    json.loads(written, parse_constant=_no_constant)
    ElementTree.fromstring(as_junit(whole))


def _no_constant(token: str) -> None:
    raise AssertionError(f"{token} is no JSON")
