"""The checks of milestone 7: what a plan says, what would happen to it, and what it costs.

Plans are judged by the world's noise-free step, looked up in a table. Bars: 95 % of plans hold
and the mean cost ratio is at most 1.15, as the course's contract says; the others are argued
where they stand.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import TypeVar

import numpy as np

from milestones.compare import how_far, is_number, kind_of
from milestones.compared import Compared
from milestones.diagnosis import Breakdown
from milestones.figures import at_least, at_most, bootstrap_interval
from milestones.m7_planner.beside import fleets_beside, prices_beside, steps_beside
from milestones.m7_planner.calls import CASES
from milestones.m7_planner.causes import by_cause, by_cost, by_refusal
from milestones.m7_planner.fate import Fate, fates
from milestones.m7_planner.plans import (
    COUNTS,
    KEYS,
    LIMITS,
    SAME_MONEY,
    Plan,
    Refusal,
    Unreadable,
    demand,
    price_of,
)
from milestones.m7_planner.written import plan_in_words
from milestones.spec import (
    Answers,
    Check,
    Files,
    ReadTable,
    Verdict,
    check,
    failed,
    passed,
)
from milestones.understanding import understanding_checks

T = TypeVar("T")

HOLD_BAR = 0.95
COST_BAR, COST_RATIO = 1.15, "mean cost ratio"
# Nothing asked lies within 15 % of being just possible, or just impossible: three times the
# typical error of a step model, so that only a wrong rule gets more than a few of these wrong.
REFUSAL_BAR = 0.97
# A roofline with four coefficients for all GPUs errs by 8 % on average, less in the median.
STEP_BAR = 0.08
# Headroom makes a planner stop early, so that it sometimes says "latency" where one more request
# would still have more than 5 % to go. With 5 to 7 % of headroom that is about one plan in fifteen;
# the bar allows three times as many.
LIMIT_BAR = 0.80
# More than nine in ten of the workloads can be served. Who plans for less than half of them has not
# shown that the plans are right, so a check of every plan is not passed by giving none.
FEWEST_PLANS = 0.5
SHOWN_ERROR = 10.0  # a larger error of the step is one of units or of kind; its digits say nothing
WRITTEN_REL = 0.01  # a written figure is rounded to three digits: an error of at most 0.5 %

PROMISES = {
    "problem": "gave no usable answer",
    "form": "cannot be read",
    "refusal": "refuse what could be served",
    "memory": "do not fit in memory",
    "latency": "are slower than max_step_ms",
    "load": "do not carry the load",
    "time": "took more than 2 CPU seconds",
}
SINGULAR = {
    "problem": "gave no usable answer",
    "form": "cannot be read",
    "refusal": "refuses what could be served",
    "memory": "does not fit in memory",
    "latency": "is slower than max_step_ms",
    "load": "does not carry the load",
    "time": "took more than 2 CPU seconds",
}


def plan_check(
    points: float,
    reads: Sequence[str],
    think: str,
    compare: Callable[[list[Fate]], list[Compared]] | None = None,
    cut: Callable[[list[Fate]], Breakdown | None] | None = None,
) -> Callable[[Callable[[list[Fate]], Verdict]], Check]:
    """Make a check of what becomes of all plans, one that has no usable answer among them.

    Where none is usable there is nothing to judge: the check fails with the first one's problem.
    """

    def make(judge_fates: Callable[[list[Fate]], Verdict]) -> Check:
        @wraps(judge_fates)
        def judge(answers: Answers, truth: Files) -> Verdict:
            found = fates(answers, truth)
            first = found[0].problem
            if first is not None and all(fate.problem for fate in found):
                return failed(first.detail, remark=first.summary)
            return judge_fates(found)

        return check(
            points,
            ["plan"],
            reads=reads,
            sees_problems=True,
            think=think,
            compare=None if compare is None else _of_fates(compare),
            cut=None if cut is None else _of_fates(cut),
        )(judge)

    return make


def _of_fates(asked: Callable[[list[Fate]], T]) -> Callable[[Answers, Files, ReadTable], T]:
    """Return what is asked of fates as it is asked of answers and truth."""
    return lambda answers, truth, _read_table: asked(fates(answers, truth))


@plan_check(
    points=1,
    reads=["gpu", "n_gpus", "fleet_usd_per_hour"],
    compare=fleets_beside,
    think="Look at one answer as a reader would: is each field there, of the right kind, and does "
    "the cost of the fleet follow from its GPUs?",
)
def well_formed(found: list[Fate]) -> Verdict:
    """Each answer is a plan with a GPU on offer whose cost adds up, or None with a reason."""
    wrong = [fate for fate in found if _fault(fate)]
    if not wrong:
        return _too_few(found) or passed()
    first = wrong[0]
    detail = f"It {_fault(first)}."
    told = [f"{len(wrong)} of {len(found)} answers are not well formed"]
    problem = next((fate.problem for fate in wrong if fate.problem), None)
    if problem:
        told.append(problem.summary)
    if first.problem and first.problem.detail:
        detail += f" {first.problem.detail}"
    return failed(detail, remark="; ".join(told), asked=_asked(first))


def _fault(fate: Fate) -> str:
    plan = fate.plan
    if isinstance(plan, Unreadable):
        return plan.why
    if plan.fault or isinstance(plan, Refusal):
        return plan.fault
    if plan.adds_up:
        return ""
    if plan.costs_one_gpu:
        return "has the price of one GPU as its fleet_usd_per_hour, and runs more of them"
    return "has a fleet_usd_per_hour that is not n_gpus times the price offered"


def _too_few(found: list[Fate]) -> Verdict | None:
    """Return why a promise about every plan cannot be kept by these, if so few are plans."""
    plans = _plans(found)
    if len(plans) >= FEWEST_PLANS * len(found):
        return None
    told = f"Only {len(plans)} of {len(found)} answers are plans"
    others = sum(not isinstance(fate.plan, Plan | Refusal) for fate in found)
    if others:
        return failed("", remark=f"{told}, and {others} are neither a plan nor None")
    return failed("", remark=f"{told}; most workloads can be served")


def _plans(found: list[Fate]) -> list[tuple[Fate, Plan]]:
    return [(fate, fate.plan) for fate in found if isinstance(fate.plan, Plan)]


@plan_check(
    points=1,
    reads=["usd_per_million_tokens"],
    compare=prices_beside,
    think="What does the fleet cost in an hour, and how many million tokens are demanded in it?",
)
def cost_of_a_million_tokens(found: list[Fate]) -> Verdict:
    """`usd_per_million_tokens` is what the fleet costs for a million output tokens demanded."""
    plans = _plans(found)
    wrong = [(fate, plan) for fate, plan in plans if not _price_is(plan, demand(fate.workload))]
    if not wrong:
        return _too_few(found) or passed()
    told = (
        f"It is not the cost of the fleet over the demand in {len(wrong)} of {len(plans)} plans. "
        "The demand is requests_per_second x output_tokens, for an hour"
    )
    if all(_price_is(plan, _could_make(plan)) for _, plan in wrong):
        told += "; it is the cost over what the fleet could make"
    first, plan = wrong[0]
    said = plan.usd_per_million_tokens
    right = price_of(plan.cost_usd_per_hour, demand(first.workload))
    came_back = "no price that can be read" if said is None else how_far(said, right, "USD")
    return failed(f"{came_back}.", remark=told, asked=_asked(first))


@plan_check(
    points=2,
    reads=["gpu", "requests_per_gpu"],
    think="Weights once, then the cache of every request at its full length, prompt and output: "
    "all within 92 % of the memory in decimal GB.",
)
def fits_in_memory(found: list[Fate]) -> Verdict:
    """No plan asks a GPU to hold more than 92 % of its memory: weights and every token's cache."""
    plans = _plans(found)
    wrong = [(fate, plan) for fate, plan in plans if fate.broken == "memory"]
    if not wrong:
        return _too_few(found) or passed()
    first, plan = wrong[0]
    return failed(
        f"{plan.requests_per_gpu:,} requests on one {plan.gpu}, which holds "
        f"{first.truth.held[plan.gpu]:,}.",
        remark=f"{len(wrong)} of {len(plans)} plans do not fit.",
        asked=_asked(first),
    )


@plan_check(
    points=3,
    reads=["gpu", "requests_per_gpu", "n_gpus"],
    cut=by_cause,
    think="Take the cause with the most plans. Near a bound your own error decides: how much room "
    "do you leave for it?",
)
def plans_hold(found: list[Fate]) -> Verdict:
    """At least 95 % of your plans hold in the world: memory, latency and load, answered in time."""
    holds = np.array([not fate.broken for fate in found], dtype=float)
    share = float(holds.mean())
    verdict = at_least(share, HOLD_BAR, "the share that holds", bootstrap_interval(holds))
    if share == 1:
        return verdict
    return replace(
        verdict,
        asked=_asked(next(fate for fate in found if fate.broken)),
        detail=_first_broken(found),
        remark="; ".join(filter(None, (verdict.remark, _what_broke(found)))),
    )


@plan_check(
    points=2.5,
    reads=["gpu", "requests_per_gpu", "n_gpus"],
    cut=by_cost,
    think="Compare whole fleets: for each GPU on offer the most requests that hold, then the "
    "number of GPUs times the price. Is every GPU tried?",
)
def cost_ratio(found: list[Fate]) -> Verdict:
    """Your fleets cost at most 1.15 times the cheapest ones that hold, on average."""
    share = float(np.mean([not fate.broken for fate in found]))
    ratios = np.array([fate.cost_ratio for fate in found if fate.truth.possible])
    ratio = float(ratios.mean())
    # The excess over 1 is what the bar allows: half the points within 1.25 times of it.
    verdict = at_most(ratio - 1, COST_BAR - 1, "")
    least = 1 - 1.25 * (1 - HOLD_BAR)  # below it, plans_hold earns nothing either
    if share < least:
        remark = (
            f"The cost counts once at least {least:.2%} of the answers hold: what does not hold "
            "has no cost to compare"
        )
        return Verdict(0.0, remark=remark, figure=ratio, bar=COST_BAR, figure_name=COST_RATIO)
    low, high = bootstrap_interval(ratios)
    remarks = (
        "" if verdict.passed else f"the mean cost ratio is {ratio:,.3f}; the bar is {COST_BAR:g}",
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
        asked=_asked(dearest),
        detail=_cost_of(dearest),
        remark="; ".join(filter(None, remarks)),
        figure=ratio,
        bar=COST_BAR,
        figure_name=COST_RATIO,
    )


@plan_check(
    points=1,
    reads=["gpu"],
    cut=by_refusal,
    think="None is right where not even one request fits and is fast enough, on any GPU offered.",
)
def none_only_where_nothing_holds(found: list[Fate]) -> Verdict:
    """You answer None where no choice holds, and only there."""
    too_often = [f for f in found if f.truth.possible and not isinstance(f.plan, Plan)]
    too_rarely = [f for f in found if not f.truth.possible and not isinstance(f.plan, Refusal)]
    share = 1 - (len(too_often) + len(too_rarely)) / len(found)
    verdict = at_least(share, REFUSAL_BAR, "the share that is right")
    if share == 1:
        return verdict
    told = (
        f"workloads that can be served and got no plan that can be read: {len(too_often)}; "
        f"that cannot be served and got no None: {len(too_rarely)}"
    )
    first = min([*too_often, *too_rarely], key=lambda fate: fate.number)
    return replace(
        verdict,
        asked=_asked(first),
        detail=_none_where(first),
        remark="; ".join(filter(None, (verdict.remark, told))),
    )


@plan_check(
    points=1,
    reads=["decode_step_ms"],
    compare=steps_beside,
    think="The step is that of the whole batch at the full context, in ms, on the GPU you chose.",
)
def own_step(found: list[Fate]) -> Verdict:
    """Your `decode_step_ms` is off by at most 8 % in the median plan."""
    asked = [fate for fate in found if not isinstance(fate.plan, Refusal)]
    if too_few := _too_few(found):
        return too_few
    # Who gives no step is off by everything, and so is a plan that cannot run: it has no step.
    median = float(np.median([_step_error(fate) for fate in asked]))
    if median <= SHOWN_ERROR:
        return at_most(median, STEP_BAR, "the median error of the step")
    far = f"the median `decode_step_ms` is more than {SHOWN_ERROR:g} times too long"
    unknown = (
        "most plans ask for more requests than fit in memory, or give no `decode_step_ms`: there "
        "is no step to compare"
    )
    return Verdict(0.0, remark=far if math.isfinite(median) else unknown, bar=STEP_BAR)


def _step_error(fate: Fate) -> float:
    plan, right = fate.plan, fate.step_ms
    if not isinstance(plan, Plan) or plan.decode_step_ms is None or right is None:
        return math.inf
    return abs(plan.decode_step_ms / right - 1)


@plan_check(
    points=1,
    reads=["limited_by"],
    think="Add one request to a GPU and ask in this order: does it fit, is the step short enough? "
    "If both, the load is what limits.",
)
def limited_by(found: list[Fate]) -> Verdict:
    """`limited_by` names what stops one more request on each GPU, in at least 80 % of plans."""
    plans = _plans(found)
    if too_few := _too_few(found):
        return too_few
    wrong = [(fate, plan) for fate, plan in plans if plan.limited_by not in fate.limits]
    verdict = at_least(1 - len(wrong) / len(plans), LIMIT_BAR, "the share that is right")
    if not wrong:
        return verdict
    said = Counter(plan.limited_by or f"none of {', '.join(LIMITS)}" for _, plan in wrong)
    told = ", ".join(f"{count} times {name}" for name, count in sorted(said.items()))
    return replace(
        verdict,
        asked=_asked(wrong[0][0]),
        detail=f"It says {wrong[0][1].limited_by or 'nothing that can be read'}.",
        remark="; ".join(filter(None, (verdict.remark, f"said where it is not so: {told}"))),
    )


# The four cases are the same on every split. A planner that tells what can be served from what
# cannot, on workloads that nobody has seen, is no list of four answers.
@check(
    points=1,
    topics=["case", "written"],
    needs=["none_only_where_nothing_holds"],
    think="Run your planner on the case and its what-ifs again, and copy what it says.",
)
def written_plan(answers: Answers, truth: Files) -> Verdict:
    """The figures in `capacity_plan` are those of your planner for the case, and its plan holds."""
    written = answers.value("written")
    if not isinstance(written, dict):
        told = f"{kind_of(written)}."
        return failed(told, remark="`capacity_plan` is not a dict.", asked="capacity_plan")
    found = fates(answers, truth, "case")
    if len(_plans(found)) < len(found):
        return failed("", remark="Your planner gives no plan for one of the cases; each has one.")
    faults = [plan.fault for _, plan in _plans(found) if plan.fault]
    if faults:
        return failed(
            f"It {faults[0]}.",
            remark="Your planner's plan for one of the cases is not well formed.",
        )
    for key, expected in _to_be_written(answers).items():
        if key not in written:
            return failed("", remark=f"`capacity_plan` has no {key!r}.")
        if not _agrees(key, written[key], expected):
            return failed(
                f"It says {kind_of(written[key])}; your planner answers {kind_of(expected)}.",
                remark=f"`capacity_plan` and your planner disagree on {key!r}.",
                asked=f"capacity_plan[{key!r}]",
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


def _agrees(key: str, written: object, expected: object) -> bool:
    if isinstance(expected, str):
        return written == expected
    if not is_number(written):
        return False
    assert isinstance(written, int | float)
    assert isinstance(expected, int | float)
    if key in COUNTS:
        return written == expected
    return abs(written) < 1e300 and math.isclose(written, expected, rel_tol=WRITTEN_REL)


def _price_is(plan: Plan, tokens_per_s: float) -> bool:
    """Tell whether a plan's price is that of its fleet for so many tokens a second."""
    said = plan.usd_per_million_tokens
    if said is None or not tokens_per_s:
        return False
    return math.isclose(said, price_of(plan.cost_usd_per_hour, tokens_per_s), rel_tol=SAME_MONEY)


def _could_make(plan: Plan) -> float:
    """Return the tokens a second of a plan at its own step; 0 where it gives none."""
    step = plan.decode_step_ms
    return plan.n_gpus * plan.requests_per_gpu * 1000 / step if step else 0.0


def _what_broke(found: list[Fate]) -> str:
    counts = Counter(fate.broken for fate in found)
    told = [f"{counts[key]} {phrase}" for key, phrase in PROMISES.items() if counts[key]]
    problem = next((fate.problem for fate in found if fate.problem), None)
    why = f" ({problem.summary})" if problem else ""
    return f"of {len(found)} plans {', '.join(told)}{why}"


def _first_broken(found: list[Fate]) -> str:
    fate = next(f for f in found if f.broken)
    plan, step = fate.plan, fate.step_ms
    if not isinstance(plan, Plan) or step is None or fate.broken not in ("latency", "load"):
        return f"It {SINGULAR[fate.broken]}."
    made = plan.n_gpus * plan.requests_per_gpu * 1000 / step
    said = "nothing" if plan.decode_step_ms is None else f"{plan.decode_step_ms:.4g}"
    return (
        f"{plan.requests_per_gpu} requests on one {plan.gpu} take {step:.4g} ms (you said {said}; "
        f"max_step_ms is "
        f"{fate.workload['max_step_ms']:g}), and {plan.n_gpus} of them make {made:,.0f} tokens a "
        f"second of the {demand(fate.workload):,.0f} demanded."
    )


def _none_where(fate: Fate) -> str:
    """Say what is wrong about an answer where it should, or should not, have been None."""
    if not isinstance(fate.plan, Plan | Refusal):
        return f"It {fate.plan.why}: that is neither a plan nor None."
    return "No plan, and one holds." if fate.truth.possible else "A plan, and none can hold."


def _cost_of(fate: Fate) -> str:
    if not isinstance(fate.plan, Plan):
        said = "No plan" if isinstance(fate.plan, Refusal) else "Nothing that can be read as a plan"
        return f"{said}, and one holds: it counts as twice the cheapest."
    return f"The dearest of all: {fate.cost_ratio:,.2f} times the cheapest that holds."


def _asked(fate: Fate) -> str:
    of = fate.workload
    return (
        f"plan(workload {fate.number} of questions/m7_planner/workloads.json: "
        f"{of['prompt_tokens']:,} + {of['output_tokens']:,} tokens, "
        f"{of['requests_per_second']:g} requests a second, at most {of['max_step_ms']:g} ms a step)"
    )


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
    plan_in_words,
    *understanding_checks("m7_planner"),
)
