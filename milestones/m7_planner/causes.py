"""Why plans fail, as counts: by cause, and by the GPU that they name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from milestones.diagnosis import Breakdown, Part
from milestones.m7_planner.fate import Fate
from milestones.m7_planner.plans import Plan, Refusal

DEAR = 1.15  # times the cheapest: the bar of the mean, and here what one plan is called dear from
CAUSES = {
    "memory": "does not fit in memory",
    "latency": "slower than max_step_ms",
    "load": "does not carry the load",
    "refusal": "refused, and can be served",
    "form": "cannot be read",
    "problem": "no usable answer",
    "time": "more than 2 CPU seconds",
}


def by_cause(found: Sequence[Fate]) -> Breakdown | None:
    """Cut the plans that do not hold."""
    wrong = [fate for fate in found if fate.broken]
    return _breakdown("Why plans do not hold", wrong, lambda fate: CAUSES[fate.broken])


def by_cost(found: Sequence[Fate]) -> Breakdown | None:
    """Cut what plans cost above the cheapest that holds."""
    asked = [fate for fate in found if fate.truth.possible and fate.cost_ratio > 1]
    return _breakdown("Where the extra cost lies", asked, _dear, lambda f: f.cost_ratio - 1)


def by_refusal(found: Sequence[Fate]) -> Breakdown | None:
    """Cut the workloads that got None, or a plan, where the other one is right."""
    wrong = [
        fate
        for fate in found
        if not isinstance(fate.plan, Plan if fate.truth.possible else Refusal)
    ]
    return _breakdown(
        "Where None, or a plan, does not fit",
        wrong,
        lambda f: "no plan, and one holds" if f.truth.possible else "a plan, and none holds",
    )


def _dear(fate: Fate) -> str:
    if fate.broken:
        return CAUSES[fate.broken]
    return f"holds, {'above' if fate.cost_ratio > DEAR else 'up to'} {DEAR:g} times the cheapest"


def _gpu(fate: Fate) -> str:
    return fate.plan.gpu if isinstance(fate.plan, Plan) else "none"


def _breakdown(
    title: str,
    wrong: Sequence[Fate],
    cause: Callable[[Fate], str],
    weight: Callable[[Fate], float] = lambda _fate: 1.0,
) -> Breakdown | None:
    if not wrong:
        return None
    whole = sum(map(weight, wrong))
    parts = []
    for by, name_of in (("cause", cause), ("GPU named", _gpu)):
        counts = Counter(map(name_of, wrong))
        sums = dict.fromkeys(counts, 0.0)
        for fate in wrong:
            sums[name_of(fate)] += weight(fate)
        ordered = sorted(counts, key=lambda name: (-sums[name], name))
        parts += [Part(by, name, counts[name], sums[name] / whole) for name in ordered]
    return Breakdown(title, "plans", tuple(parts))
