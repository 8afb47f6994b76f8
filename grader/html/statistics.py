"""What a class's reports say together: pure counts and correlations, no page.

Each function goes through a class once and keeps of a hand-in a number or a name at most.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from grader.classroom import Graded, Reason
from grader.report import CheckReport, Outcome

FEWEST_FOR_R = 20  # below this a correlation says nothing of a check
FAIR_R = 0.3  # from here on test makers call a question's correlation with the rest fair
RAN = (
    Reason.GRADED,
    Reason.LIMIT,
    Reason.ENDED,
)  # what a check says of other endings is not the student's


@dataclass(frozen=True)
class CheckNumbers:
    """How a class did on one check, among those whose notebooks ran."""

    slug: str
    name: str
    sentence: str
    points_max: float
    bonus: bool
    passed: int
    partly: int
    failed: int
    waits: int
    broken: int
    r: float | None  # None where nothing can be correlated
    n_r: int
    interval: tuple[float, float] | None  # of r, at 95 %; None where r says nothing

    @property
    def n(self) -> int:
        """How many were judged."""
        return self.passed + self.partly + self.failed + self.waits

    @property
    def rate(self) -> float | None:
        """The share that passed."""
        return self.passed / self.n if self.n else None

    @property
    def warning(self) -> str:
        """What is wrong with the check as a measure, if anything."""
        if self.n == 0:
            return "nobody was judged"
        if self.passed == self.n:
            return "everyone passes: it tells nobody apart"
        if self.passed == 0:
            return "no one passes: it tells nobody apart"
        if self.interval is None or self.interval[1] >= FAIR_R:
            return ""
        if self.interval[1] < 0:
            return "those who pass it do worse elsewhere"
        return "passing it says little of the rest of the work"


def totals(earned: Iterable[tuple[str, float | None]]) -> dict[str, float | None]:
    """Return each student's points together; None where a part of them is not known."""
    found: dict[str, float | None] = {}
    for student, points in earned:
        before = found.get(student, 0.0)
        found[student] = None if before is None or points is None else before + points
    return found


class _Tally:
    """What a class did on one check, as it is counted."""

    def __init__(self, slug: str, check: CheckReport) -> None:
        self.slug = slug
        self.check = check
        self.outcomes: Counter[Outcome] = Counter()
        self.partly = 0
        self.passes = array("b")  # of those whose points are known
        self.rests = array("d")  # their points without this check's

    def add(self, check: CheckReport, total: float | None) -> None:
        self.outcomes[check.outcome] += 1
        self.partly += check.outcome is Outcome.FAILED and bool(check.points)
        if total is not None and check.points is not None:
            self.passes.append(check.outcome is Outcome.PASSED)
            self.rests.append(total if check.bonus else total - check.points)

    def numbers(self) -> CheckNumbers:
        check, n_r = self.check, len(self.passes)
        r = point_biserial(self.passes, self.rests)
        return CheckNumbers(
            slug=self.slug,
            name=check.name,
            sentence=check.sentence,
            points_max=check.points_max,
            bonus=check.bonus,
            passed=self.outcomes[Outcome.PASSED],
            partly=self.partly,
            failed=self.outcomes[Outcome.FAILED] - self.partly,
            waits=self.outcomes[Outcome.SKIPPED],
            broken=self.outcomes[Outcome.BROKEN],
            r=r,
            n_r=n_r,
            interval=None if r is None else interval_of(r, n_r),
        )


def check_numbers(
    graded: Iterable[Graded], whole: Mapping[str, float | None]
) -> list[CheckNumbers]:
    """Return every check's numbers, in the order of the reports.

    `whole` are each student's points over all milestones, without bonus; None where not known.
    """
    tallies: dict[tuple[str, str], _Tally] = {}
    for one in graded:
        for check in one.report.checks:
            key = one.report.milestone, check.name
            if key not in tallies:
                tallies[key] = _Tally(one.report.milestone, check)
            if one.reason in RAN or check.outcome is Outcome.BROKEN:
                tallies[key].add(check, whole[one.hand_in.student])
    return [tally.numbers() for tally in tallies.values()]


def point_biserial(passes: Sequence[int], rests: Sequence[float]) -> float | None:
    """Return (m1 - m0) / s * sqrt(p q); None where either side does not vary.

    m1 and m0 are the mean rest of the points of those who pass and who do not, s is its standard
    deviation over all (divided by n), p and q are their shares.
    """
    passed, rest = np.asarray(passes, dtype=bool), np.asarray(rests, dtype=float)
    if passed.size == 0 or passed.all() or not passed.any():
        return None
    s = float(rest.std())
    if s <= 1e-12 * max(1.0, float(np.abs(rest).max())):
        return None
    p = float(passed.mean())
    gap = float(rest[passed].mean() - rest[~passed].mean())
    return gap / s * math.sqrt(p * (1 - p))


def interval_of(r: float, n: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a correlation by Fisher's z; None for too few students."""
    if n < FEWEST_FOR_R:
        return None
    z, wide = math.atanh(max(-0.999_999, min(0.999_999, r))), 1.96 / math.sqrt(n - 3)
    return math.tanh(z - wide), math.tanh(z + wide)


@dataclass(frozen=True)
class MadeMistake:
    """A named mistake, and who made it."""

    slug: str
    name: str
    checks: tuple[str, ...]
    students: tuple[str, ...]


def made_mistakes(graded: Iterable[Graded]) -> list[MadeMistake]:
    """Return the mistakes that answers were recognised by, the most frequent first."""
    students: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    checks: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for one in graded:
        if one.reason not in RAN:
            continue
        for check in one.report.checks:
            if check.mistake:
                students[one.report.milestone, check.mistake][one.hand_in.student] = None
                checks[one.report.milestone, check.mistake][check.name] = None
    made = [
        MadeMistake(slug, name, tuple(checks[slug, name]), tuple(who))
        for (slug, name), who in students.items()
    ]
    return sorted(made, key=lambda one: (-len(one.students), one.slug, one.name))


@dataclass(frozen=True)
class Measured:
    """The figures that a class reached on one check, and its bar."""

    slug: str
    name: str
    sentence: str
    bar: float
    figures: tuple[float, ...]


def measured(graded: Iterable[Graded]) -> list[Measured]:
    """Return every check that measures a figure, with those of all who have one."""
    figures: dict[tuple[str, str], array[float]] = defaultdict(lambda: array("d"))
    about: dict[tuple[str, str], tuple[str, float]] = {}
    order: dict[tuple[str, str], None] = {}
    for one in graded:
        for check in one.report.checks:
            key = one.report.milestone, check.name
            order[key] = None
            if one.reason in RAN and check.figure is not None and check.bar is not None:
                figures[key].append(check.figure)
                about[key] = check.sentence, check.bar
    return [
        Measured(*key, *about[key], tuple(sorted(figures[key]))) for key in order if key in figures
    ]
