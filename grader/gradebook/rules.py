"""The rules of a term as data: one TOML file, checked before a single point is computed.

Every mistake in it is one sentence that names the file and the key.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

import milestones
from grader.errors import BadInputError
from grader.trouble import printable

# ---------------------------------------------------------------- what a file may say


def _number(value: object) -> object:
    """Take a TOML number by its digits: 0.1 is a tenth, not the nearest double."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")
    if not math.isfinite(value):
        raise ValueError("must be a finite number")
    return Decimal(str(value))


def _moment(value: object) -> object:
    if not isinstance(value, datetime):
        raise ValueError("must be a date and a time without quotes, as 2026-10-31T23:59:59")
    if not 2000 <= value.year < 2200:
        raise ValueError(f"the year {value.year} is no year of this course")
    return value.replace(microsecond=0)


def _zone(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError("must be the name of a time zone, as 'Europe/Berlin'")
    try:
        return ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"{value!r} is no time zone; names are those of the IANA list, as 'Europe/Berlin'"
        ) from None


def _slug(value: str) -> str:
    try:
        return milestones.slug_of(value)
    except milestones.UnknownMilestoneError as error:
        raise ValueError(str(error)) from None


Number = Annotated[Decimal, BeforeValidator(_number), Field(ge=0, le=1_000_000)]
Share = Annotated[Decimal, BeforeValidator(_number), Field(ge=0, le=1)]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Zone = Annotated[ZoneInfo, BeforeValidator(_zone)]
Slug = Annotated[str, AfterValidator(_slug)]


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, arbitrary_types_allowed=True, strict=True
    )


class RoundingTable(_Strict):
    """How points are rounded, once for each milestone and once for the total."""

    decimals: Annotated[int, Field(ge=0, le=6)] = 2
    mode: Literal["half-even", "half-up"] = "half-even"


class LateTable(_Strict):
    """What each started day after the deadline costs."""

    share_per_day: Share | None = None
    points_per_day: Number | None = None
    grace_minutes: Annotated[int, Field(ge=0, le=10_080)] = 0
    floor_share: Share = Decimal(0)
    cut_off_days: Annotated[int, Field(ge=0, le=365)] | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.share_per_day is not None and self.points_per_day is not None:
            raise ValueError("has both share_per_day and points_per_day; give one of them")
        return self


class MilestoneTable(_Strict):
    """One milestone's place in the term."""

    weight: Number | None = None
    deadline: Moment | None = None
    extra_credit: bool = False
    bonus: bool | None = None
    attempt: Literal["best", "last"] | None = None


class ExtensionTable(_Strict):
    """A later deadline for one student, in one milestone or in all."""

    student: Annotated[str, Field(min_length=1)]
    milestone: Slug | None = None
    until: Moment
    reason: str = ""


class RulesFile(_Strict):
    """The whole file."""

    timezone: Zone | None = None
    attempt: Literal["best", "last"] = "best"
    bonus: bool = True
    bonus_cap: Number | None = None
    late: LateTable = LateTable()
    rounding: RoundingTable = RoundingTable()
    milestone: dict[Slug, MilestoneTable] = {}
    extension: list[ExtensionTable] = []


# ---------------------------------------------------------------- what is computed with


@dataclass(frozen=True)
class Rounding:
    """How many decimals, and which way a tie goes."""

    decimals: int = 2
    mode: Literal["half-even", "half-up"] = "half-even"

    def __call__(self, points: Decimal) -> Decimal:
        """Round points."""
        way = ROUND_HALF_EVEN if self.mode == "half-even" else ROUND_HALF_UP
        return points.quantize(Decimal(1).scaleb(-self.decimals), rounding=way)


@dataclass(frozen=True)
class Late:
    """What lateness costs; nothing where both prices are None."""

    share_per_day: Decimal | None = None
    points_per_day: Decimal | None = None
    grace: timedelta = timedelta()
    floor_share: Decimal = Decimal(0)
    cut_off_days: int | None = None


@dataclass(frozen=True)
class Due:
    """A deadline: the moment, and the zone whose clock counts the days after it."""

    at: datetime  # in UTC
    zone: ZoneInfo

    def days_late(self, handed_in_at: datetime, grace: timedelta = timedelta()) -> int:
        """Return how many days were started after the deadline; exactly at it is on time.

        A day ends when the zone's clock shows the deadline's time again, so the day on which the
        clocks change has 23 or 25 hours. The grace is added to the end of every day.
        """
        if handed_in_at <= self.at + grace:
            return 0
        days = max(1, (handed_in_at - self.at - grace).days - 1)
        while handed_in_at > self._end_of_day(days) + grace:
            days += 1
        return days

    def _end_of_day(self, days: int) -> datetime:
        # a time that the clock shows twice, or skips, ends the day at the later reading of it
        wall = self.at.astimezone(self.zone) + timedelta(days=days)
        return max(wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1))

    def shown(self) -> str:
        """Return the deadline as its zone's clock shows it."""
        return self.at.astimezone(self.zone).strftime("%Y-%m-%d %H:%M:%S %Z")


@dataclass(frozen=True)
class MilestoneRules:
    """What makes points of one milestone's attempts, for one student."""

    due: Due | None = None
    extended: bool = False
    attempt: Literal["best", "last"] = "best"
    extra_credit: bool = False
    late: Late = Late()
    rounding: Rounding = Rounding()
    bonus: bool = True


@dataclass(frozen=True)
class Extension:
    """A later deadline."""

    student: str
    milestone: str | None
    due: Due
    reason: str


@dataclass(frozen=True)
class Rules:
    """The rules of a term."""

    attempt: Literal["best", "last"] = "best"
    late: Late = Late()
    rounding: Rounding = Rounding()
    tables: tuple[tuple[str, MilestoneTable], ...] = ()
    deadlines: tuple[tuple[str, Due], ...] = ()
    extensions: tuple[Extension, ...] = ()
    bonus: bool = True
    bonus_cap: Decimal | None = None
    zone: ZoneInfo | None = None

    def table(self, slug: str) -> MilestoneTable:
        """Return what the file says of a milestone."""
        return dict(self.tables).get(slug, MilestoneTable())

    def deadline(self, slug: str) -> Due | None:
        """Return a milestone's deadline for those without an extension."""
        return dict(self.deadlines).get(slug)

    def weight(self, slug: str, points_max: Decimal) -> Decimal:
        """Return a milestone's weight in the total: its maximum, unless the file gives one.

        One that is all bonus weighs as much as its bonus.
        """
        given = self.table(slug).weight
        return points_max if given is None else given

    def for_student(self, student: str, slug: str) -> MilestoneRules:
        """Return what holds for one student in one milestone: the latest of their deadlines."""
        table, due, extended = self.table(slug), self.deadline(slug), False
        for extension in self.extensions:
            applies = extension.student == student and extension.milestone in (None, slug)
            if applies and due is not None and extension.due.at > due.at:
                due, extended = extension.due, True
        return MilestoneRules(
            due, extended, table.attempt or self.attempt, table.extra_credit, self.late,
            self.rounding, self.bonus if table.bonus is None else table.bonus,
        )  # fmt: skip


# ---------------------------------------------------------------- reading


def read_rules(path: Path) -> Rules:
    """Read and check a rules file.

    Raises:
        BadInputError: something in it is wrong; the message has a line for each fault.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as error:
        raise BadInputError(f"{path}: is not TOML: {error}") from None
    return rules_of(content, str(path))


def rules_of(content: dict[str, Any], name: str) -> Rules:
    """Check what a rules file holds.

    Raises:
        BadInputError: something in it is wrong; the message has a line for each fault.
    """
    try:
        file = RulesFile.model_validate(content)
    except ValidationError as error:
        raise BadInputError("\n".join(_sentence(name, one) for one in error.errors())) from None
    faults: list[str] = []
    if len(file.milestone) < len(content.get("milestone", {})):
        faults.append("milestone: one milestone has two tables, under two of its names")
    deadlines = {
        slug: due
        for slug, table in file.milestone.items()
        if table.deadline is not None
        and (due := due_at(table.deadline, file.timezone, f"milestone.{slug}.deadline", faults))
    }
    extensions = []
    for number, table in enumerate(file.extension, start=1):
        key = f"extension {number}: until"
        due = due_at(table.until, file.timezone, key, faults)
        normal = deadlines.get(table.milestone or "")
        if due is None:
            continue
        if table.milestone and normal is None and table.milestone not in _undated(file):
            faults.append(f"{key}: {table.milestone} has no deadline to extend")
        elif normal and due.at < normal.at:
            faults.append(
                f"{key}: lies before the deadline of {table.milestone} ({normal.shown()})"
            )
        extensions.append(Extension(table.student, table.milestone, due, table.reason))
    if faults:
        raise BadInputError("\n".join(f"{name}: {fault}" for fault in faults))
    late = file.late
    return Rules(
        file.attempt,
        Late(
            late.share_per_day,
            late.points_per_day,
            timedelta(minutes=late.grace_minutes),
            late.floor_share,
            late.cut_off_days,
        ),
        Rounding(file.rounding.decimals, file.rounding.mode),
        tuple(file.milestone.items()),
        tuple(deadlines.items()),
        tuple(extensions),
        file.bonus,
        file.bonus_cap,
        file.timezone,
    )


def _undated(file: RulesFile) -> set[str]:
    """Return the milestones whose deadline is there but was found faulty already."""
    return {slug for slug, table in file.milestone.items() if table.deadline is not None}


def due_at(moment: datetime, zone: ZoneInfo | None, key: str, faults: list[str]) -> Due | None:
    """Return a moment in UTC; None where its zone leaves it open, which `faults` then says."""
    if moment.tzinfo is not None:
        return Due(moment.astimezone(UTC), zone or ZoneInfo("UTC"))
    if zone is None:
        faults.append(
            f"{key}: {moment.isoformat()} has no time zone; set `timezone`, as 'Europe/Berlin', "
            f"or write the offset, as {moment.isoformat()}+01:00"
        )
        return None
    first, second = (moment.replace(tzinfo=zone, fold=fold) for fold in (0, 1))
    if first.utcoffset() != second.utcoffset():
        skipped = first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != moment
        either = " or ".join(sorted({first.isoformat(), second.isoformat()}))
        faults.append(
            f"{key}: {moment.isoformat()} does not exist in {zone.key}, where the clocks are set "
            "forward over it; choose another time"
            if skipped
            else f"{key}: {moment.isoformat()} happens twice in {zone.key}, where the clocks are "
            f"set back; write {either}"
        )
        return None
    return Due(first.astimezone(UTC), zone)


def _sentence(name: str, error: ErrorDetails) -> str:
    """Say what is wrong and where, in the words of the file."""
    path = [part for part in error["loc"] if part != "[key]"]
    key = ""
    for part in path:
        key += f" {part + 1}:" if isinstance(part, int) else f".{part}" if key else part
    key = key.replace(":.", ": ") or "the file"
    kind, given = error["type"], error["input"]
    if kind == "extra_forbidden":
        said = "is no key of a rules file; see `grader gradebook rules --example`"
    elif kind == "value_error":
        said = str(error["ctx"]["error"])
    elif kind == "literal_error":
        said = f"must be {error['ctx']['expected']}, not {given!r}"
    elif kind == "missing":
        said = "is missing"
    else:
        said = f"{error['msg'][:1].lower()}{error['msg'][1:]} (it is {given!r})"
    return f"{name}: {printable(key)}: {said}"


def example() -> str:
    """Return a rules file with every key and what it means."""
    tables = "\n".join(
        f"[milestone.{slug}]\n"
        f"weight = {milestones.load(slug).points:g}\n"
        f"deadline = 2026-{9 + (number + 1) // 3:02}-{1 + 10 * ((number + 1) % 3):02}T23:59:59\n"
        for number, slug in enumerate(milestones.SLUGS)
    )
    return EXAMPLE.format(tables=tables, last=milestones.SLUGS[-1], first=milestones.SLUGS[0])


EXAMPLE = """\
# The rules of a term. Every key may be left out; its default stands beside it.

# The zone of all times below that carry no offset. No default: needed where there is such a time.
timezone = "Europe/Berlin"

# Which attempt counts: "best" (after its own late penalty, the default) or "last".
# A notebook with other content is a new attempt, the same content again is the same attempt.
attempt = "best"

# Whether bonus checks count (default true), on top of a milestone's points and late as they are,
# and the most that they may bring to the total (default: all of it).
bonus = true
bonus_cap = 10

[late]
# What each started day after the deadline costs: a share of the points earned, or points.
# A day ends when the clock shows the deadline's time again. Exactly at the deadline is on time.
share_per_day = 0.1       # or: points_per_day = 1.5
grace_minutes = 15        # default 0; the end of each day is moved by it
floor_share = 0.5         # default 0; late work keeps at least this share of what it earned
cut_off_days = 7          # default: none; work that is later than so many days earns nothing

[rounding]
# Each milestone's points are rounded, then the total made of them: decimals (default 2), and
# "half-even" (the default: 0.125 becomes 0.12) or "half-up" (0.125 becomes 0.13).
decimals = 2
mode = "half-up"

# One table a milestone.
# weight:       its part of the total (default: its points). Weights need not add up to 100.
# deadline:     the last second that is on time (default: none, nothing is late)
# extra_credit: whether points above the maximum that a person gave count (default false)
# bonus:        as above, for this milestone alone
# attempt:      as above, for this milestone alone
{tables}
# Extensions: a later deadline for one student. Without a milestone it holds for all of them, where
# it is later than the deadline. The latest that applies rules.
[[extension]]
student = "ann"
milestone = "{last}"
until = 2026-12-15T23:59:59
reason = "ill, certificate seen"
"""
