"""Milestone 7: its truth against hand figures and brute force, its checks against junk."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from grader.judge import judge
from grader.report import CheckReport, Outcome
from milestones.m7_planner import MILESTONE as WHOLE_MILESTONE
from milestones.m7_planner.calls import CASES
from milestones.m7_planner.checks import written_plan
from milestones.m7_planner.fate import REFUSED_COST, Fate, fates, read_truth
from milestones.m7_planner.plans import KEYS, Plan, demand
from milestones.spec import Answer, Answers, Call, Files, Problem
from solutions.exam import (
    mistaken_answers,
    named_mistakes,
    reference,
    reference_answers,
    stored_mistakes,
    write_questions,
)
from solutions.lesson import ROOT, read_lesson
from solutions.m7_planner.case import CASE, what_ifs
from solutions.m7_planner.oracle import case_setting, cheapest, requests_held, step_tables
from solutions.world.gpus import gpus_of_runs
from solutions.world.step import step_ms
from tests.milestones.closing import without_closing

MILESTONE = without_closing(WHOLE_MILESTONE)
SLUG = MILESTONE.slug
SEED = (7).to_bytes(32, "big")
BOUNDS = (1 - 1e-12, 1 + 1e-12)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("m7") / "split"
    write_questions(folder, SEED, 0, slugs=(SLUG,))
    return folder


@pytest.fixture(scope="module")
def asked(split: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Files(split / "questions").json(f"{SLUG}/workloads.json")[
        "workloads"
    ]
    return found


@pytest.fixture(scope="module")
def solved(split: Path) -> Answers:
    return reference_answers(SLUG, split)


def judged(split: Path, answers: Answers) -> dict[str, CheckReport]:
    reports = judge(MILESTONE, answers, Files(split / "truth"), (), public=True)
    return {report.name: report for report in reports}


def test_the_fates_of_all_plans_are_worked_out_once_in_a_judging(
    split: Path, solved: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_reads = 0

    def counted(*given: Any) -> Any:
        nonlocal n_reads
        n_reads += 1
        return read_truth(*given)

    monkeypatch.setattr("milestones.m7_planner.fate.read_truth", counted)
    judged(split, solved)
    assert n_reads == 2  # of the workloads, and of the four cases
    truth = Files(split / "truth")
    right, none = fates(solved, truth), fates(refusing(solved), truth)
    told = ["refusal" in {fate.broken for fate in found} for found in (right, none)]
    assert told == [False, True]  # other answers have other fates


def refusing(solved: Answers) -> Answers:
    """Return None with a reason in place of every plan."""
    refusal = {"gpu": None, "reason": "too dear"}
    return edited(solved, lambda answer: replace(answer, value=refusal))


def edited(solved: Answers, edit: Callable[[Answer], Answer]) -> Answers:
    return Answers({call_id: edit(answer) for call_id, answer in solved.by_id.items()})


def with_value(answer: Answer, **changes: Any) -> Answer:
    """Change fields of a plan; leave other answers as they are."""
    if isinstance(answer.value, dict) and answer.value.get("n_gpus"):
        return replace(answer, value={**answer.value, **changes})
    return answer


# ---------------------------------------------------------------- the workloads


def test_the_workloads_keep_to_the_contract(asked: list[dict[str, Any]]) -> None:
    bands = {gpu.gpu: gpu for gpu in gpus_of_runs()}
    assert len(asked) == 300
    for workload in asked:
        names = [offer["gpu"] for offer in workload["gpus"]]
        assert 2 <= len(names) == len(set(names)) <= 5
        for offer in workload["gpus"]:
            band = bands[offer["gpu"]]
            assert band.usd_per_hour_low <= offer["usd_per_hour"] <= band.usd_per_hour_high
            assert requests_held(workload, offer) < 257
            quotient = requests_held(workload, offer)
            assert abs(quotient - round(quotient)) > 1e-6
        assert workload["weight_bits"] in (16, 8, 4)
        assert workload["kv_bits"] in (16, 8)
        assert min(workload["prompt_tokens"], workload["output_tokens"]) >= 1
        assert min(workload["requests_per_second"], workload["max_step_ms"]) > 0


def test_half_of_the_workloads_are_of_shapes_that_training_has_not(
    asked: list[dict[str, Any]],
) -> None:
    train = pd.read_csv(Path(__file__).parents[2] / "data" / "train.csv")
    keys = ["n_layers", "hidden_size", "n_heads", "n_kv_heads", "head_dim"]
    trained = set(map(tuple, train[keys].drop_duplicates().to_numpy().tolist()))
    unseen = [w for w in asked if tuple(w["model"][k] for k in keys) not in trained]
    assert 0.4 < len(unseen) / len(asked) < 0.6


def test_every_kind_of_limit_is_common_and_some_workloads_are_impossible(
    split: Path, solved: Answers
) -> None:
    found = fates(solved, Files(split / "truth"))
    impossible = [fate for fate in found if not fate.truth.possible]
    assert 20 <= len(impossible) <= 40
    said = [fate.plan.limited_by for fate in found if isinstance(fate.plan, Plan)]
    assert said.count("memory") >= 30
    assert said.count("latency") >= 30
    small = [f for f in found if isinstance(f.plan, Plan) and f.plan.n_gpus == 1]
    large = [f for f in found if isinstance(f.plan, Plan) and f.plan.n_gpus >= 50]
    assert min(len(small), len(large)) >= 15  # a load below one GPU, and one of a large fleet


def test_no_workload_is_close_to_being_impossible_or_possible(split: Path, solved: Answers) -> None:
    for fate in fates(solved, Files(split / "truth")):
        steps = [steps[0] for gpu, steps in fate.truth.steps.items() if fate.truth.held[gpu]]
        bound = fate.workload["max_step_ms"]
        if fate.truth.possible:
            assert min(steps) * 1.24 < bound
        elif steps:
            assert min(steps) > bound * 1.14


def test_questions_and_truth_stay_small(split: Path) -> None:
    questions = split / "questions" / SLUG / "workloads.json"
    truth = split / "truth" / SLUG / "steps.npz"
    assert questions.stat().st_size < 300_000
    assert truth.stat().st_size < 1_200_000  # with the mistakes beside it below 2.5 MB


# ---------------------------------------------------------------- the truth


def test_the_table_is_the_worlds_step_of_each_gpu_and_batch(split: Path, solved: Answers) -> None:
    for fate in fates(solved, Files(split / "truth"))[::29]:
        workload = fate.workload
        for offer in workload["gpus"]:
            for requests in {1, fate.truth.held[offer["gpu"]] + 1}:
                context = workload["prompt_tokens"] + workload["output_tokens"]
                bits = {k: workload[k] for k in ("weight_bits", "kv_bits")}
                row = {**workload["model"], **offer, **bits}
                run = pd.DataFrame([{**row, "batch_size": requests, "context_len": context}])
                of_table = fate.truth.steps[offer["gpu"]][requests - 1]
                assert of_table == pytest.approx(float(step_ms(run)[0]), rel=1e-12)


def test_held_requests_by_hand() -> None:
    # 8 H200 of the case: (0.92 x 141e9 - 32.7639e9) / (6,000 x 262,144) = 61.6
    h200 = next(offer for offer in CASE["gpus"] if offer["gpu"] == "H200")
    assert requests_held(CASE, h200) == pytest.approx(61.64, abs=0.01)
    assert case_setting(CASE).held == (7, 25, 25, 61, 84)


def test_the_cheapest_fleet_by_hand() -> None:
    workload = {
        "requests_per_second": 10.0,
        "output_tokens": 100,
        "max_step_ms": 20.0,
        "gpus": [{"gpu": "a", "usd_per_hour": 1.0}, {"gpu": "b", "usd_per_hour": 2.5}],
    }
    # 1,000 tokens a second. a: 1 request in 10 ms makes 100, so 10 GPUs, 10 USD; 2 in 21 ms are
    # too slow. b: 4 requests in 10 ms make 400, so 3 GPUs, 7.50 USD.
    table = [np.array([10.0, 21.0, 22.0]), np.array([8.0, 8.5, 9.0, 10.0, 30.0])]
    assert cheapest(workload, table) == 7.5
    assert math.isnan(cheapest({**workload, "max_step_ms": 7.0}, table))
    # Exactly at the bound, and exactly enough GPUs, both hold.
    assert cheapest({**workload, "max_step_ms": 10.0, "requests_per_second": 8.0}, table) == 5.0


def test_no_plan_that_holds_is_cheaper_than_the_cheapest(split: Path, solved: Answers) -> None:
    rng = np.random.default_rng(0)
    for fate in fates(solved, Files(split / "truth"))[::7]:
        w = fate.workload
        for offer in w["gpus"]:
            name, held = offer["gpu"], fate.truth.held[offer["gpu"]]
            for requests in rng.integers(1, held + 1, 5) if held else []:
                step = fate.truth.steps[name][requests - 1]
                if step <= w["max_step_ms"]:
                    n_gpus = max(1, math.ceil(demand(w) * step / (1000 * requests)))
                    assert n_gpus * offer["usd_per_hour"] >= fate.truth.cheapest * (1 - 1e-9)


# ---------------------------------------------------------------- the judge


@pytest.fixture(scope="module")
def one(split: Path, solved: Answers) -> Fate:
    """A workload whose plan uses several GPUs and requests, and holds."""
    return next(
        fate
        for fate in fates(solved, Files(split / "truth"))
        if isinstance(fate.plan, Plan) and not fate.broken and fate.plan.requests_per_gpu > 4
    )


def fate_of(split: Path, workload: dict[str, Any], number: int, **plan: Any) -> Fate:
    call = Call(f"plan/{number}", "plan", {"workload": workload})
    answers = Answers({call.id: Answer(call, plan)})
    return fates(answers, Files(split / "truth"))[0]


def plan_for(workload: dict[str, Any], gpu: str, requests: int, n_gpus: int) -> dict[str, Any]:
    price = next(g["usd_per_hour"] for g in workload["gpus"] if g["gpu"] == gpu)
    return {
        "gpu": gpu,
        "requests_per_gpu": requests,
        "n_gpus": n_gpus,
        "decode_step_ms": 1.0,
        "fleet_usd_per_hour": n_gpus * price,
        "usd_per_million_tokens": 1.0,
        "limited_by": "load",
    }


def test_a_plan_breaks_just_beyond_memory_latency_and_load(split: Path, one: Fate) -> None:
    assert isinstance(one.plan, Plan)
    workload, number = dict(one.workload), one.number
    gpu, held = one.plan.gpu, one.truth.held[one.plan.gpu]
    steps = one.truth.steps[gpu]
    most = int(np.searchsorted(steps[:-1], workload["max_step_ms"], side="right"))
    needed = math.ceil(demand(workload) * steps[most - 1] / (1000 * most))

    def broken(requests: int, n_gpus: int) -> str:
        return fate_of(split, workload, number, **plan_for(workload, gpu, requests, n_gpus)).broken

    assert broken(held + 1, 10**6) == "memory"
    assert broken(most, needed) == ""
    if needed > 1:
        assert broken(most, needed - 1) == "load"
    if most < held:
        assert broken(most + 1, 10**6) == "latency"


@pytest.mark.parametrize("factor", BOUNDS)
def test_a_bound_met_to_within_rounding_is_met(split: Path, one: Fate, factor: float) -> None:
    assert isinstance(one.plan, Plan)
    step = float(one.truth.steps[one.plan.gpu][1])
    exactly = {**one.workload, "max_step_ms": step * factor, "output_tokens": 1}
    exactly["requests_per_second"] = 3 * 2 * 1000 / step / factor
    fate = fate_of(split, exactly, one.number, **plan_for(exactly, one.plan.gpu, 2, 3))
    assert fate.broken == ""


def test_what_limits_a_plan_is_what_stops_one_more(split: Path, one: Fate) -> None:
    assert isinstance(one.plan, Plan)
    gpu, held = one.plan.gpu, one.truth.held[one.plan.gpu]
    steps = one.truth.steps[gpu]

    def limits(requests: int, max_step_ms: float) -> set[str]:
        workload = {**one.workload, "max_step_ms": max_step_ms}
        return fate_of(split, workload, one.number, **plan_for(workload, gpu, requests, 1)).limits

    assert "memory" in limits(held, 10 * steps[-1])
    assert "load" not in limits(1, steps[1] / 1.06)  # one more would be 6 % too slow
    assert limits(1, steps[1] / 1.06) == {"latency"}
    assert limits(1, steps[1] / 1.04) == {"latency", "load"}  # within 5 % either is accepted
    assert limits(1, steps[1] / 0.96) == {"latency", "load"}
    assert limits(1, steps[1] / 0.94) == {"load"}


def test_a_late_plan_does_not_hold(split: Path, solved: Answers) -> None:
    late = judged(split, edited(solved, lambda answer: replace(answer, in_time=False)))
    assert late["plans_hold"].outcome is Outcome.FAILED
    assert "took more than 2 CPU seconds" in late["plans_hold"].hint


def test_half_points_between_the_bars(split: Path, solved: Answers) -> None:
    truth = Files(split / "truth")
    possible = [f.number for f in fates(solved, truth) if not f.broken and f.truth.possible]

    def with_broken(n: int) -> CheckReport:
        spoilt = {f"plan/{i}" for i in possible[:n]}

        def spoil(answer: Answer) -> Answer:
            return (
                with_value(answer, requests_per_gpu=10**6) if answer.call.id in spoilt else answer
            )

        return judged(split, edited(solved, spoil))["plans_hold"]

    already = round(300 * (1 - (judged(split, solved)["plans_hold"].figure or 0)))
    assert with_broken(15 - already).points == 3
    assert with_broken(16 - already).points == 1.5
    assert with_broken(18 - already).points == 1.5
    assert with_broken(19 - already).points == 0


def test_a_fleet_twice_as_large_holds_and_costs_twice(split: Path, solved: Answers) -> None:
    before = judged(split, solved)["cost_ratio"].figure
    truth = Files(split / "truth")
    by_id = {f"plan/{fate.number}": fate for fate in fates(solved, truth)}

    def double(answer: Answer) -> Answer:
        fate = by_id.get(answer.call.id)
        if fate is None or not isinstance(fate.plan, Plan):
            return answer
        assert fate.plan.usd_per_million_tokens is not None
        return with_value(
            answer,
            n_gpus=2 * fate.plan.n_gpus,
            fleet_usd_per_hour=2 * fate.plan.cost_usd_per_hour,
            usd_per_million_tokens=2 * fate.plan.usd_per_million_tokens,
        )

    after = judged(split, edited(solved, double))
    assert before is not None
    assert after["cost_ratio"].figure == pytest.approx(2 * before, rel=0.02)
    assert after["cost_ratio"].points == 0
    assert after["plans_hold"].outcome is Outcome.PASSED
    assert after["well_formed"].outcome is Outcome.PASSED


def test_refusing_everything_or_serving_everything_on_one_gpu_earns_almost_nothing(
    split: Path, solved: Answers
) -> None:
    refusal = {"gpu": None, "reason": "too hard"}
    refused = judged(split, edited(solved, lambda a: replace(a, value=refusal)))
    assert not any(report.points for report in refused.values())

    def careless(answer: Answer) -> Answer:
        if "workload" not in answer.call.args:
            return answer
        workload = answer.call.args["workload"]
        cheap = min(workload["gpus"], key=lambda offer: float(offer["usd_per_hour"]))
        return replace(answer, value=plan_for(workload, cheap["gpu"], 1, 1))

    served = judged(split, edited(solved, careless))
    assert {r.name for r in served.values() if r.points} <= {"well_formed", "limited_by"}


# ---------------------------------------------------------------- junk


JUNK: list[Any] = [
    None,
    True,
    "H200",
    3,
    -1.5,
    [],
    [1, 2],
    {},
    {"gpu": None},
    {"gpu": None, "reason": ""},
    {"gpu": None, "reason": 3},
    {"gpu": "H200"},
    {"gpu": ["H200"], "n_gpus": 1},
    {"gpu": {"a": 1}},
    np.array([np.nan, np.inf]),
    np.array(3.0),
]
FIELDS: list[Any] = [None, True, "x", "", -1, 0, 0.5, 1e308, 10**300, -(10**300), [], {}, [[1]]]


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_junk_fails_every_check_and_breaks_none(split: Path, solved: Answers, junk: Any) -> None:
    reports = judged(split, edited(solved, lambda answer: replace(answer, value=junk)))
    assert {r.outcome for r in reports.values()} == {Outcome.FAILED, Outcome.SKIPPED}
    assert reports["written_plan"].outcome is Outcome.SKIPPED
    assert not any(r.points for r in reports.values())


@pytest.mark.parametrize(
    ("edit", "told", "untold"),
    [
        (lambda a: with_value(a, gpu="h200"), "neither a plan nor None", "No plan, and one holds"),
        (lambda a: replace(a, value="H200"), "neither a plan nor None", "A plan, and none can"),
        (
            lambda a: replace(a, value={"gpu": None, "reason": "too hard"}),
            "No plan, and one holds",
            "neither",
        ),
    ],
    ids=["misspelt", "a text", "a refusal"],
)
def test_what_cannot_be_read_is_called_neither_a_plan_nor_a_refusal(
    split: Path, solved: Answers, edit: Callable[[Answer], Answer], told: str, untold: str
) -> None:
    reports = judged(split, edited(solved, edit))
    hint = reports["none_only_where_nothing_holds"].hint
    assert told in hint
    assert untold not in hint
    assert ("neither" in reports["own_step"].hint) is ("neither" in told)


@pytest.mark.parametrize("junk", FIELDS, ids=repr)
def test_a_junk_field_breaks_no_check(split: Path, solved: Answers, junk: Any) -> None:
    def spoil(answer: Answer) -> Answer:
        # Workload 0 gets junk in the first field, workload 1 in the second, and so on around.
        _, _, number = answer.call.id.partition("/")
        return with_value(answer, **{KEYS[int(number) % len(KEYS)]: junk})

    spoilt = {a.call.id: spoil(a) for a in solved.under("plan")}
    reports = judged(split, Answers({**solved.by_id, **spoilt}))
    assert Outcome.BROKEN not in {r.outcome for r in reports.values()}
    assert reports["well_formed"].outcome is Outcome.FAILED


@pytest.mark.parametrize("junk", FIELDS, ids=repr)
def test_a_junk_figure_in_the_written_plan_fails(split: Path, solved: Answers, junk: Any) -> None:
    for key in solved.value("written"):
        value = {**solved.value("written"), key: copy.copy(junk)}
        spoilt = replace(solved.by_id["written"], value=value)
        answers = Answers({**solved.by_id, "written": spoilt})
        assert written_plan.judge(answers, Files(split / "truth")).share == 0


RAISED = Problem("`plan` raised KeyError on a question", "KeyError: 'n_kv_heads' of workload 5")


def raising(solved: Answers, which: Callable[[str], bool]) -> Answers:
    def spoil(answer: Answer) -> Answer:
        return replace(answer, value=None, problem=RAISED) if which(answer.call.id) else answer

    return edited(solved, spoil)


def failing(reports: dict[str, CheckReport]) -> set[str]:
    return {name for name, report in reports.items() if report.outcome is not Outcome.PASSED}


def test_one_plan_that_raised_is_one_plan_that_does_not_hold(split: Path, solved: Answers) -> None:
    before, truth = judged(split, solved), Files(split / "truth")
    five = next(f.number for f in fates(solved, truth) if f.truth.possible and not f.broken)
    spoilt = raising(solved, lambda call_id: call_id == f"plan/{five}")
    reports = judged(split, spoilt)
    assert failing(reports) == {"well_formed"}
    assert RAISED.summary in reports["well_formed"].hint
    assert RAISED.detail in reports["well_formed"].hint
    assert reports["plans_hold"].figure == pytest.approx(
        (before["plans_hold"].figure or 0) - 1 / 300
    )
    assert "1 gave no usable answer" in reports["plans_hold"].hint
    n_possible = sum(fate.truth.possible for fate in fates(solved, truth))
    ratio = fates(solved, truth)[five].cost_ratio
    rise = (reports["cost_ratio"].figure or 0) - (before["cost_ratio"].figure or 0)
    assert rise == pytest.approx((REFUSED_COST - ratio) / n_possible)


def test_raising_where_nothing_holds_costs_what_it_gets_wrong(split: Path, solved: Answers) -> None:
    found = fates(solved, Files(split / "truth"))
    hopeless = {f"plan/{fate.number}" for fate in found if not fate.truth.possible}
    reports = judged(split, raising(solved, lambda call_id: call_id in hopeless))
    assert failing(reports) == {
        "well_formed",
        "plans_hold",  # a right None holds, and these are none: 8 % of the answers
        "cost_ratio",  # waits for the share that holds
        "none_only_where_nothing_holds",
        "written_plan",
        "plan_in_words",
    }


@pytest.mark.parametrize("everything", [True, False], ids=["everything", "only the workloads"])
def test_where_every_plan_raised_every_check_says_so(
    split: Path, solved: Answers, everything: bool
) -> None:
    spoilt = raising(solved, lambda call_id: everything or call_id.startswith("plan/"))
    for public in (True, False):
        for report in judge(MILESTONE, spoilt, Files(split / "truth"), (), public=public):
            assert not report.points
            if report.name in ("written_plan", "plan_in_words"):
                assert report.outcome is Outcome.SKIPPED
            else:
                assert report.outcome is Outcome.FAILED
                assert RAISED.summary in report.hint
                assert (RAISED.detail in report.hint) == public


@pytest.mark.parametrize(
    ("changes", "reading"),
    [
        ({"limited_by": "MEMORY"}, {"limited_by"}),
        ({"limited_by": None}, {"limited_by"}),
        ({"usd_per_million_tokens": "0.58"}, {"cost_of_a_million_tokens"}),
        ({"usd_per_million_tokens": -1}, {"cost_of_a_million_tokens"}),
        ({"decode_step_ms": True}, {"own_step"}),
        ({"decode_step_ms": 0}, {"own_step"}),
        ({"fleet_usd_per_hour": []}, set()),
        ({"fleet_usd_per_hour": 10**300}, set()),
    ],
    ids=str,
)
def test_a_malformed_field_fails_the_form_and_its_own_check_alone(
    split: Path, solved: Answers, changes: dict[str, Any], reading: set[str]
) -> None:
    spoilt = {a.call.id: with_value(a, **changes) for a in solved.under("plan")}
    for answers in (
        Answers({**solved.by_id, **spoilt}),
        edited(Answers({**solved.by_id, **spoilt}), lambda a: without(a, *changes)),
    ):
        assert failing(judged(split, answers)) == {"well_formed"} | reading


def without(answer: Answer, *keys: str) -> Answer:
    """Take fields out of the answer for a workload."""
    if answer.call.topic != "plan":
        return answer
    return replace(answer, value={k: v for k, v in answer.value.items() if k not in keys})


def test_a_refusal_without_a_reason_is_still_a_refusal(split: Path, solved: Answers) -> None:
    reports = judged(split, edited(solved, lambda answer: without(answer, "reason")))
    assert failing(reports) == {"well_formed"}
    assert "'reason'" in reports["well_formed"].hint


def test_a_few_right_plans_among_refusals_earn_nothing(split: Path, solved: Answers) -> None:
    refusal = {"gpu": None, "reason": "too hard"}

    def refuse_most(answer: Answer) -> Answer:
        number = answer.call.id.removeprefix("plan/")
        return replace(answer, value=refusal) if number.isdigit() and int(number) > 20 else answer

    reports = judged(split, edited(solved, refuse_most))
    assert not any(report.points for report in reports.values())
    assert "are plans; most workloads can be served" in reports["fits_in_memory"].hint


def test_a_list_of_the_four_cases_is_no_planner(split: Path, solved: Answers) -> None:
    cheap = {"gpu": None, "reason": "not on the list"}

    def look_up(answer: Answer) -> Answer:
        return replace(answer, value=cheap) if answer.call.topic == "plan" else answer

    def one_gpu(answer: Answer) -> Answer:
        if answer.call.topic != "plan":
            return answer
        workload = answer.call.args["workload"]
        return replace(answer, value=plan_for(workload, workload["gpus"][0]["gpu"], 1, 1))

    for guess in (look_up, one_gpu):
        written = judged(split, edited(solved, guess))["written_plan"]
        assert written.outcome is Outcome.SKIPPED
        assert not written.points


def test_a_faulty_plan_for_a_case_is_said_to_be_one(split: Path, solved: Answers) -> None:
    base = with_value(solved.by_id["case/base"], limited_by="MEMORY")
    report = judged(split, Answers({**solved.by_id, "case/base": base}))["written_plan"]
    assert report.outcome is Outcome.FAILED
    assert "not well formed" in report.hint


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"requests_per_gpu": 10**6}, "no step to compare"),
        ({"decode_step_ms": None}, "no step to compare"),
        ({"decode_step_ms": 1e299}, "more than 10 times too long"),
    ],
    ids=str,
)
def test_a_step_that_says_nothing_has_no_figure(
    split: Path, solved: Answers, changes: dict[str, Any], told: str
) -> None:
    report = judged(split, edited(solved, lambda a: with_value(a, **changes)))["own_step"]
    assert report.outcome is Outcome.FAILED
    assert report.figure is None
    assert told in report.hint
    assert "00000" not in report.hint


def test_the_step_is_judged_by_the_median_plan(split: Path, solved: Answers) -> None:
    def late(answer: Answer) -> Answer:
        if not isinstance(answer.value, dict) or "decode_step_ms" not in answer.value:
            return answer
        return with_value(answer, decode_step_ms=2 * answer.value["decode_step_ms"])

    report = judged(split, edited(solved, late))["own_step"]
    assert report.figure == pytest.approx(1, abs=0.1)


# ---------------------------------------------------------------- known mistakes


@pytest.fixture(scope="module")
def mistaken(split: Path) -> dict[str, Answers]:
    return mistaken_answers(MILESTONE, split, reference_answers(MILESTONE.slug, split))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        # Another headroom changes the fleets; what the check does not read must not hide the hint.
        ("always_memory", {"n_gpus": 9, "usd_per_million_tokens": 3.0, "decode_step_ms": 7.0}),
        ("cost_of_what_could_be_made", {"n_gpus": 9, "limited_by": "load", "decode_step_ms": 7.0}),
        ("memory_ignored", {"n_gpus": 9, "limited_by": "load", "decode_step_ms": 7.0}),
        ("step_per_request", {"n_gpus": 9, "usd_per_million_tokens": 3.0}),
        ("fleet_of_one", {"usd_per_million_tokens": 3.0, "limited_by": "load"}),
        ("always_none", {"reason": "words of my own"}),
    ],
)
def test_a_mistake_is_known_by_what_its_check_reads(
    split: Path,
    solved: Answers,
    mistaken: dict[str, Answers],
    name: str,
    changes: dict[str, Any],
) -> None:
    mistake = next(m for m in named_mistakes(SLUG) if m.name == name)
    stored = stored_mistakes(SLUG, mistaken, solved)

    def vary(answer: Answer) -> Answer:
        if name == "always_none" and isinstance(answer.value, dict) and "reason" in answer.value:
            return replace(answer, value={**answer.value, **changes})
        return with_value(answer, **changes)

    reports = judge(
        MILESTONE, edited(mistaken[name], vary), Files(split / "truth"), stored, public=True
    )
    caught = next(report for report in reports if report.name == mistake.caught_by)
    assert caught.outcome is Outcome.FAILED
    assert mistake.hint in caught.hint


def test_a_price_over_what_could_be_made_is_told(split: Path, solved: Answers) -> None:
    def idle_forgotten(answer: Answer) -> Answer:
        value = answer.value
        if not isinstance(value, dict) or not value.get("n_gpus"):
            return answer
        made = value["n_gpus"] * value["requests_per_gpu"] / value["decode_step_ms"] * 3.6
        return with_value(answer, usd_per_million_tokens=value["fleet_usd_per_hour"] / made)

    hint = judged(split, edited(solved, idle_forgotten))["cost_of_a_million_tokens"].hint
    assert "what the fleet could make" in hint


def test_hidden_feedback_names_no_workload(split: Path, solved: Answers) -> None:
    spoilt = edited(solved, lambda a: with_value(a, requests_per_gpu=999, n_gpus=1))
    truth = Files(split / "truth")
    hidden = judge(MILESTONE, spoilt, truth, (), public=False)
    public = judge(MILESTONE, spoilt, truth, (), public=True)
    assert not any("workload " in report.hint for report in hidden)
    assert any("workload " in report.hint for report in public)


# ---------------------------------------------------------------- the lesson and its case


def test_the_lesson_asks_about_the_case_that_is_graded() -> None:
    namespace = reference(SLUG).namespace
    assert namespace["CASE"] == CASE
    assert tuple(what_ifs()) == CASES


def test_the_lesson_and_the_handout_state_the_case_that_is_graded() -> None:
    cells = read_lesson(SLUG)
    lesson = " ".join(cell.source for cell in cells if cell.kind == "markdown")
    handout = (ROOT / "milestones" / SLUG / "handout.md").read_text(encoding="utf-8")
    prompt, output = CASE["prompt_tokens"], CASE["output_tokens"]
    double, load = what_ifs()["double_context"], what_ifs()["double_load"]
    for text in (" ".join(lesson.split()), " ".join(handout.split())):
        assert f"prompts of {prompt:,} tokens and answers of {output}" in text
        assert f"{CASE['requests_per_second']:g} requests a second" in text
        assert f"{CASE['max_step_ms']:g} ms" in text
        assert f"{CASE['weight_bits']}-bit weights and a {CASE['kv_bits']}-bit cache" in text
        assert f"{double['prompt_tokens']:,} + {double['output_tokens']:,} tokens" in text
        assert f"{double['requests_per_second']:g} requests a second" in text
    assert f"{load['requests_per_second']:g} requests a second" in handout
    namespace = {"CASE": reference(SLUG).namespace["CASE"]}
    source = next(cell.source for cell in cells if cell.source.startswith("WHAT_IFS = "))
    exec(source.partition("\nwhat_if = ")[0], namespace)
    assert namespace["WHAT_IFS"] == what_ifs()


def test_the_written_plan_is_what_the_planner_says(split: Path, solved: Answers) -> None:
    assert judged(split, solved)["written_plan"].outcome is Outcome.PASSED


def test_the_plan_for_the_case_holds_with_room(solved: Answers) -> None:
    for name, workload in what_ifs().items():
        plan = solved.value(f"case/{name}")
        names = [offer["gpu"] for offer in workload["gpus"]]
        steps = step_tables([case_setting(workload)])[0][names.index(plan["gpu"])]
        step = steps[plan["requests_per_gpu"] - 1] * 1.005
        made = plan["n_gpus"] * plan["requests_per_gpu"] * 1000 / step
        assert step <= workload["max_step_ms"]
        assert made >= demand(workload)


def test_a_plan_needs_only_json(solved: Answers) -> None:
    for answer in solved.under("plan"):
        json.dumps(answer.value, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([{"gpu": "H200"}], "It is a list or a tuple of 1; expected a dict; a comma behind a dict"),
        ([1, 2], "It is a list or a tuple of 2; expected a dict."),
    ],
)
def test_a_tuple_is_not_called_a_list_alone(
    split: Path, solved: Answers, value: Any, told: str
) -> None:
    changed = edited(solved, lambda answer: replace(answer, value=value))
    assert told in judged(split, changed)["well_formed"].hint
