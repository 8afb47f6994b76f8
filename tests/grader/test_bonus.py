"""Bonus points stand beside a milestone's points everywhere, and never among them."""

from __future__ import annotations

import base64
import io
import json
import sqlite3
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

import milestones
from grader.changes import Before, changes
from grader.class_cli import verify
from grader.classroom import Graded, Reason
from grader.errors import BadInputError
from grader.gradebook import exports
from grader.gradebook.book import Book, history, open_book, override, read_class, record
from grader.gradebook.github import result
from grader.gradebook.gradescope import results
from grader.gradebook.points import (
    CheckPoints,
    Entry,
    Final,
    Manual,
    Override,
    final_points,
    total_points,
)
from grader.gradebook.rules import MilestoneRules, Rounding, Rules, rules_of
from grader.gradebook.standings import standings
from grader.gradebook_cli import gradebook
from grader.handins import find_hand_ins
from grader.html import feedback_page
from grader.html.statistics import check_numbers
from grader.judge import judge
from grader.live.fresh import Fresh
from grader.live.report import LiveReport
from grader.live.show import Shown
from grader.outputs import COLUMNS, report_path, write_class
from grader.present import as_json, as_junit, print_report
from grader.receipts import Issuer, signing_key
from grader.report import (
    EXIT_BROKEN,
    EXIT_FAILED,
    EXIT_PASSED,
    CheckReport,
    Outcome,
    Report,
    exit_code,
)
from grader.since import since
from grader.split import Split
from milestones.spec import Answer, Answers, Call, Check, Files, Milestone, Verdict, check, passed
from solutions.lesson import ROOT
from tests.grader.gradebook import M2, MONDAY, SPLIT, graded, settled
from tests.grader.pages import check as page_check
from tests.grader.pages import class_page
from tests.grader.pages import report as page_report
from tests.grader.test_class_numbers import whole
from tests.grader.test_rules import attempt, due, entry

PASSED, FAILED, BROKEN = Outcome.PASSED, Outcome.FAILED, Outcome.BROKEN


@check(points=15, topics=["core"])
def core(answers: Answers, _truth: Files) -> Verdict:
    """The core is right."""
    return passed() if answers.value("core") == 7 else Verdict(0.0)


@check(points=2, topics=["rung"], bonus=True)
def rung(answers: Answers, _truth: Files) -> Verdict:
    """A rung beyond."""
    return passed() if answers.value("rung") == 8 else Verdict(0.0, "Eight.")


def milestone(*checks: Check) -> Milestone:
    return Milestone(M2, "KV bytes", (), lambda _: [], checks)


WITH_BONUS, ALL_BONUS = milestone(core, rung), milestone(rung)


def judged(one: Milestone, **values: object) -> Report:
    by_id = {
        topic: Answer(Call(topic, "f", {}), value)
        for topic, value in values.items()
        if value is not None
    }
    checks = judge(one, Answers(by_id), Files(Path()), (), public=True)
    return Report("public-1", True, (replace(page_report(M2), checks=checks),))


def text(report: Report) -> str:
    stream = io.StringIO()
    print_report(report, Console(file=stream, width=100))
    return stream.getvalue()


# ---------------------------------------------------------------- a report


def test_a_bonus_raises_no_maximum_of_its_milestone() -> None:
    assert (WITH_BONUS.points, WITH_BONUS.bonus) == (15, 2)
    assert (ALL_BONUS.points, ALL_BONUS.bonus) == (0, 2)


@pytest.mark.parametrize(
    ("values", "points", "bonus", "code"),
    [
        ({"core": 7, "rung": 8}, 15, 2, EXIT_PASSED),
        ({"core": 7, "rung": 0}, 15, 0, EXIT_PASSED),
        ({"core": 0, "rung": 8}, 0, 2, EXIT_FAILED),
        ({"core": 7, "rung": None}, 15, None, EXIT_BROKEN),
    ],
)
def test_a_bonus_stands_beside_the_points(
    values: dict[str, int], points: float, bonus: float | None, code: int
) -> None:
    report = judged(WITH_BONUS, **values)
    (told,) = json.loads(as_json(report))["milestones"]
    assert (told["points"], told["points_max"]) == (points, 15)
    assert (told["bonus"], told["bonus_max"]) == (bonus, 2)
    assert [one["bonus"] for one in told["checks"]] == [False, True]
    assert exit_code(report.milestones) == code


def test_the_terminal_says_which_points_are_bonus() -> None:
    assert "15 of 15 points, 2 of 2 bonus" in text(judged(WITH_BONUS, core=7, rung=8))
    assert "15 of 15 points, 0 of 2 bonus" in text(judged(WITH_BONUS, core=7, rung=0))
    broken = text(judged(WITH_BONUS, core=7, rung=None))
    assert "15 of 15 points, bonus not graded (of 2)" in broken
    assert "bonus" not in text(judged(milestone(core), core=7))


def test_a_milestone_that_is_all_bonus_tells_its_bonus_alone() -> None:
    report = judged(ALL_BONUS, rung=8)
    assert "2 of 2 bonus" in text(report)
    assert "0 of 0" not in text(report)
    assert exit_code(report.milestones) == EXIT_PASSED
    assert exit_code(judged(ALL_BONUS, rung=0).milestones) == EXIT_FAILED


def test_a_bonus_that_is_not_earned_fails_no_build() -> None:
    beside = as_junit(judged(WITH_BONUS, core=7, rung=0))
    assert "Bonus, not earned: Eight." in beside
    assert 'failures="0"' in beside
    assert 'failures="1"' in as_junit(judged(ALL_BONUS, rung=0))


def test_milestones_beyond_the_seven_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milestones, "BONUS_SLUGS", ("x1_quantized_cache",))
    assert milestones.slug_of("x1") == "x1_quantized_cache"
    with pytest.raises(milestones.UnknownMilestoneError, match="beyond them x1_quantized_cache"):
        milestones.slug_of("x2")


def test_of_what_is_all_bonus_only_what_was_handed_in_is_graded(tmp_path: Path) -> None:
    for path in (f"ann/{M2}.ipynb", "ann/x1.ipynb", f"bob/{M2}.ipynb"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("{}", encoding="utf-8")
    found = [(one.student, one.slug) for one in find_hand_ins(tmp_path, [M2], ["x1"])]
    assert found == [("ann", M2), ("ann", "x1"), ("bob", M2)]


# ---------------------------------------------------------------- the gradebook

BONUS = CheckPoints("rung", Decimal(2), Decimal(2), bonus=True)


def with_bonus(
    *earned: float, late: timedelta = timedelta(), bonus: Decimal | None = BONUS.points
) -> Entry:
    one = attempt(1, *earned, late=late)
    one = replace(one, checks=(*one.checks, replace(BONUS, points=bonus)))
    return replace(entry(one), bonus_max=Decimal(2))


def test_a_bonus_counts_on_top_of_full_points_and_says_so() -> None:
    final = final_points(with_bonus(5, 5, 5), MilestoneRules())
    assert [final.points, final.points_max, final.bonus] == [17, 15, 2]
    assert final.lines == ("15 of 15", "2 of 2 bonus")


def test_a_bonus_is_late_as_its_notebook_is() -> None:
    final = final_points(with_bonus(5, 5, 5, late=timedelta(days=1)), due())
    assert (final.points, final.bonus) == (Decimal("15.3"), Decimal("1.8"))


def test_a_rule_switches_the_bonus_off_even_where_it_broke() -> None:
    off = MilestoneRules(bonus=False)
    for bonus in (Decimal(2), None):
        final = final_points(with_bonus(5, 5, 5, bonus=bonus), off)
        assert [final.points, final.bonus, final.bonus_max] == [15, 0, 0]
    assert final_points(with_bonus(5, 5, 5, bonus=None), MilestoneRules()).points is None


def all_bonus(*, manual: tuple[Manual, ...] = (), earned: int | None = 5) -> Entry:
    """What is held on a milestone whose one check is 5 bonus points."""
    one = attempt(1)
    rungs = CheckPoints(
        "rungs", None if earned is None else Decimal(earned), Decimal(5), bonus=True
    )
    attempts = () if earned is None else (replace(one, checks=(rungs,)),)
    return Entry("ann", "x1", Decimal(0), attempts, manual=manual, bonus_max=Decimal(5))


def style(points: int | None) -> tuple[Manual, ...]:
    return (Manual("style", None if points is None else Decimal(points), Decimal(2)),)


def test_marks_on_what_is_all_bonus_are_bonus() -> None:
    final = final_points(all_bonus(manual=style(1), earned=4), MilestoneRules())
    assert [final.points, final.points_max, final.bonus, final.bonus_max] == [5, 0, 5, 7]
    assert final.lines == ("5 of 7 bonus, 1 of them marked by hand",)
    assert final.told == "5 of 7 bonus"
    nothing = final_points(all_bonus(manual=style(None), earned=None), MilestoneRules())
    assert [nothing.points, *nothing.lines] == [0, "nothing was handed in"]
    assert final_points(all_bonus(manual=style(None)), MilestoneRules()).points == 5


def test_marks_on_what_is_all_bonus_leave_everyones_total_as_it_was() -> None:
    for weight in (5, 10):
        (full,) = (final_points(all_bonus(manual=style(2)), MilestoneRules()),)
        found = total_points([full], [Decimal(weight)], Rounding())
        assert [found.points, found.points_max] == [weight, 0]


def test_what_is_all_bonus_never_passes_its_maximum_and_can_be_switched_off() -> None:
    over = replace(all_bonus(manual=style(2)), bonus_max=Decimal(4))
    final = final_points(over, MilestoneRules())
    assert [final.points, final.bonus] == [6, 6]
    off = final_points(all_bonus(manual=style(2)), MilestoneRules(bonus=False))
    assert [off.points, off.told] == [0, "0"]
    assert off.lines == ("all of it is bonus, which does not count here",)
    none = final_points(all_bonus(manual=style(2), earned=None), MilestoneRules(bonus=False))
    assert none.points == 0


def test_an_override_of_what_is_all_bonus_is_bonus() -> None:
    set_to = Override("", Decimal(4), "T. Eacher", "seen", MONDAY)
    final = final_points(replace(all_bonus(), overrides=(set_to,)), MilestoneRules())
    assert [final.points, final.bonus] == [4, 4]
    assert final.lines == ("set to 4 of 5 bonus by T. Eacher: seen",)


def total(points: int, bonus: int, *, cap: int | None = None, weight: int = 15) -> Decimal | None:
    """The total of one milestone of 15 with its bonus and one that is all bonus, of which 1."""
    finals = [
        Final("ann", M2, Decimal(points), Decimal(15), (), bonus=Decimal(bonus)),
        Final("ann", "x1", Decimal(1), Decimal(0), (), bonus=Decimal(1), bonus_max=Decimal(2)),
    ]
    weights = [Decimal(weight), Decimal(2)]
    limit = None if cap is None else Decimal(cap)
    found = total_points(finals, weights, Rounding(), limit)
    assert found.points_max == weight, "what is all bonus is nothing that must be earned"
    return found.points


def test_the_total_includes_every_bonus_up_to_its_cap() -> None:
    assert total(17, 2) == 18
    assert total(12, 2) == 13, "a bonus makes up for what was lost"
    assert total(17, 2, weight=30) == 35, "a milestone's bonus has its milestone's weight"
    assert total(17, 2, cap=2) == 17
    assert total(17, 2, cap=0) == 15
    assert total(9, 0, cap=5) == 10


def test_the_rules_file_switches_a_bonus_off_or_caps_it() -> None:
    def of(written: str) -> Rules:
        return rules_of(tomllib.loads(written), "rules.toml")

    assert of("").for_student("ann", M2).bonus
    assert not of("bonus = false").for_student("ann", M2).bonus
    mixed = of("bonus = false\nbonus_cap = 2.5\n[milestone.2]\nbonus = true")
    assert mixed.for_student("ann", M2).bonus
    assert not mixed.for_student("ann", "m3_concurrency").bonus
    assert mixed.bonus_cap == Decimal("2.5")


def handed_in(
    student: str, points: float = 5.0, bonus: float | None = 1.0, slug: str = M2
) -> Graded:
    one = graded(student, [points], slug=slug)
    first = one.report.checks[0]
    outcome = BROKEN if bonus is None else PASSED if bonus else FAILED
    extra = replace(first, name="rung", outcome=outcome, points=bonus, points_max=2.0, bonus=True)
    checks = (extra,) if slug == "x1" else (first, extra)
    reason = Reason.BROKEN if bonus is None else Reason.GRADED
    return replace(one, report=replace(one.report, checks=checks), reason=reason)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with open_book(tmp_path / "book.sqlite", create=True) as opened:
        yield opened


def test_a_gradebook_keeps_what_was_bonus(book: Book) -> None:
    for one in (handed_in("ann"), handed_in("ann", slug="x1"), handed_in("bob", bonus=0.0)):
        record(book, one, split_id=SPLIT, walled=True)
    held = read_class(book)
    ann, bob = standings(held, Rules())
    assert [ann.finals[M2].points, ann.finals[M2].points_max] == [6, 5]
    assert [ann.finals["x1"].points, ann.finals["x1"].points_max] == [1, 0]
    assert [ann.total.points, ann.total.points_max] == [7, 5]
    assert bob.finals["x1"].points == 0
    assert bob.finals["x1"].lines == ("nothing was handed in",)
    assert bob.total.points == 5, "who leaves out what is all bonus owes nothing"
    kept = next(iter(held.reports.values()))
    assert [one.bonus for one in kept.checks] == [False, True]
    term = exports.Term(held, Rules(), [ann])
    assert "Unlimited grades" in " ".join(exports.as_moodle(term).remarks)
    assert "6,5,6" in exports.as_csv(term).text
    assert "1 of 2 bonus" in exports.as_csv(term).text
    assert "0 of 0" not in exports.as_csv(term).text


def test_a_lab_graded_to_another_outcome_tells_its_bonus(book: Book) -> None:
    for bonus in (1.0, 2.0):
        one = handed_in("ann", bonus=bonus, slug="x1")
        record(book, one, split_id=SPLIT, walled=True, handed_in_at=MONDAY)
    (change,) = history(book)
    assert (change.before, change.after) == ("graded, 1 of 2 bonus", "graded, 2 of 2 bonus")


def test_a_receipt_tells_a_labs_bonus_and_no_points_of_none(tmp_path: Path) -> None:
    issuer = Issuer(signing_key(tmp_path / "signing.key"), SPLIT, "c" * 64, walled=True)
    path = tmp_path / "ann.json"
    theirs = [handed_in("ann"), handed_in("ann", slug="x1")]
    path.write_text(issuer.receipt("ann", theirs), encoding="utf-8")
    told = CliRunner().invoke(verify, [str(path)]).output
    assert f"  {M2}  5 of 5, 1 of 2 bonus  graded" in told
    assert "  x1  1 of 2 bonus  graded" in told


def test_rules_tell_of_the_labs_they_name(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text("[milestone.x1]\ndeadline = 2026-12-01T12:00:00Z\n", encoding="utf-8")
    told = CliRunner().invoke(gradebook, ["rules", str(file)]).output
    assert "x1_quantized_cache: due 2026-12-01" in told
    assert "x2_eviction" not in told


def test_an_override_up_to_the_bonus_is_not_more_than_the_maximum(book: Book) -> None:
    record(book, handed_in("ann", slug="x1"), split_id=SPLIT, walled=True)
    for points, told in ((2, "as graded -> 2"), (3, "2 -> 3 (more than the maximum of 2)")):
        done = override(book, "ann", "x1", Decimal(points), author="T. Eacher", reason="seen")
        assert done == f"ann x1: {told}"


def test_a_broken_bonus_gives_way_to_a_known_one_in_any_order(tmp_path: Path) -> None:
    known, broken = (handed_in("ann"), MONDAY), (handed_in("ann", bonus=None), MONDAY)
    one = settled(tmp_path / "one.sqlite", [known, broken])
    assert one == settled(tmp_path / "two.sqlite", [broken, known])
    assert one == settled(tmp_path / "three.sqlite", [known])


def test_a_gradebook_of_the_schema_before_is_brought_up_to_this_one(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    settled(path, [(graded("ann"), MONDAY)])
    with sqlite3.connect(path) as old:
        for table, column in (
            ("gradings", "bonus"),
            ("gradings", "bonus_max"),
            ("checks", "bonus"),
        ):
            old.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        old.execute("UPDATE about SET value = '1'")
    old.close()
    before = path.read_bytes()
    with open_book(path) as opened:
        held = read_class(opened).entries["ann", M2]
        assert [held.checks_max, held.bonus_max] == [15, 0]
        record(opened, handed_in("bob"), split_id=SPLIT, walled=True, handed_in_at=MONDAY)
        assert read_class(opened).entries["bob", M2].bonus_max == 2
    assert (tmp_path / "old.sqlite.schema-1").read_bytes() == before, "an older grader reads that"


def test_a_gradebook_of_which_no_copy_can_be_kept_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    settled(path, [(graded("ann"), MONDAY)])
    with sqlite3.connect(path) as old:
        old.execute("UPDATE about SET value = '1'")
    old.close()
    (tmp_path / "old.sqlite.schema-1").mkdir()
    before = path.read_bytes()
    with pytest.raises(BadInputError, match="no copy of it could be kept"), open_book(path):
        pass
    assert path.read_bytes() == before


# ---------------------------------------------------------------- pages and other files


def test_grades_csv_has_the_columns_it_always_had() -> None:
    assert COLUMNS == ("student", "milestone", "points", "points_max", "reason")


def test_grades_csv_shows_a_labs_bonus_as_its_points(tmp_path: Path) -> None:
    issuer = Issuer(signing_key(tmp_path / "signing.key"), SPLIT, "c" * 64, walled=True)
    split = Split(ROOT / "data" / "public_split", SPLIT, public=False)
    labs = [handed_in("ann", slug="x1"), handed_in("bob", bonus=0.0, slug="x1")]
    write_class([*labs, handed_in("cy", bonus=None, slug="x1")], split, issuer, tmp_path)
    rows = (tmp_path / "grades.csv").read_text(encoding="utf-8").splitlines()
    assert rows[1:] == ["ann,x1,1,2,graded", "bob,x1,0,2,graded", "cy,x1,,2,broken"]


def test_the_page_of_a_class_asks_nobody_for_a_lab() -> None:
    missing = replace(handed_in("bob", 0.0, 0.0), reason=Reason.MISSING)
    page = class_page([handed_in("ann"), handed_in("ann", slug="x1"), missing], split_id="s")
    assert "<dd>1 <small>of 2, and 1 of labs</small></dd>" in page
    assert "everyone has handed it in" not in page
    assert page.partition('id="missing"')[2].partition("</section>")[0].count("<dt>") == 1
    assert "of labs" not in class_page([handed_in("ann")], split_id="s")


def test_a_page_of_feedback_shows_a_bonus_beside_the_points() -> None:
    bonus = replace(page_check(name="rung"), bonus=True)
    pages = [
        feedback_page("ann", [handed_in("ann") if not checks else page_graded(checks)], {},
                      split_id="s", public=False)
        for checks in ((page_check(), bonus), (bonus,))
    ]  # fmt: skip
    assert "<strong>2</strong> of 2 points, 2 of 2 bonus" in pages[0]
    assert "2 / 2 bonus" in pages[0]
    assert "of 0 points" not in pages[1]
    assert "2 of 2 bonus" in pages[1]


def test_a_live_check_of_a_lab_tells_its_bonus() -> None:
    report = replace(handed_in("ann", slug="x1").report, cells=(), stop=None)
    fresh = Fresh("a run", report)
    shown = Shown(LiveReport(report, "s", 1, 0.1, "", 0, (), True, {}, "", fresh))
    for told in (shown.as_html(), shown.as_text()):
        assert told.count("1 of 2 bonus") == 2
        assert "of 0" not in told


def test_since_the_last_time_tells_a_labs_bonus() -> None:
    before, now = (handed_in("ann", bonus=bonus, slug="x1").report for bonus in (0.0, 2.0))
    assert since(before, now).points_before == 0
    assert since(now, before).points_before == 2


def page_graded(checks: tuple[CheckReport, ...]) -> Graded:
    one = handed_in("ann")
    return replace(one, report=replace(one.report, checks=checks, stop=None, cells=()))


def test_the_page_of_a_class_shows_bonus_only_where_there_is_one() -> None:
    with_one = class_page([handed_in("ann"), handed_in("bob", bonus=0.0)], split_id="s")
    assert "Mean bonus" in with_one
    assert "0.5 of 2" in with_one
    assert ">5 +1<" in with_one
    without = class_page([graded("ann")], split_id="s")
    assert "onus" not in without.partition("<body")[2]
    lab = class_page([handed_in("ann", slug="x1"), handed_in("bob", 0, 0.0, "x1")], split_id="s")
    assert "no points" in lab
    assert ">1<" in lab


def test_a_bonus_is_no_part_of_the_rest_that_a_check_is_correlated_with() -> None:
    found = [handed_in(f"s{i}", float(5 * (i % 2)), float(i % 2)) for i in range(40)]
    rung_numbers = check_numbers(found, whole(*found))[1]
    assert rung_numbers.bonus
    assert rung_numbers.r == pytest.approx(1.0), "the rest is the five points of the other check"


def test_a_bonus_that_changed_is_told(tmp_path: Path) -> None:
    now = handed_in("ann", bonus=2.0)
    before = Report(SPLIT, False, (handed_in("ann", bonus=1.0).report,))
    report_path(tmp_path, "ann", M2).write_text(as_json(before), encoding="utf-8")
    ((student, _, _, _, change, what),) = changes([now], Before(tmp_path))
    assert (student, change) == ("ann", "+0")
    assert what == "bonus: 1 -> 2"


def test_a_lab_that_changed_came_or_went_is_told_with_its_bonus(tmp_path: Path) -> None:
    came, stays, went = milestones.BONUS_SLUGS[:3]

    def lab(slug: str, bonus: float, student: str = "ann") -> Graded:
        one = handed_in(student, bonus=bonus, slug="x1")
        return replace(one, hand_in=replace(one.hand_in, slug=slug))

    for one in (handed_in("ann"), lab(stays, 1.0), lab(went, 2.0)):
        report = as_json(Report(SPLIT, False, (one.report,)))
        report_path(tmp_path, "ann", one.hand_in.slug).write_text(report, encoding="utf-8")
    now = [handed_in("ann"), lab(came, 1.0), lab(stays, 2.0), lab(came, 2.0, "a new one")]
    assert list(changes(now, Before(tmp_path))) == [
        ("ann", came, "0", "1", "+1", "handed in now"),
        ("ann", stays, "1", "2", "+1", ""),
        ("ann", went, "2", "0", "-2", "handed in no more"),
    ]


def test_other_tools_add_a_bonus_to_the_score_and_not_to_its_maximum(tmp_path: Path) -> None:
    report = judged(WITH_BONUS, core=7, rung=8)
    path = tmp_path / "m2.json"
    path.write_text(as_json(report), encoding="utf-8")
    told = json.loads(base64.b64decode(result(path).removeprefix("result=")))
    assert (told["max_score"], sum(one["score"] for one in told["tests"])) == (15, 17)
    path.write_text(as_json(judged(WITH_BONUS, core=7, rung=0)), encoding="utf-8")
    told = json.loads(base64.b64decode(result(path).removeprefix("result=")))
    assert told["status"] == "pass"
    names = [one["name"] for one in results(report.milestones)["tests"]]
    assert names[1].endswith("(2/2 bonus)")
