"""The instructor's page of a class: what was earned, what was misunderstood, what needs a look."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from urllib.parse import quote

from markupsafe import Markup

from grader import __version__
from grader.classroom import Graded, Reason
from grader.html.charts import columns, shares, spread
from grader.html.copies import ALIKE, FEWEST, RUN, NearCopies
from grader.html.feedback import COURSE
from grader.html.page import fill
from grader.html.reasons import REASONS, Told
from grader.html.scale import Scale
from grader.html.statistics import (
    FAIR_R,
    FEWEST_FOR_R,
    CheckNumbers,
    MadeMistake,
    Measured,
    Result,
    bonuses,
    check_numbers,
    made_mistakes,
    measured,
    totals,
)
from grader.html.visible import shorten
from grader.judge import Mistake
from grader.report import shown_points

MAX_NAME = 80
MAX_LISTED = 60  # students named in one list
MAX_GROUPS = 100  # of near copies
HEATS = 5
NEEDS_A_LOOK = (Reason.BROKEN, Reason.TRAP, Reason.LIMIT, Reason.ENDED, Reason.UNREADABLE)
BINS = 20
FIRST_MISTAKES = 15  # shown at once; the rest on demand


@dataclass(frozen=True)
class Named:
    """Some students, and how many more there are."""

    names: tuple[str, ...]
    more: int


@dataclass(frozen=True)
class Cell:
    """One hand-in in the table of all."""

    text: str
    kind: str
    ending: Told | None


@dataclass(frozen=True)
class Row:
    """One student in the table of all."""

    student: str
    link: str
    total: str  # and the bonus beside it
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class MilestoneNumbers:
    """How a class did on one milestone."""

    slug: str
    title: str
    points_max: str
    bonus: str  # the mean of it beside the points, in words; empty where there is none
    handed_in: int
    mean: str
    middle: str
    full: int
    chart: Markup
    owed: bool  # whether there is anything in it but bonus
    missing: Named


@dataclass(frozen=True)
class CheckLine:
    """A check in the table of checks."""

    numbers: CheckNumbers
    rate: str
    chart: Markup
    r: str
    interval: str


@dataclass(frozen=True)
class MistakeLine:
    """A mistake in the table of mistakes."""

    name: str
    slug: str
    checks: str
    hint: str
    count: int
    chart: Markup
    who: Named


def class_page(
    graded: Sequence[Graded],
    *,
    split_id: str,
    public: bool = False,
    copies: Sequence[NearCopies] | None = None,
    mistakes: Mapping[str, Sequence[Mistake]] | None = None,
    stem: Callable[[str], str] | None = None,
    title: str = COURSE,
) -> str:
    """Return the page of a class.

    `copies` come from `near_copies`; None where they were not looked for. `mistakes` are those of
    the split by milestone: their hints stand beside their names. `stem`, where given, is the name
    of a student's file: names then lead to `feedback/<stem>.html` beside this page.
    """
    results = [Result(one.hand_in.student, one.reason, one.report) for one in graded]
    slugs = list(dict.fromkeys(one.report.milestone for one in results))
    students = list(dict.fromkeys(one.student for one in results))
    whole = totals(results)
    points_max = sum({one.report.milestone: one.report.points_max for one in results}.values())
    known = [points for points in whole.values() if points is not None]
    hints = {
        (slug, mistake.name): mistake.hint
        for slug, found in (mistakes or {}).items()
        for mistake in found
    }
    numbers = check_numbers(results)
    owed = [one for one in results if not one.report.is_all_bonus]
    return fill(
        "class.html",
        title=title,
        where="the public split" if public else f"split {shorten(split_id, 100)}",
        version=__version__,
        n_students=len(students),
        n_handed_in=sum(one.reason is not Reason.MISSING for one in owed),
        n_owed=len(owed),
        n_beyond=len(results) - len(owed),
        mean=f"{sum(known) / len(known):.1f}" if known else "-",
        middle=f"{median(known):g}" if known else "-",
        points_max=shown_points(points_max),
        n_unknown=len(students) - len(known),
        has_bonus=any(one.report.bonus_max for one in results),
        histogram=_histogram(known, points_max),
        milestones=[_milestone(slug, results) for slug in slugs],
        looks=[
            (REASONS[reason], [one for one in results if one.reason is reason])
            for reason in NEEDS_A_LOOK
        ],
        notes={(one.student, one.report.milestone): one.report.note for one in results},
        said={(one.student, one.report.milestone): _said(one) for one in results},
        checks=[[_check_line(one) for one in numbers if one.slug == slug] for slug in slugs],
        fewest_for_r=FEWEST_FOR_R,
        fair_r=FAIR_R,
        marked=[one for one in numbers if one.warning],
        mistakes=[_mistake_line(one, hints, len(students)) for one in made_mistakes(results)],
        first=FIRST_MISTAKES,
        measured=[(one, _spread(one), _quartiles(one)) for one in measured(results)],
        copies=None
        if copies is None
        else [(one, f"{one.similarity:.0%}", _named(one.students)) for one in copies[:MAX_GROUPS]],
        more_copies=max(0, len(copies or ()) - MAX_GROUPS),
        alike=f"{ALIKE:.0%}",
        run=RUN,
        fewest=FEWEST,
        slugs=slugs,
        rows=_rows(results, students, slugs, whole, stem),
        endings=list(REASONS.values()),
    )


def _named(students: Sequence[str]) -> Named:
    names = tuple(shorten(name, MAX_NAME) for name in students[:MAX_LISTED])
    return Named(names, max(0, len(students) - MAX_LISTED))


def _said(one: Result) -> str:
    if one.report.note:
        return shorten(one.report.note, 300)
    if one.report.stop is not None:
        return shorten(one.report.stop.why, 300)
    if one.report.unreadable is not None:
        return shorten(one.report.unreadable, 300)
    if one.reason is Reason.BROKEN:
        return shorten(next((c.hint for c in one.report.checks if c.points is None), ""), 300)
    return ""


def _histogram(points: Sequence[float], points_max: float) -> tuple[Markup, list[tuple[str, int]]]:
    """Return the picture of the totals, and the same as text: (from and to, how many)."""
    counts = [0] * BINS
    for one in points:
        counts[min(BINS - 1, int(one / max(points_max, 1e-9) * BINS))] += 1
    wide = points_max / BINS
    table = [(f"{i * wide:g} to {(i + 1) * wide:g}", count) for i, count in enumerate(counts)]
    label = f"Points of {len(points)} students, from 0 to {points_max:g}: the same as the table"
    return columns(counts, label), table


def _milestone(slug: str, results: Sequence[Result]) -> MilestoneNumbers:
    here = [one for one in results if one.report.milestone == slug]
    came = [one for one in here if one.reason is not Reason.MISSING]
    points = [known for one in came if (known := one.report.main[0]) is not None]
    most, bonus_max = here[0].report.main[1], here[0].report.bonus_max
    beside = here[0].report.points_max > 0  # else all of it is bonus
    extra = [one.report.bonus for one in came if one.report.bonus is not None]
    full = sum(one >= most for one in points)
    none = sum(one <= 0 for one in points)
    return MilestoneNumbers(
        slug=slug,
        title=here[0].report.title,
        points_max=shown_points(most) + ("" if beside or not bonus_max else " bonus"),
        bonus=_mean_bonus(extra, bonus_max) if beside and bonus_max else "",
        handed_in=len(came),
        mean=f"{sum(points) / len(points):.1f}" if points else "-",
        middle=f"{median(points):g}" if points else "-",
        full=full,
        chart=shares(
            [
                ("is-passed", "full points", full),
                ("is-partly", "some points", len(points) - full - none),
                ("is-failed", "no points", none),
            ]
        ),
        owed=not here[0].report.is_all_bonus,
        missing=_named([one.student for one in here if one.reason is Reason.MISSING]),
    )


def _mean_bonus(earned: Sequence[float], most: float) -> str:
    mean = f"{sum(earned) / len(earned):.1f}" if earned else "-"
    return f"{mean} of {shown_points(most)}"


def _mistake_line(
    one: MadeMistake, hints: Mapping[tuple[str, str], str], n_students: int
) -> MistakeLine:
    count = len(one.students)
    return MistakeLine(
        name=one.name,
        slug=one.slug,
        checks=", ".join(one.checks),
        hint=shorten(hints.get((one.slug, one.name), ""), 400),
        count=count,
        chart=shares([("column", "students", count), ("rest", "others", n_students - count)]),
        who=_named(one.students),
    )


def _check_line(one: CheckNumbers) -> CheckLine:
    parts = [
        ("is-passed", "passed", one.passed),
        ("is-partly", "partly", one.partly),
        ("is-failed", "failed", one.failed),
        ("is-waiting", "waiting", one.waits),
        ("is-broken", "not graded", one.broken),
    ]
    r, interval = one.r, one.interval
    return CheckLine(
        one,
        "-" if one.rate is None else f"{one.rate:.0%}",
        shares(parts),
        "-" if r is None else f"{r:.2f}",
        "" if interval is None else f"{interval[0]:.2f} to {interval[1]:.2f}",
    )


def _spread(one: Measured) -> Markup:
    scale = Scale.of(one.bar)
    inside = sum(map(scale.inside, one.figures))
    label = f"{inside} of {len(one.figures)} figures inside the bar of {scale.words}"
    return spread(one.figures, one.bar, label)


def _quartiles(one: Measured) -> dict[str, str]:
    n, scale = len(one.figures), Scale.of(one.bar)
    return {
        "bar": scale.words,
        "inside": f"{sum(map(scale.inside, one.figures))} of {n}",
        "beyond": f"{sum(map(scale.beyond, one.figures))}",
        "quarters": ", ".join(f"{one.figures[(n - 1) * k // 4]:.4f}" for k in (1, 2, 3)),
    }


def _rows(
    results: Sequence[Result],
    students: Sequence[str],
    slugs: Sequence[str],
    whole: Mapping[str, float | None],
    stem: Callable[[str], str] | None,
) -> list[Row]:
    by_place = {(one.student, one.report.milestone): one for one in results}
    extra = bonuses(results)
    return [
        Row(
            shorten(student, MAX_NAME),
            _address(stem(student)) if stem else "",
            _beside(whole[student], extra[student]),
            tuple(_cell(by_place.get((student, slug))) for slug in slugs),
        )
        for student in students
    ]


def _address(stem: str) -> str:
    """Return where a student's page lies, whatever the name: beside this page and nowhere else."""
    return f"feedback/{quote(stem, safe='', errors='replace')}.html"


def _cell(one: Result | None) -> Cell:
    if one is None:
        return Cell("", "none", None)
    ending = REASONS.get(one.reason)
    points, most = one.report.main
    extra = one.report.bonus if one.report.points_max else 0
    if points is None or one.reason in (Reason.MISSING, Reason.UNREADABLE):
        return Cell("", "none", ending)
    heat = min(HEATS, round(points / max(most, 1e-9) * HEATS))
    return Cell(_beside(points, extra), f"h{heat}", ending)


def _beside(points: float | None, bonus: float | None) -> str:
    return f"{shown_points(points)} +{shown_points(bonus)}" if bonus else shown_points(points)
