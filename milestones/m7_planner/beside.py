"""Milestone 7's figures beside the right ones, with the quantities that a slip may be made of."""

from __future__ import annotations

from collections.abc import Sequence

from milestones.compared import Compared, of_cases
from milestones.m7_planner.fate import Fate
from milestones.m7_planner.plans import Plan, demand, price_of


def fleets_beside(found: Sequence[Fate]) -> list[Compared]:
    """Compare what each plan says its fleet costs an hour."""
    return [
        of_cases(
            (plan.fleet_usd_per_hour, plan.cost_usd_per_hour, _quantities(fate, plan))
            for fate, plan in _plans(found)
        )
    ]


def prices_beside(found: Sequence[Fate]) -> list[Compared]:
    """Compare what each plan says a million tokens cost."""
    return [
        of_cases(
            (
                plan.usd_per_million_tokens,
                price_of(plan.cost_usd_per_hour, demand(fate.workload)),
                _quantities(fate, plan),
            )
            for fate, plan in _plans(found)
        )
    ]


def steps_beside(found: Sequence[Fate]) -> list[Compared]:
    """Compare the step that each plan names, an estimate, with the one of the world."""
    runs = [(fate.step_ms, plan) for fate, plan in _plans(found) if fate.step_ms is not None]
    beside = of_cases((plan.decode_step_ms, right, {}) for right, plan in runs)
    return [Compared(beside.value, beside.right, rough=True)]


def _plans(found: Sequence[Fate]) -> list[tuple[Fate, Plan]]:
    return [(fate, fate.plan) for fate in found if isinstance(fate.plan, Plan)]


def _quantities(fate: Fate, plan: Plan) -> dict[str, float]:
    return {
        "n_gpus": plan.n_gpus,
        "requests_per_gpu": plan.requests_per_gpu,
        **{
            name: fate.workload[name]
            for name in ("prompt_tokens", "output_tokens", "requests_per_second")
        },
    }
