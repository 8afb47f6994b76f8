"""A NaN at one key of a dict costs the checks that read this key, and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import milestones
from grader.judge import judge
from grader.report import CheckReport, Outcome
from grader.wire import pack, unpack
from milestones.spec import Answers
from tests.grader.fuzz import TRUTH, milestone_of, mistakes_of, right_answers

ESSENTIAL = ("gpu", "requests_per_gpu", "n_gpus")  # of a plan: what it is, and not what it says


def dicts_of(slug: str) -> dict[str, set[str]]:
    """Return the keys of the dicts that each topic answers."""
    found: dict[str, set[str]] = {}
    for answer in right_answers(slug).by_id.values():
        if isinstance(answer.value, dict) and answer.call.returns == "json":
            found.setdefault(answer.call.topic, set()).update(answer.value)
    return found


PLACES = [
    (slug, topic, key)
    for slug in milestones.SLUGS
    for topic, keys in dicts_of(slug).items()
    for key in sorted(keys)
    if topic in ("profile", "plan", "understanding") and key not in (*ESSENTIAL, "reason")
]


def spoilt(answers: Answers, topic: str, key: str, value: Any) -> Answers:
    """Return answers as they come through the wire when one key of a topic holds `value`."""
    return Answers(
        {
            call_id: replace(answer, value=through({**answer.value, key: value}))
            if answer.call.topic == topic and key in answer.value
            else answer
            for call_id, answer in answers.by_id.items()
        },
        answers.again,
    )


def through(value: Any) -> Any:
    return unpack(*pack(value, "json"))


def judged(slug: str, answers: Answers, *, public: bool = True) -> dict[str, CheckReport]:
    found = judge(milestone_of(slug), answers, TRUTH, mistakes_of(slug), public=public)
    return {report.name: report for report in found}


@pytest.mark.parametrize(("slug", "topic", "key"), PLACES)
def test_only_the_checks_that_read_a_key_fail_and_name_it(slug: str, topic: str, key: str) -> None:
    reports = judged(slug, spoilt(right_answers(slug), topic, key, float("nan")))
    readers = {c.name for c in milestone_of(slug).checks if key in c.reads and topic in c.topics}
    if topic == "plan":  # that every field is as it should be is a check of its own
        readers.add("well_formed")
    assert {name for name, one in reports.items() if one.outcome is not Outcome.PASSED} == readers
    assert readers
    for name in readers:
        assert reports[name].outcome is Outcome.FAILED
        asked, came_back = reports[name].diagnosis.asked, reports[name].diagnosis.came_back  # type: ignore[union-attr]
        if name not in ("own_step", "limited_by", "cost_of_a_million_tokens"):  # of many plans
            assert key in asked + came_back
            assert "nan" in came_back


@pytest.mark.parametrize("key", ["runs_by_attention", "share_by_gpu"])
@pytest.mark.parametrize("odd", [float("inf"), {1, 2}, 1j], ids=["inf", "set", "complex"])
def test_what_cannot_be_sent_inside_a_part_is_told_with_its_place(key: str, odd: Any) -> None:
    slug, right = "m1_profile_runs", right_answers("m1_profile_runs")
    inner = next(iter(right.value("profile/0")[key]))
    changed = {**right.value("profile/0")[key], inner: odd}
    answers = spoilt(right, "profile", key, changed)
    for public in (True, False):
        reports = judged(slug, answers, public=public)
        failed = [name for name, one in reports.items() if one.outcome is Outcome.FAILED]
        assert failed == ["attention_layouts" if key == "runs_by_attention" else key]
        assert key in reports[failed[0]].hint
    assert f"{key}[{inner!r}]" in judged(slug, answers)[failed[0]].hint
