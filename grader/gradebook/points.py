"""From attempts to final points: pure functions, with a line for every step they take.

The order: points of checks (as overridden), manual points, the cap at the maximum, the bonus of
checks, the late penalty, its floor, rounding. An override of the whole milestone stands for all of
it. What is not known stays unknown (None), never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from grader.gradebook.rules import MilestoneRules, Rounding
from grader.report import is_all_bonus

WHOLE = ""  # the part of an override that sets a milestone's points
NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class CheckPoints:
    """What one check earned; None where it is BROKEN."""

    name: str
    points: Decimal | None
    points_max: Decimal
    bonus: bool = False


@dataclass(frozen=True)
class Attempt:
    """One notebook as it was graded."""

    number: int
    notebook_sha256: str
    handed_in_at: datetime | None
    last_handed_in_at: datetime | None
    reason: str
    checks: tuple[CheckPoints, ...]

    @property
    def points(self) -> Decimal | None:
        """What its checks earned beside any bonus; None where one is BROKEN."""
        return _sum([check.points for check in self.checks if not check.bonus])

    @property
    def bonus(self) -> Decimal | None:
        """What its bonus checks earned; None where one is BROKEN."""
        return _sum([check.points for check in self.checks if check.bonus])


@dataclass(frozen=True)
class Override:
    """Points that a person set; None takes an earlier override back."""

    part: str
    points: Decimal | None
    author: str
    reason: str
    at: datetime


@dataclass(frozen=True)
class Manual:
    """One criterion that a person marks; points are None until that is done."""

    criterion: str
    points: Decimal | None
    points_max: Decimal
    bonus: bool = False


@dataclass(frozen=True)
class Entry:
    """All that a gradebook holds on one student and one milestone.

    `missing` says that grading found nothing handed in, which is not the same as no grading.
    `bonus_max` are the bonus points of the checks.
    """

    student: str
    milestone: str
    checks_max: Decimal
    attempts: tuple[Attempt, ...] = ()
    missing: bool = False
    overrides: tuple[Override, ...] = ()
    manual: tuple[Manual, ...] = ()
    bonus_max: Decimal = Decimal(0)

    @property
    def is_all_bonus(self) -> bool:
        """Whether its checks are all bonus: so are its marks then, and nobody owes any of it."""
        return is_all_bonus(self.checks_max, self.bonus_max)

    @property
    def points_max(self) -> Decimal:
        """Points there are to earn: those of the checks and of the criteria that are no bonus."""
        return Decimal(0) if self.is_all_bonus else self.checks_max + self._criteria_max

    @property
    def all_bonus_max(self) -> Decimal:
        """Bonus points there are to earn: of all that is bonus those of the criteria too."""
        return self.bonus_max + (self._criteria_max if self.is_all_bonus else Decimal(0))

    @property
    def _criteria_max(self) -> Decimal:
        return sum((m.points_max for m in self.manual if not m.bonus), Decimal(0))


@dataclass(frozen=True)
class Final:
    """Final points, or None where they are not known yet, and how they came about.

    `bonus` is the part of them that bonus checks brought; all of it where all is bonus.
    """

    student: str
    milestone: str
    points: Decimal | None
    points_max: Decimal
    lines: tuple[str, ...]
    attempt: Attempt | None = None
    days_late: int = 0
    before_penalty: Decimal | None = None
    bonus: Decimal = Decimal(0)
    bonus_max: Decimal = Decimal(0)

    @property
    def told(self) -> str:
        """What was earned of what there is; of the bonus where all of the milestone is bonus."""
        return _of(self.points, self.points_max, self.bonus_max)

    @property
    def penalty(self) -> Decimal | None:
        """What lateness took."""
        if self.points is None or self.before_penalty is None:
            return None
        return max(Decimal(0), self.before_penalty - self.points)


@dataclass(frozen=True)
class Total:
    """A student's weighted total, or None where a part of it is not known yet."""

    points: Decimal | None
    points_max: Decimal
    lines: tuple[str, ...]


def final_points(entry: Entry, rules: MilestoneRules) -> Final:
    """Return the final points of one student in one milestone."""
    checks, whole = _latest(entry.overrides)
    final = _counted([_overridden(a, checks) for a in entry.attempts], entry, rules)
    if whole is not None and whole.points is not None:
        set_to = f"set to {_of(whole.points, entry.points_max, entry.all_bonus_max)}"
        points = rules.rounding(whole.points)
        line = f"{set_to} by {whole.author}: {whole.reason}"
        bonus = points if entry.is_all_bonus else Decimal(0)
        return replace(final, points=points, before_penalty=points, lines=(line,), bonus=bonus)
    told = [
        f"{part} set to {shown(one.points)} by {one.author}: {one.reason}"
        for part, one in sorted(checks.items())
        if one.points is not None
    ]
    return replace(final, lines=(*told, *final.lines))


def total_points(
    finals: Sequence[Final],
    weights: Sequence[Decimal],
    rounding: Rounding,
    bonus_cap: Decimal | None = None,
) -> Total:
    """Return the weighted total of a student's final points.

    A milestone that is all bonus adds to it by its weight, and nothing to what there is to earn.
    `bonus_cap` is the most that bonus checks bring to the total.
    """
    weight = sum((w for f, w in zip(finals, weights, strict=True) if f.points_max), Decimal(0))
    unknown = [final.milestone for final in finals if final.points is None]
    if unknown:
        return Total(None, weight, (f"not known yet: {', '.join(unknown)}",))
    points, bonus = Decimal(0), Decimal(0)
    for final, share in zip(finals, weights, strict=True):
        maximum = final.points_max or final.bonus_max
        if final.points is not None and maximum:
            points += share * final.points / maximum
            bonus += share * final.bonus / maximum
    over = Decimal(0) if bonus_cap is None else max(Decimal(0), bonus - bonus_cap)
    points = rounding(points - over)
    lines = [f"{shown(points)} of {shown(weight)}, weighted"]
    if bonus:
        lines.append(f"{shown(rounding(bonus - over))} of them bonus")
    if over:
        lines.append(f"at most {shown(bonus_cap)} bonus points count")
    return Total(points, weight, tuple(lines))


def shown(points: Decimal | None) -> str:
    """Show points without needless zeros; a dash where they are not known."""
    if points is None:
        return "-"
    text = f"{points:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _of(points: Decimal | None, points_max: Decimal, bonus_max: Decimal) -> str:
    if points_max:
        return f"{shown(points)} of {shown(points_max)}"
    return f"{shown(points)} of {shown(bonus_max)} bonus" if bonus_max else shown(points)


def _sum(parts: Sequence[Decimal | None]) -> Decimal | None:
    known = [part for part in parts if part is not None]
    return sum(known, Decimal(0)) if len(known) == len(parts) else None


def _latest(overrides: Iterable[Override]) -> tuple[dict[str, Override], Override | None]:
    """Return the override that rules for each check, and for the whole."""
    ruling = {one.part: one for one in sorted(overrides, key=lambda one: one.at)}
    whole = ruling.pop(WHOLE, None)
    return ruling, whole


def _overridden(attempt: Attempt, overrides: dict[str, Override]) -> Attempt:
    checks = tuple(
        replace(check, points=one.points)
        if (one := overrides.get(check.name)) and one.points is not None
        else check
        for check in attempt.checks
    )
    return replace(attempt, checks=checks)


def _counted(attempts: Sequence[Attempt], entry: Entry, rules: MilestoneRules) -> Final:
    """Return what the attempt that counts comes to."""
    if not attempts:
        return _without_attempt(entry, rules)
    if rules.attempt == "last":
        last = max(
            attempts,
            key=lambda one: (one.last_handed_in_at or NEVER, one.handed_in_at or NEVER, one.number),
        )
        final = _of_attempt(last, entry, rules)
        return _told_which(final, attempts, "the last")
    finals = [_of_attempt(attempt, entry, rules) for attempt in attempts]
    known = [final for final in finals if final.points is not None]
    # the first of equals: an attempt that changes nothing does not change what counts
    best = max(known, key=lambda final: final.points or 0) if known else None
    for attempt, final in zip(attempts, finals, strict=True):
        if final.points is None and not (best and _cannot_be_passed(best, attempt, entry, rules)):
            return _told_which(final, attempts, "which may be the best")
    assert best is not None
    return _told_which(best, attempts, "the best")


def _cannot_be_passed(best: Final, attempt: Attempt, entry: Entry, rules: MilestoneRules) -> bool:
    """Say whether even full points for all that is unknown would not beat the best."""
    full = tuple(
        replace(check, points=check.points_max) if check.points is None else check
        for check in attempt.checks
    )
    marked = tuple(replace(m, points=m.points_max) if m.points is None else m for m in entry.manual)
    most = _of_attempt(replace(attempt, checks=full), replace(entry, manual=marked), rules)
    return most.points is not None and best.points is not None and most.points <= best.points


def _told_which(final: Final, attempts: Sequence[Attempt], which: str) -> Final:
    if len(attempts) == 1 or final.attempt is None:
        return final
    line = f"attempt {final.attempt.number} of {len(attempts)} counts, {which}"
    return replace(final, lines=(line, *final.lines))


def _without_attempt(entry: Entry, rules: MilestoneRules) -> Final:
    if not (entry.missing or entry.is_all_bonus):  # nobody owes a bonus
        return Final(
            entry.student, entry.milestone, None, entry.points_max, ("not graded yet",),
            bonus_max=_bonus_max(entry, rules),
        )  # fmt: skip
    marked = _marked(entry, rules)
    lines = ["nothing was handed in"]
    if marked:
        lines.append(f"{shown(marked)} marked by hand")
    maximum = entry.all_bonus_max if entry.is_all_bonus else entry.points_max
    points = rules.rounding(_capped(marked, maximum, rules, lines))
    return Final(
        entry.student, entry.milestone, points, entry.points_max, tuple(lines), None, 0, points,
        points if entry.is_all_bonus else Decimal(0), _bonus_max(entry, rules),
    )  # fmt: skip


def _of_attempt(attempt: Attempt, entry: Entry, rules: MilestoneRules) -> Final:
    """Return what one attempt comes to, with a line for each step."""
    lines: list[str] = []
    if not rules.bonus:
        attempt = replace(attempt, checks=tuple(c for c in attempt.checks if not c.bonus))
    days = _days_late(attempt, rules, lines)
    unknown = [check.name for check in attempt.checks if check.points is None]
    awaited = [] if entry.is_all_bonus else [m for m in entry.manual if not m.bonus]
    unmarked = [m.criterion for m in awaited if m.points is None]
    if unknown or unmarked:
        if unknown:
            lines.append(f"not known yet: the grader broke on {', '.join(unknown)}")
        if unmarked:
            lines.append(f"not known yet: {', '.join(unmarked)} not marked")
        return Final(
            entry.student, entry.milestone, None, entry.points_max, tuple(lines), attempt, days,
            bonus_max=_bonus_max(entry, rules),
        )  # fmt: skip
    earned, bonus = attempt.points or Decimal(0), attempt.bonus or Decimal(0)
    marked, bonus_max = _marked(entry, rules), _bonus_max(entry, rules)
    by_hand = f", {shown(marked)} of them marked by hand" if entry.manual else ""
    if entry.is_all_bonus:
        capped, bonus = Decimal(0), bonus + marked
        lines.append(
            f"{shown(bonus)} of {shown(bonus_max)} bonus{by_hand}"
            if rules.bonus
            else "all of it is bonus, which does not count here"
        )
        bonus = _capped(bonus, bonus_max, rules, lines)
    else:
        points = earned + marked
        lines.append(f"{shown(points)} of {shown(entry.points_max)}{by_hand}")
        capped = _capped(points, entry.points_max, rules, lines)
        if bonus_max:
            lines.append(f"{shown(bonus)} of {shown(bonus_max)} bonus")
    points = capped + bonus
    before = rules.rounding(points)
    without = capped
    if days:
        points = _penalised(points, days, rules, lines)
        without = _penalised(capped, days, rules, [])
    final = rules.rounding(points)
    if final != points:
        lines.append(f"rounded to {final} ({rules.rounding.mode})")
    return Final(
        entry.student, entry.milestone, final, entry.points_max, tuple(lines), attempt, days,
        before, final - rules.rounding(without), bonus_max,
    )  # fmt: skip


def _bonus_max(entry: Entry, rules: MilestoneRules) -> Decimal:
    return entry.all_bonus_max if rules.bonus else Decimal(0)


def _marked(entry: Entry, rules: MilestoneRules) -> Decimal:
    """Return the marks given by hand, as far as they count."""
    if entry.is_all_bonus and not rules.bonus:
        return Decimal(0)
    return sum((m.points for m in entry.manual if m.points is not None), Decimal(0))


def _capped(points: Decimal, maximum: Decimal, rules: MilestoneRules, lines: list[str]) -> Decimal:
    if points <= maximum or rules.extra_credit:
        return points
    lines.append(f"no extra credit here: {shown(maximum)}")
    return maximum


def _days_late(attempt: Attempt, rules: MilestoneRules, lines: list[str]) -> int:
    if rules.due is None:
        return 0
    if attempt.handed_in_at is None:
        lines.append("no time of handing in is known: taken as on time")
        return 0
    days = rules.due.days_late(attempt.handed_in_at, rules.late.grace)
    if days or rules.extended:
        extension = " (extended)" if rules.extended else ""
        when = f"{_days(days)} late" if days else "on time"
        lines.append(f"due {rules.due.shown()}{extension}: {when}")
    return days


def _penalised(points: Decimal, days: int, rules: MilestoneRules, lines: list[str]) -> Decimal:
    late = rules.late
    if late.cut_off_days is not None and days > late.cut_off_days:
        lines.append(f"{_days(days)} late: nothing counts after {_days(late.cut_off_days)}")
        return Decimal(0)
    if late.points_per_day is not None:
        taken = min(points, late.points_per_day * days)
        price = f"-{shown(late.points_per_day * days)}"
    elif late.share_per_day is not None:
        share = min(Decimal(1), late.share_per_day * days)
        taken = points * share
        price = f"-{shown(share * 100)} %"
    else:
        return points
    floor = points * late.floor_share
    left = max(points - taken, floor)
    at_floor = f", floor {shown(late.floor_share * 100)} %" if left > points - taken else ""
    lines.append(f"{_days(days)} late: {price}{at_floor} = {shown(left)}")
    return left


def _days(count: int) -> str:
    return f"{count} day{'' if count == 1 else 's'}"


def numbered(attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """Number attempts by when they were first handed in."""
    in_order = sorted(attempts, key=lambda a: (a.handed_in_at or NEVER, a.notebook_sha256))
    return tuple(replace(attempt, number=n) for n, attempt in enumerate(in_order, start=1))
