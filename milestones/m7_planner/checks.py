"""The checks of milestone 7: what a plan says, what would happen to it, and what it costs.

Plans are judged by the world's noise-free step, looked up in a table. Bars: 95 % of plans hold
and the mean cost ratio is at most 1.15, as the course's contract says; the others are argued
where they stand.
"""

import math
from collections import Counter
from dataclasses import replace

import numpy as np

from milestones.compare import is_number, kind_of
from milestones.figures import at_least, at_most, bootstrap_interval
from milestones.m7_planner.calls import CASES
from milestones.m7_planner.fate import Fate, fates
from milestones.m7_planner.plans import (
    KEYS,
    SAME_MONEY,
    Plan,
    Refusal,
    Unreadable,
    demand,
)
from milestones.spec import Answers, Files, Verdict, check, failed, passed

HOLD_BAR = 0.95
COST_BAR = 1.15
# Nothing asked lies within 15 % of being just possible, or just impossible: three times the
# typical error of a step model, so that only a wrong rule gets more than a few of these wrong.
REFUSAL_BAR = 0.97
# A roofline with four coefficients for all GPUs errs by 8 % on average, less in the median.
STEP_BAR = 0.08
# Headroom makes a planner stop early, so that it sometimes says "latency" where one more request
# would still have more than 5 % to go. With 5 to 7 % of headroom that is about one plan in fifteen;
# the bar allows three times as many.
LIMIT_BAR = 0.80
WRITTEN_REL = 0.01  # a written figure is rounded to three digits: an error of at most 0.5 %

PROMISES = {
    "form": "cannot be read",
    "refusal": "refuse what could be served",
    "memory": "do not fit in memory",
    "latency": "are slower than max_step_ms",
    "load": "do not carry the load",
    "time": "took more than 2 CPU seconds",
}
SINGULAR = {
    "form": "cannot be read",
    "refusal": "refuses what could be served",
    "memory": "does not fit in memory",
    "latency": "is slower than max_step_ms",
    "load": "does not carry the load",
    "time": "took more than 2 CPU seconds",
}


@check(points=1.5, topics=["plan"])
def well_formed(answers: Answers, truth: Files) -> Verdict:
    """Each answer is a plan with a GPU on offer whose cost adds up, or None with a reason."""
    found = fates(answers, truth)
    wrong = [fate for fate in found if _fault(fate)]
    if not wrong:
        return passed()
    return failed(
        f"The answer to {_name(wrong[0])} {_fault(wrong[0])}.",
        remark=f"{len(wrong)} of {len(found)} answers are not well formed.",
    )


def _fault(fate: Fate) -> str:
    if isinstance(fate.plan, Unreadable):
        return fate.plan.why
    if isinstance(fate.plan, Plan) and not fate.plan.adds_up:
        return "has a fleet_usd_per_hour that is not n_gpus times the price offered"
    return ""


@check(points=1, topics=["plan"])
def cost_of_a_million_tokens(answers: Answers, truth: Files) -> Verdict:
    """`usd_per_million_tokens` is what the fleet costs for a million output tokens demanded."""
    found = [fate for fate in fates(answers, truth) if isinstance(fate.plan, Plan)]
    wrong = [fate for fate in found if not _price_is_right(fate)]
    if found and not wrong:
        return passed()
    if not wrong:
        return failed("", remark="There is no plan to read it from.")
    return failed(
        f"The first is {_name(wrong[0])}.",
        remark=f"It is not fleet_usd_per_hour over the demand in {len(wrong)} of {len(found)} "
        "plans. The demand is requests_per_second x output_tokens, for an hour.",
    )


@check(points=2, topics=["plan"])
def fits_in_memory(answers: Answers, truth: Files) -> Verdict:
    """No plan asks a GPU to hold more than 92 % of its memory: weights and every token's cache."""
    found = fates(answers, truth)
    wrong = [fate for fate in found if fate.broken in ("memory", "form")]
    plans = sum(isinstance(fate.plan, Plan) for fate in found)
    if plans and not wrong:
        return passed()
    if not wrong:
        return failed("", remark="There is no plan among the answers.")
    first = wrong[0]
    detail = f"The first is {_name(first)}."
    if isinstance(first.plan, Plan):
        held = first.truth.held[first.plan.gpu]
        detail = (
            f"For {_name(first)} one {first.plan.gpu} holds {held} requests, not "
            f"{first.plan.requests_per_gpu}."
        )
    return failed(detail, remark=f"{len(wrong)} of {len(found)} plans do not fit.")


@check(points=3.5, topics=["plan"])
def plans_hold(answers: Answers, truth: Files) -> Verdict:
    """At least 95 % of your plans hold in the world: memory, latency and load, answered in time."""
    found = fates(answers, truth)
    holds = np.array([not fate.broken for fate in found], dtype=float)
    share = float(holds.mean())
    verdict = at_least(share, HOLD_BAR, "the share that holds", bootstrap_interval(holds))
    if share == 1:
        return verdict
    return replace(
        verdict,
        detail=_first_broken(found),
        remark="; ".join(filter(None, (verdict.remark, _what_broke(found)))),
    )


@check(points=2.5, topics=["plan"])
def cost_ratio(answers: Answers, truth: Files) -> Verdict:
    """Your fleets cost at most 1.15 times the cheapest ones that hold, on average."""
    found = fates(answers, truth)
    share = float(np.mean([not fate.broken for fate in found]))
    ratios = np.array([fate.cost_ratio for fate in found if fate.truth.possible])
    ratio = float(min(ratios.mean(), 1e9))
    # The excess over 1 is what the bar allows: half the points within 1.25 times of it.
    verdict = at_most(ratio - 1, COST_BAR - 1, "")
    least = 1 - 1.25 * (1 - HOLD_BAR)  # below it, plans_hold earns nothing either
    if share < least:
        remark = (
            f"The cost counts once at least {least:.1%} of the plans hold: a fleet that breaks "
            "its promises is cheap for no reason"
        )
        return Verdict(0.0, remark=remark, figure=ratio, bar=COST_BAR)
    low, high = bootstrap_interval(ratios)
    remarks = (
        "" if verdict.passed else f"the mean cost ratio is {ratio:.3f}; the bar is {COST_BAR:g}",
        "half the points: the excess over 1 is within a quarter of the bar's"
        if verdict.share == 0.5
        else "",
        "too close to call: other workloads could fall on the other side of the bar"
        if low <= COST_BAR <= high
        else "",
    )
    dearest = max((f for f in found if f.truth.possible), key=lambda fate: fate.cost_ratio)
    return Verdict(
        verdict.share,
        detail=f"The dearest is {_name(dearest)}: {dearest.cost_ratio:.2f} times the cheapest.",
        remark="; ".join(filter(None, remarks)),
        figure=ratio,
        bar=COST_BAR,
    )


@check(points=1, topics=["plan"])
def none_only_where_nothing_holds(answers: Answers, truth: Files) -> Verdict:
    """You answer None where no choice holds, and only there."""
    found = fates(answers, truth)
    too_often = [f for f in found if f.truth.possible and not isinstance(f.plan, Plan)]
    too_rarely = [f for f in found if not f.truth.possible and not isinstance(f.plan, Refusal)]
    share = 1 - (len(too_often) + len(too_rarely)) / len(found)
    verdict = at_least(share, REFUSAL_BAR, "the share that is right")
    if share == 1:
        return verdict
    told = (
        f"{len(too_often)} workloads that can be served got no plan, {len(too_rarely)} that "
        "cannot be served got one"
    )
    first = min([*too_often, *too_rarely], key=lambda fate: fate.number)
    return replace(
        verdict,
        detail=f"The first is {_name(first)}.",
        remark="; ".join(filter(None, (verdict.remark, told))),
    )


@check(points=1, topics=["plan"])
def own_step(answers: Answers, truth: Files) -> Verdict:
    """Your `decode_step_ms` is off by at most 8 % in the median plan."""
    found = [fate for fate in fates(answers, truth) if not isinstance(fate.plan, Refusal)]
    # A plan that cannot run has no step: it counts as off by everything.
    errors = np.full(max(1, len(found)), 1e9)
    for i, fate in enumerate(found):
        if fate.step_ms is not None and isinstance(fate.plan, Plan):
            errors[i] = abs(fate.plan.decode_step_ms / fate.step_ms - 1)
    median = float(np.median(np.minimum(errors, 1e9)))
    return at_most(median, STEP_BAR, "the median error of the step")


@check(points=1, topics=["plan"])
def limited_by(answers: Answers, truth: Files) -> Verdict:
    """`limited_by` names what stops one more request on each GPU, in at least 80 % of plans."""
    found = [fate for fate in fates(answers, truth) if not isinstance(fate.plan, Refusal)]
    wrong = [
        fate
        for fate in found
        if not isinstance(fate.plan, Plan) or fate.plan.limited_by not in fate.limits
    ]
    if not found:
        return failed("", remark="There is no plan to read it from.")
    verdict = at_least(1 - len(wrong) / len(found), LIMIT_BAR, "the share that is right")
    if not wrong:
        return verdict
    said = Counter(f.plan.limited_by for f in wrong if isinstance(f.plan, Plan))
    told = ", ".join(f"{count} times {name}" for name, count in sorted(said.items()))
    return replace(
        verdict,
        detail=f"The first is {_name(wrong[0])}.",
        remark="; ".join(filter(None, (verdict.remark, told and f"wrongly said: {told}"))),
    )


@check(points=1.5, topics=["case", "written"])
def written_plan(answers: Answers, truth: Files) -> Verdict:
    """The figures in `capacity_plan` are those of your planner for the case, and its plan holds."""
    written = answers.value("written")
    if not isinstance(written, dict):
        return failed(f"It is {kind_of(written)}.", remark="`capacity_plan` is not a dict.")
    found = fates(answers, truth, "case")
    if any(not isinstance(fate.plan, Plan) for fate in found):
        return failed("", remark="Your planner gives no plan for one of the cases; each has one.")
    for key, expected in _to_be_written(answers).items():
        if key not in written:
            return failed("", remark=f"`capacity_plan` has no {key!r}.")
        if not _agrees(written[key], expected):
            return failed(
                f"It says {kind_of(written[key])}; your planner answers {kind_of(expected)}.",
                remark=f"`capacity_plan` and your planner disagree on {key!r}.",
            )
    if found[0].broken:
        return failed("", remark=f"The plan for the case {SINGULAR[found[0].broken]}.")
    return passed()


def _to_be_written(answers: Answers) -> dict[str, object]:
    base = answers.value("case/base")
    what_ifs = {
        f"fleet_usd_per_hour_{name}": answers.value(f"case/{name}")["fleet_usd_per_hour"]
        for name in CASES[1:]
    }
    return {**{key: base[key] for key in KEYS}, **what_ifs}


def _agrees(written: object, expected: object) -> bool:
    if isinstance(expected, str):
        return written == expected
    if not is_number(written):
        return False
    assert isinstance(written, int | float)
    assert isinstance(expected, int | float)
    if isinstance(expected, int):
        return written == expected
    return abs(written) < 1e300 and math.isclose(written, expected, rel_tol=WRITTEN_REL)


def _price_is_right(fate: Fate) -> bool:
    assert isinstance(fate.plan, Plan)
    millions_per_hour = demand(fate.workload) * 3600 / 1e6
    right = fate.plan.cost_usd_per_hour / millions_per_hour
    return math.isclose(fate.plan.usd_per_million_tokens, right, rel_tol=SAME_MONEY)


def _what_broke(found: list[Fate]) -> str:
    counts = Counter(fate.broken for fate in found)
    told = [f"{counts[key]} {phrase}" for key, phrase in PROMISES.items() if counts[key]]
    return f"of {len(found)} plans {', '.join(told)}"


def _first_broken(found: list[Fate]) -> str:
    fate = next(f for f in found if f.broken)
    plan, step = fate.plan, fate.step_ms
    if not isinstance(plan, Plan) or step is None or fate.broken not in ("latency", "load"):
        return f"The first is {_name(fate)}, one that {SINGULAR[fate.broken]}."
    made = plan.n_gpus * plan.requests_per_gpu * 1000 / step
    return (
        f"The first is {_name(fate)}: {plan.requests_per_gpu} requests on one {plan.gpu} take "
        f"{step:.4g} ms (you said {plan.decode_step_ms:.4g}; max_step_ms is "
        f"{fate.workload['max_step_ms']:g}), and {plan.n_gpus} of them make {made:,.0f} tokens a "
        f"second of the {demand(fate.workload):,.0f} demanded."
    )


def _name(fate: Fate) -> str:
    return f"workload {fate.number} of questions/m7_planner/workloads.json"


CHECKS = (
    well_formed,
    cost_of_a_million_tokens,
    fits_in_memory,
    plans_hold,
    cost_ratio,
    none_only_where_nothing_holds,
    own_step,
    limited_by,
    written_plan,
)
