"""A term's rules: to the second, across the change of clocks, and never a silent zero."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import milestones
from grader.errors import BadInputError
from grader.gradebook.points import (
    Attempt,
    CheckPoints,
    Entry,
    Final,
    Manual,
    Override,
    final_points,
    total_points,
)
from grader.gradebook.rules import Due, Late, MilestoneRules, Rounding, Rules, example, rules_of

BERLIN = ZoneInfo("Europe/Berlin")
M2, M5 = "m2_kv_bytes", "m5_roofline"
DUE = datetime(2026, 10, 5, 21, 59, 59, tzinfo=UTC)  # 23:59:59 in Berlin
TENTH = Late(share_per_day=Decimal("0.1"))


def rules(text: str) -> Rules:
    return rules_of(tomllib.loads(text), "rules.toml")


def attempt(
    number: int, *points: float | None, late: timedelta = timedelta(), seen: timedelta | None = None
) -> Attempt:
    """An attempt whose checks have 5 points each, handed in so long after the deadline."""
    checks = tuple(
        CheckPoints(f"check_{i}", None if p is None else Decimal(str(p)), Decimal(5))
        for i, p in enumerate(points)
    )
    last = DUE + (late if seen is None else seen)
    return Attempt(number, f"{number}" * 64, DUE + late, last, "graded", checks)


def entry(*attempts: Attempt, manual: tuple[Manual, ...] = (), **more: object) -> Entry:
    overrides = more.pop("overrides", ())
    assert isinstance(overrides, tuple)
    return Entry(
        "ann", M2, Decimal(15), attempts, bool(more.pop("missing", False)), overrides, manual
    )


def due(late: Late = TENTH, **more: object) -> MilestoneRules:
    return MilestoneRules(Due(DUE, BERLIN), late=late, **more)  # type: ignore[arg-type]


# ---------------------------------------------------------------- deadlines


@pytest.mark.parametrize(
    ("late", "grace", "days"),
    [
        (timedelta(days=-1), 0, 0),
        (timedelta(0), 0, 0),  # exactly at it is on time
        (timedelta(seconds=1), 0, 1),
        (timedelta(days=1), 0, 1),
        (timedelta(days=1, seconds=1), 0, 2),
        (timedelta(minutes=15), 15, 0),
        (timedelta(minutes=15, seconds=1), 15, 1),
        (timedelta(days=1, minutes=15), 15, 1),
        (timedelta(days=1, minutes=15, seconds=1), 15, 2),
        (timedelta(days=400), 0, 400),
    ],
)
def test_days_are_counted_to_the_second(late: timedelta, grace: int, days: int) -> None:
    # a zone without summer time
    at = Due(DUE, ZoneInfo("Asia/Tokyo"))
    assert at.days_late(DUE + late, timedelta(minutes=grace)) == days


@pytest.mark.parametrize(
    ("deadline", "in_first_day", "in_second_day"),
    [
        # Saturday before clocks go forward: Sunday 23:59:59 is 23 hours later
        ("2026-03-28T23:59:59+01:00", "2026-03-29T23:59:59+02:00", "2026-03-30T00:00:00+02:00"),
        # Saturday before they go back: 25 hours later
        ("2026-10-24T23:59:59+02:00", "2026-10-25T23:59:59+01:00", "2026-10-26T00:00:00+01:00"),
        # the day ends at a time that the clock shows twice: at its second showing
        ("2026-10-24T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "2026-10-25T02:30:01+01:00"),
        # and at one that it skips: as if it had not been skipped
        ("2026-03-28T02:30:00+01:00", "2026-03-29T03:30:00+02:00", "2026-03-29T03:30:01+02:00"),
    ],
)
def test_a_late_day_ends_when_the_clock_shows_the_deadline_again(
    deadline: str, in_first_day: str, in_second_day: str
) -> None:
    at = Due(datetime.fromisoformat(deadline).astimezone(UTC), BERLIN)
    assert at.days_late(datetime.fromisoformat(in_first_day)) == 1
    assert at.days_late(datetime.fromisoformat(in_second_day)) == 2


@settings(deadline=None)
@given(
    st.datetimes(datetime(2025, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.integers(0, 60 * 86_400),
)
def test_more_time_is_never_fewer_days_late(moment: datetime, zone: str, seconds: int) -> None:
    at = Due(moment.replace(microsecond=0), ZoneInfo(zone))
    handed_in = at.at + timedelta(seconds=seconds)
    days = at.days_late(handed_in)
    assert at.days_late(handed_in + timedelta(seconds=1)) >= days
    assert abs(days - seconds / 86_400) <= 1 + 2 / 24  # a change of clocks is at most two hours
    assert (days == 0) == (seconds == 0)


def test_a_local_deadline_is_read_in_its_zone_in_summer_and_in_winter() -> None:
    found = rules(
        'timezone = "Europe/Berlin"\n'
        "[milestone.m2]\ndeadline = 2026-10-24T23:59:59\n"
        "[milestone.m5]\ndeadline = 2026-10-25T23:59:59\n"
    )
    for slug, utc_hour in ((M2, 21), (M5, 22)):
        deadline = found.deadline(slug)
        assert deadline is not None
        assert (deadline.at.hour, deadline.at.minute) == (utc_hour, 59)


def test_a_time_that_happens_twice_needs_its_offset() -> None:
    with pytest.raises(BadInputError, match="happens twice in Europe/Berlin") as refused:
        rules('timezone="Europe/Berlin"\n[milestone.m2]\ndeadline = 2026-10-25T02:30:00')
    for offset, hour in (("+02:00", 0), ("+01:00", 1)):
        written = f"2026-10-25T02:30:00{offset}"
        assert written in str(refused.value)
        found = rules(f'timezone="Europe/Berlin"\n[milestone.m2]\ndeadline = {written}')
        deadline = found.deadline(M2)
        assert deadline is not None
        assert deadline.at.hour == hour


def test_a_time_that_does_not_happen_is_refused() -> None:
    with pytest.raises(BadInputError, match="does not exist in Europe/Berlin"):
        rules('timezone="Europe/Berlin"\n[milestone.m2]\ndeadline = 2026-03-29T02:30:00')


def test_the_latest_extension_that_applies_rules_and_only_for_its_student() -> None:
    found = rules(
        'timezone = "Europe/Berlin"\n[late]\nshare_per_day = 0.1\n'
        "[milestone.m2]\ndeadline = 2026-10-05T23:59:59\n"
        "[milestone.m5]\ndeadline = 2026-11-05T23:59:59\n"
        '[[extension]]\nstudent = "ann"\nuntil = 2026-10-10T23:59:59\n'
        '[[extension]]\nstudent = "ann"\nmilestone = "m2"\nuntil = 2026-10-07T23:59:59\n'
    )
    handed_in = entry(attempt(1, 5, 5, 5, late=timedelta(days=6)))
    extended = final_points(handed_in, found.for_student("ann", M2))
    assert (extended.points, extended.days_late) == (Decimal("13.50"), 1)
    assert extended.lines[0] == "due 2026-10-10 23:59:59 CEST (extended): 1 day late"
    assert final_points(handed_in, found.for_student("bob", M2)).points == 6
    assert not found.for_student("ann", M5).extended, "it ends before the deadline there"


def test_an_extension_before_the_deadline_is_a_mistake() -> None:
    with pytest.raises(BadInputError, match="extension 1: until: lies before the deadline"):
        rules(
            'timezone = "UTC"\n[milestone.m2]\ndeadline = 2026-10-05T23:59:59\n'
            '[[extension]]\nstudent = "ann"\nmilestone = "m2"\nuntil = 2026-10-04T23:59:59\n'
        )


# ---------------------------------------------------------------- penalty, floor, rounding


def test_each_step_is_told() -> None:
    late = Late(share_per_day=Decimal("0.3"), floor_share=Decimal("0.5"))
    final = final_points(entry(attempt(1, 5, 5, 5, late=timedelta(hours=30))), due(late))
    assert final.lines == (
        "due 2026-10-05 23:59:59 CEST: 2 days late",
        "15 of 15",
        "2 days late: -60 %, floor 50 % = 7.5",
    )
    assert (final.points, final.before_penalty) == (Decimal("7.5"), Decimal(15))
    assert final.penalty == Decimal("7.5")


@pytest.mark.parametrize(
    ("late", "days", "left"),
    [
        (Late(share_per_day=Decimal("0.1")), 3, "8.4"),
        (Late(share_per_day=Decimal("0.1")), 30, "0"),
        (Late(points_per_day=Decimal("1.5")), 3, "7.5"),
        (Late(points_per_day=Decimal("1.5")), 30, "0"),
        (Late(points_per_day=Decimal("1.5"), floor_share=Decimal("0.25")), 30, "3"),
        (Late(), 30, "12"),
    ],
)
def test_a_penalty_takes_its_share_and_no_more_than_the_floor_leaves(
    late: Late, days: int, left: str
) -> None:
    handed_in = entry(attempt(1, 5, 5, 2, late=timedelta(days=days)))
    assert final_points(handed_in, due(late)).points == Decimal(left)


@pytest.mark.parametrize(
    ("mode", "points", "rounded"),
    [("half-even", "0.125", "0.12"), ("half-up", "0.125", "0.13"), ("half-even", "0.375", "0.38")],
)
def test_a_tie_is_rounded_as_the_rules_say(mode: str, points: str, rounded: str) -> None:
    rounding = Rounding(2, mode)  # type: ignore[arg-type]
    final = final_points(entry(attempt(1, float(points))), MilestoneRules(rounding=rounding))
    assert final.points == Decimal(rounded)


def test_a_tenth_is_a_tenth() -> None:
    found = rules("[late]\nshare_per_day = 0.1")
    assert found.late.share_per_day == Decimal("0.1"), "not the nearest double"


# ---------------------------------------------------------------- which attempt


def test_the_best_attempt_is_the_best_after_its_penalty() -> None:
    early, late = attempt(1, 4, 4, 4), attempt(2, 5, 5, 5, late=timedelta(days=3))
    final = final_points(entry(early, late), due())
    assert final.points == 12, "15 less 30 % would be 10.5"
    assert final.attempt == early
    better = attempt(2, 5, 5, 5, late=timedelta(days=1))
    assert final_points(entry(early, better), due()).points == Decimal("13.5")


def test_the_last_attempt_counts_though_it_is_worse_and_late() -> None:
    early, late = attempt(1, 5, 5, 5), attempt(2, 1, 1, 1, late=timedelta(days=1))
    assert final_points(entry(early, late), due(attempt="last")).points == Decimal("2.7")


def test_handing_the_first_in_again_makes_it_the_last_and_keeps_it_on_time() -> None:
    again = attempt(1, 5, 5, 5, seen=timedelta(days=4))
    other = attempt(2, 1, 1, 1, late=timedelta(days=1))
    assert final_points(entry(again, other), due(attempt="last")).points == 15


def test_an_attempt_without_a_time_is_on_time_and_says_so() -> None:
    unknown = Attempt(1, "1" * 64, None, None, "graded", attempt(1, 5, 5, 5).checks)
    final = final_points(entry(unknown), due())
    assert final.points == 15
    assert final.lines[0] == "no time of handing in is known: taken as on time"


# ---------------------------------------------------------------- what is not known


def test_a_broken_attempt_is_not_known_yet_and_never_zero() -> None:
    broken = attempt(1, 5, None, 5)
    assert broken.points is None
    final = final_points(entry(broken), due())
    assert final.points is None
    assert final.lines == ("not known yet: the grader broke on check_1",)


@pytest.mark.parametrize(
    ("known", "late", "points"),
    [
        ((4, 4, 4), timedelta(), None),  # the broken one may come to 15
        ((5, 5, 5), timedelta(), "15"),  # whatever it comes to, this is the best
        ((5, 5, 4.5), timedelta(days=1), "14.5"),  # with a day's penalty it comes to 13.5 at most
        ((4, 4, 4), timedelta(days=9), "12"),
    ],
)
def test_a_broken_attempt_leaves_the_best_open_only_where_it_could_be_better(
    known: tuple[float, ...], late: timedelta, points: str | None
) -> None:
    final = final_points(entry(attempt(1, *known), attempt(2, 5, None, 5, late=late)), due())
    assert final.points == (None if points is None else Decimal(points))


def test_the_last_attempt_is_not_known_where_it_broke() -> None:
    both = entry(attempt(1, 5, 5, 5), attempt(2, 0, None, 0, late=timedelta(days=1)))
    assert final_points(both, due(attempt="last")).points is None


def test_nothing_handed_in_is_zero_and_nothing_graded_is_not_known() -> None:
    assert final_points(entry(missing=True), due()).points == 0
    ungraded = final_points(entry(), due())
    assert ungraded.points is None
    assert ungraded.lines == ("not graded yet",)


def test_a_plan_that_nobody_marked_is_not_known_yet() -> None:
    plan = Manual("assumptions", None, Decimal(5))
    final = final_points(entry(attempt(1, 5, 5, 5), manual=(plan,)), due())
    assert final.points is None
    assert final.points_max == 20
    assert final.lines[-1] == "not known yet: assumptions not marked"


def test_a_total_with_an_unknown_part_is_not_known() -> None:
    known = Final("ann", M2, Decimal(15), Decimal(15), ())
    unknown = Final("ann", M5, None, Decimal(15), ())
    total = total_points([known, unknown], [Decimal(15), Decimal(15)], Rounding())
    assert total.points is None
    assert total.lines == (f"not known yet: {M5}",)


# ---------------------------------------------------------------- marks, extra credit, overrides


def test_marks_by_hand_add_up_and_a_bonus_raises_no_maximum() -> None:
    marks = (
        Manual("assumptions", Decimal("2.5"), Decimal(5)),
        Manual("beauty", Decimal(3), Decimal(3), bonus=True),
    )
    handed_in = entry(attempt(1, 5, 5, 5), manual=marks)
    final = final_points(handed_in, MilestoneRules(extra_credit=True))
    assert (final.points, final.points_max) == (Decimal("20.5"), Decimal(20))
    capped = final_points(handed_in, MilestoneRules())
    assert capped.points == 20
    assert "no extra credit here: 20" in capped.lines


def test_late_days_are_counted_off_marks_too() -> None:
    marks = (Manual("assumptions", Decimal(5), Decimal(5)),)
    handed_in = entry(attempt(1, 5, 5, 5, late=timedelta(days=1)), manual=marks)
    assert final_points(handed_in, due()).points == 18


def test_an_override_of_the_whole_stands_for_everything() -> None:
    def whole(points: int | None, minute: int) -> Override:
        value = None if points is None else Decimal(points)
        return Override("", value, "T. Eacher", "ill", DUE + timedelta(minutes=minute))

    late = attempt(1, 5, 5, 5, late=timedelta(days=5))
    final = final_points(entry(late, overrides=(whole(14, 1),)), due())
    assert (final.points, final.penalty) == (Decimal(14), Decimal(0))
    assert final.lines == ("set to 14 of 15 by T. Eacher: ill",)
    in_any_order = (whole(None, 3), whole(14, 1), whole(2, 2))
    assert final_points(entry(late, overrides=in_any_order), due()).points == Decimal("7.5")


def test_an_override_of_a_check_is_penalised_like_any_points() -> None:
    one = Override("check_2", Decimal(5), "T", "regraded", DUE)
    final = final_points(
        entry(attempt(1, 5, 5, 0, late=timedelta(days=1)), overrides=(one,)), due()
    )
    assert final.points == Decimal("13.5")
    assert final.lines[0] == "check_2 set to 5 by T: regraded"


def test_weights_make_the_total_of_rounded_points() -> None:
    finals = [
        Final("ann", M2, Decimal("7.5"), Decimal(15), ()),
        Final("ann", M5, Decimal(10), Decimal(10), ()),
    ]
    total = total_points(finals, [Decimal(40), Decimal(60)], Rounding())
    assert (total.points, total.points_max) == (Decimal(80), Decimal(100))
    by_default = Rules()
    assert by_default.weight(M2, Decimal(15)) == 15


# ---------------------------------------------------------------- the file


def test_the_example_is_a_rules_file_with_every_milestone() -> None:
    found = rules(example())
    assert [slug for slug, _ in found.deadlines] == list(milestones.SLUGS)
    assert found.late == Late(Decimal("0.1"), None, timedelta(minutes=15), Decimal("0.5"), 7)
    assert found.rounding == Rounding(2, "half-up")
    assert sum(found.weight(slug, Decimal(0)) for slug in milestones.SLUGS) == 100
    assert found.for_student("ann", milestones.SLUGS[-1]).extended


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("deadlin = 1", "rules.toml: deadlin: is no key of a rules file"),
        ("[milestone.m2]\nwieght = 1", "rules.toml: milestone.m2.wieght: is no key"),
        ('attempt = "first"', "rules.toml: attempt: must be 'best' or 'last', not 'first'"),
        ("[milestone.m9]", "rules.toml: milestone.m9: there is no milestone 'm9'"),
        ("[milestone.m2]\n[milestone.2]", "one milestone has two tables"),
        ('[milestone.m2]\nweight = "10"', "milestone.m2.weight: must be a number"),
        ("[milestone.m2]\nweight = true", "milestone.m2.weight: must be a number"),
        ("[milestone.m2]\nweight = nan", "milestone.m2.weight: must be a finite number"),
        ("[milestone.m2]\nweight = -1", "milestone.m2.weight: input should be greater than"),
        ("[milestone.m2]\ndeadline = 2026-10-01", "deadline: must be a date and a time"),
        ('[milestone.m2]\ndeadline = "2026-10-01T10:00:00"', "without quotes"),
        ("[milestone.m2]\ndeadline = 0026-10-01T10:00:00", "the year 26 is no year"),
        ("[milestone.m2]\ndeadline = 2026-10-01T10:00:00", "has no time zone; set `timezone`"),
        ('timezone = "Berlin"', "rules.toml: timezone: 'Berlin' is no time zone"),
        ('timezone = "../../etc/passwd"', "is no time zone"),
        ("timezone = 1", "rules.toml: timezone: must be the name of a time zone"),
        (
            "[late]\nshare_per_day = 20",
            "late.share_per_day: input should be less than or equal to 1",
        ),
        ("[late]\nshare_per_day = 0.1\npoints_per_day = 1", "late: has both"),
        ("[late]\ngrace_minutes = 0.5", "late.grace_minutes: input should be a valid integer"),
        ("[rounding]\ndecimals = 9", "rounding.decimals: input should be less than"),
        ('[rounding]\nmode = "up"', "rounding.mode: must be 'half-even' or 'half-up'"),
        ("[[extension]]\nuntil = 2026-10-01T10:00:00Z", "extension 1: student: is missing"),
        ('[[extension]]\nstudent = ""\nuntil = 2026-10-01T10:00:00Z', "extension 1: student:"),
        (
            '[[extension]]\nstudent = "ann"\nmilestone = "m2"\nuntil = 2026-10-01T10:00:00Z',
            "extension 1: until: m2_kv_bytes has no deadline to extend",
        ),
        ("extension = 3", "rules.toml: extension: input should be a valid list"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence_with_its_key(text: str, said: str) -> None:
    with pytest.raises(BadInputError) as refused:
        rules(text)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(BadInputError) as refused:
        rules('x = 1\nattempt = "first"\n[late]\nshare_per_day = 2')
    assert len(str(refused.value).splitlines()) == 3


def test_a_file_that_is_no_toml_is_one_sentence(tmp_path: Path) -> None:
    from grader.gradebook.rules import read_rules

    file = tmp_path / "rules.toml"
    for content in (b"attempt = ", b"\xff\xfe", b"a = 1\na = 2"):
        file.write_bytes(content)
        with pytest.raises(BadInputError, match=r"rules\.toml: is not TOML"):
            read_rules(file)
    with pytest.raises(BadInputError, match="cannot be read"):
        read_rules(tmp_path / "none.toml")
