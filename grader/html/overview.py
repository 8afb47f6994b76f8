"""The instructor's page of a class: what was earned, what was misunderstood, what needs a look."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from urllib.parse import quote

from markupsafe import Markup

from grader import __version__
from grader.classroom import Graded, Reason
from grader.html.charts import columns, shares, spread
from grader.html.copies import ALIKE, FEWEST, RUN, NearCopies
from grader.html.feedback import COURSE
from grader.html.page import fill_in_parts
from grader.html.reasons import REASONS, Told
from grader.html.scale import Scale
from grader.html.statistics import (
    FAIR_R,
    FEWEST_FOR_R,
    CheckNumbers,
    MadeMistake,
    Measured,
    check_numbers,
    made_mistakes,
    measured,
    totals,
)
from grader.html.visible import shorten
from grader.judge import Mistake
from grader.report import is_all_bonus, shown_points

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


@dataclass(frozen=True)
class MilestoneFacts:
    """What is the same for every hand-in of a milestone."""

    slug: str
    title: str
    points_max: float
    bonus_max: float

    @property
    def is_all_bonus(self) -> bool:
        """Whether it is one of the labs, which have nothing but bonus."""
        return is_all_bonus(self.points_max, self.bonus_max)

    @property
    def most(self) -> float:
        """Points there are to earn; of what is all bonus its bonus."""
        return self.bonus_max if self.is_all_bonus else self.points_max


@dataclass(frozen=True, slots=True)
class Kept:
    """What the page keeps of one hand-in."""

    student: str
    about: MilestoneFacts
    reason: Reason
    points: float | None
    bonus: float | None
    said: str  # where it needs a look

    @property
    def main(self) -> float | None:
        """Points earned; those of the bonus where all of the milestone is bonus."""
        return self.bonus if self.about.is_all_bonus else self.points


def class_page(
    graded: Sequence[Graded],
    *,
    split_id: str,
    public: bool = False,
    copies: Sequence[NearCopies] | None = None,
    mistakes: Mapping[str, Sequence[Mistake]] | None = None,
    stem: Callable[[str], str] | None = None,
    title: str = COURSE,
) -> Iterator[str]:
    """Yield the page of a class in parts; go through `graded` several times, and keep no report.

    `copies` come from `near_copies`; None where they were not looked for. `mistakes` are those of
    the split by milestone: their hints stand beside their names. `stem`, where given, is the name
    of a student's file: names then lead to `feedback/<stem>.html` beside this page.
    """
    abouts, every = _kept(graded)
    by_student: dict[str, dict[str, Kept]] = defaultdict(dict)
    for one in every:
        by_student[one.student][one.about.slug] = one
    whole = totals((one.student, one.points) for one in every)
    points_max = sum(about.points_max for about in abouts)
    known = [points for points in whole.values() if points is not None]
    hints = {
        (slug, mistake.name): mistake.hint
        for slug, found in (mistakes or {}).items()
        for mistake in found
    }
    numbers = check_numbers(graded, whole)
    owed = [one for one in every if not one.about.is_all_bonus]
    yield from fill_in_parts(
        "class.html",
        title=title,
        where="the public split" if public else f"split {shorten(split_id, 100)}",
        version=__version__,
        n_students=len(by_student),
        n_handed_in=sum(one.reason is not Reason.MISSING for one in owed),
        n_owed=len(owed),
        n_beyond=len(every) - len(owed),
        mean=f"{sum(known) / len(known):.1f}" if known else "-",
        middle=f"{median(known):g}" if known else "-",
        points_max=shown_points(points_max),
        n_unknown=len(by_student) - len(known),
        has_bonus=any(about.bonus_max for about in abouts),
        histogram=_histogram(known, points_max),
        milestones=[
            _milestone(about, [one for one in every if one.about is about]) for about in abouts
        ],
        looks=[
            (REASONS[reason], [one for one in every if one.reason is reason])
            for reason in NEEDS_A_LOOK
        ],
        checks=[[_check_line(one) for one in numbers if one.slug == a.slug] for a in abouts],
        fewest_for_r=FEWEST_FOR_R,
        fair_r=FAIR_R,
        marked=[one for one in numbers if one.warning],
        mistakes=[_mistake_line(one, hints, len(by_student)) for one in made_mistakes(graded)],
        first=FIRST_MISTAKES,
        measured=[(one, _spread(one), _quartiles(one)) for one in measured(graded)],
        copies=None
        if copies is None
        else [(one, f"{one.similarity:.0%}", _named(one.students)) for one in copies[:MAX_GROUPS]],
        more_copies=max(0, len(copies or ()) - MAX_GROUPS),
        alike=f"{ALIKE:.0%}",
        run=RUN,
        fewest=FEWEST,
        slugs=[about.slug for about in abouts],
        rows=_rows(by_student, abouts, whole, stem),
        endings=list(REASONS.values()),
    )


def _kept(graded: Iterable[Graded]) -> tuple[list[MilestoneFacts], list[Kept]]:
    """Return the milestones, and of every hand-in what the page keeps."""
    abouts: dict[str, MilestoneFacts] = {}
    every = []
    for one in graded:
        report = one.report
        about = abouts.get(report.milestone)
        if about is None:
            about = MilestoneFacts(
                report.milestone, report.title, report.points_max, report.bonus_max
            )
            abouts[report.milestone] = about
        said = _said(one) if one.reason in NEEDS_A_LOOK else ""
        every.append(
            Kept(one.hand_in.student, about, one.reason, report.points, report.bonus, said)
        )
    return list(abouts.values()), every


def _named(students: Sequence[str]) -> Named:
    names = tuple(shorten(name, MAX_NAME) for name in students[:MAX_LISTED])
    return Named(names, max(0, len(students) - MAX_LISTED))


def _said(one: Graded) -> str:
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


def _milestone(about: MilestoneFacts, here: Sequence[Kept]) -> MilestoneNumbers:
    came = [one for one in here if one.reason is not Reason.MISSING]
    points = [known for one in came if (known := one.main) is not None]
    beside = about.points_max > 0  # else all of it is bonus
    extra = [one.bonus for one in came if one.bonus is not None]
    full = sum(one >= about.most for one in points)
    none = sum(one <= 0 for one in points)
    return MilestoneNumbers(
        slug=about.slug,
        title=about.title,
        points_max=shown_points(about.most) + ("" if beside or not about.bonus_max else " bonus"),
        bonus=_mean_bonus(extra, about.bonus_max) if beside and about.bonus_max else "",
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
        owed=not about.is_all_bonus,
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
    by_student: Mapping[str, Mapping[str, Kept]],
    abouts: Sequence[MilestoneFacts],
    whole: Mapping[str, float | None],
    stem: Callable[[str], str] | None,
) -> Iterator[Row]:
    for student, theirs in by_student.items():
        bonus = sum(one.bonus or 0.0 for one in theirs.values())  # as far as it is known
        yield Row(
            shorten(student, MAX_NAME),
            _address(stem(student)) if stem else "",
            _beside(whole[student], bonus),
            tuple(_cell(theirs.get(about.slug)) for about in abouts),
        )


def _address(stem: str) -> str:
    """Return where a student's page lies, whatever the name: beside this page and nowhere else."""
    return f"feedback/{quote(stem, safe='', errors='replace')}.html"


def _cell(one: Kept | None) -> Cell:
    if one is None:
        return Cell("", "none", None)
    ending, about, points = REASONS.get(one.reason), one.about, one.main
    if points is None or one.reason in (Reason.MISSING, Reason.UNREADABLE):
        return Cell("", "none", ending)
    heat = min(HEATS, round(points / max(about.most, 1e-9) * HEATS))
    return Cell(_beside(points, one.bonus if about.points_max else 0), f"h{heat}", ending)


def _beside(points: float | None, bonus: float | None) -> str:
    return f"{shown_points(points)} +{shown_points(bonus)}" if bonus else shown_points(points)
