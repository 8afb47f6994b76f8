"""The numbers of a class: who counts, what discriminates, which mistake, and what is no number."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr, pointbiserialr

from grader.classroom import Graded, Reason
from grader.html.statistics import (
    CheckNumbers,
    check_numbers,
    interval_of,
    made_mistakes,
    measured,
    point_biserial,
    totals,
)
from grader.present import as_json
from grader.report import CheckReport, Outcome, Report
from milestones.spec import Answer
from tests.grader.pages import M1, M2, check, graded, report
from tests.grader.test_judge import CALL, MISTAKE, is_seven, judged

PASSED, FAILED, SKIPPED, BROKEN = Outcome


def result(
    student: str, *checks: CheckReport, slug: str = M1, reason: Reason = Reason.GRADED
) -> Graded:
    return graded(student, report(slug, *checks), reason)


def whole(*results: Graded) -> dict[str, float | None]:
    return totals((one.hand_in.student, one.report.points) for one in results)


def numbers(*results: Graded) -> dict[tuple[str, str], CheckNumbers]:
    return {(one.slug, one.name): one for one in check_numbers(results, whole(*results))}


def test_the_correlation_is_that_of_scipy() -> None:
    rng = np.random.default_rng(3)
    passes, rest = rng.random(50) < 0.4, rng.normal(size=50)
    expected = pointbiserialr(passes, rest).statistic
    assert point_biserial(passes.tolist(), rest.tolist()) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("passes", "rest"),
    [([], []), ([True], [1.0]), ([True, True], [1.0, 2.0]), ([True, False], [1.0, 1.0])],
)
def test_where_nothing_varies_there_is_no_correlation(
    passes: list[bool], rest: list[float]
) -> None:
    assert point_biserial(passes, rest) is None


def test_a_check_is_correlated_with_the_rest_and_never_with_itself() -> None:
    rng = np.random.default_rng(5)
    results = []
    for i in range(400):
        outcomes = [PASSED if rng.random() < 0.5 else FAILED for _ in range(2)]
        results.append(result(f"s{i}", check(outcomes[0]), slug=M1))
        results.append(result(f"s{i}", check(outcomes[1]), slug=M2))
    one = numbers(*results)[M1, "first"]
    assert one.r is not None
    assert abs(one.r) < 0.15  # with its own points in the total it would be 0.7
    assert one.n_r == 400
    assert "says little" in one.warning


def test_a_check_that_goes_with_the_rest_is_not_marked_and_one_that_goes_against_it_is() -> None:
    results = []
    for i in range(60):
        good = i % 3 > 0
        with_it, against = (PASSED, FAILED) if good else (FAILED, PASSED)
        results.append(
            result(
                f"s{i}",
                check(with_it, name="with"),
                check(with_it, name="too"),
                check(with_it, name="three"),
                check(against, name="against"),
            )
        )
    found = numbers(*results)
    assert found[M1, "with"].warning == ""
    assert found[M1, "against"].warning == "those who pass it do worse elsewhere"


@pytest.mark.parametrize(("outcome", "told"), [(PASSED, "everyone passes"), (FAILED, "no one")])
def test_a_check_that_tells_nobody_apart_is_marked(outcome: Outcome, told: str) -> None:
    results = [result(f"s{i}", check(outcome), check(name="other")) for i in range(3)]
    assert told in numbers(*results)[M1, "first"].warning


@pytest.mark.parametrize(("n", "told"), [(19, ""), (25, "those who pass it do worse elsewhere")])
def test_a_few_students_mark_no_check(n: int, told: str) -> None:
    results = [
        result(
            f"s{i}", check(PASSED if i % 2 else FAILED), check(name="o", points=float(i % 2 == 0))
        )
        for i in range(n)
    ]
    assert numbers(*results)[M1, "first"].warning == told


def test_the_interval_is_that_of_scipy() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 60))
    expected = pearsonr(x, x + y)
    assert interval_of(expected.statistic, 60) == pytest.approx(
        tuple(expected.confidence_interval(0.95)), abs=1e-4
    )
    assert interval_of(1.0, 60) is not None


@pytest.mark.parametrize("reason", [Reason.MISSING, Reason.UNREADABLE, Reason.TRAP])
def test_who_did_not_answer_lowers_no_checks_rate(reason: Reason) -> None:
    found = numbers(result("ann", check()), result("bob", check(FAILED), reason=reason))
    assert found[M1, "first"].rate == 1.0


@pytest.mark.parametrize("reason", [Reason.LIMIT, Reason.ENDED])
def test_who_was_stopped_half_way_is_judged_by_what_was_answered(reason: Reason) -> None:
    found = numbers(result("ann", check()), result("bob", check(FAILED), reason=reason))
    assert found[M1, "first"].rate == 0.5


def test_each_outcome_is_counted_once_and_broken_is_in_no_rate() -> None:
    partly = CheckReport("first", "The first check.", FAILED, 1.0, 2.0)
    found = numbers(
        result("a", check()),
        result("b", check(FAILED)),
        result("c", check(SKIPPED)),
        result("d", partly),
        result("e", check(BROKEN), reason=Reason.BROKEN),
    )[M1, "first"]
    assert (found.passed, found.partly, found.failed, found.waits, found.broken) == (1, 1, 1, 1, 1)
    assert found.n == 4
    assert found.rate == 0.25


def test_a_total_with_an_unknown_part_is_unknown_and_in_no_correlation() -> None:
    results = [
        result("ann", check()),
        result("ann", check(BROKEN), slug=M2, reason=Reason.BROKEN),
        result("bob", check()),
    ]
    assert whole(*results) == {"ann": None, "bob": 2.0}
    assert numbers(*results)[M1, "first"].n_r == 1


def test_a_mistake_is_counted_once_a_student_and_only_where_the_notebook_ran() -> None:
    wrong = [check(FAILED, name=name, mistake="slip") for name in ("one", "two")]
    other = check(FAILED, name="one", mistake="rare")
    made = made_mistakes(
        [
            result("ann", *wrong),
            result("bob", wrong[0]),
            result("cid", other),
            result("dan", other, reason=Reason.TRAP),
            result("eve", other, reason=Reason.UNREADABLE),
        ]
    )
    assert [(one.name, one.checks, one.students) for one in made] == [
        ("slip", ("one", "two"), ("ann", "bob")),
        ("rare", ("one",), ("cid",)),
    ]


def test_the_same_name_in_two_milestones_is_two_mistakes() -> None:
    slip = check(FAILED, mistake="slip")
    made = made_mistakes([result("ann", slip), result("ann", slip, slug=M2)])
    assert [one.slug for one in made] == [M1, M2]


def test_figures_are_those_of_notebooks_that_ran_in_order() -> None:
    def figure(value: float) -> CheckReport:
        return check(FAILED, name="error", figure=value, bar=0.062)

    (found,) = measured(
        [
            result("ann", check(), figure(0.09)),
            result("bob", figure(0.05)),
            result("cid", check(FAILED, name="error")),
            result("dan", figure(0.01), reason=Reason.TRAP),
        ]
    )
    assert (found.bar, found.figures) == (0.062, (0.05, 0.09))


@pytest.mark.parametrize(("value", "named"), [(8, "eight"), (9, "")])
def test_a_check_names_the_mistake_whose_hint_is_read_and_no_students_file_does(
    value: int, named: str
) -> None:
    (found,) = judged(Answer(CALL, value), is_seven, mistakes=(MISTAKE,))
    assert found.mistake == named
    whole = report(M1, found)
    assert MISTAKE.name not in as_json(Report("s", True, (whole,))).replace(MISTAKE.hint, "")
    assert '"mistake"' not in as_json(Report("s", True, (whole,)))
