"""What would happen to a plan: a look into the table of steps, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from milestones.m7_planner.calls import CASES
from milestones.m7_planner.plans import (
    Plan,
    Reading,
    Refusal,
    Unreadable,
    Workload,
    demand,
    read_fleet,
    workload_of,
)
from milestones.spec import Answer, Answers, Files, Problem

SLACK = 1e-9  # relative, on every bound: the contract of this milestone
NEAR = 0.05  # within this share of a bound, either side of it is accepted as what limits

REFUSED_COST = 2.0  # what can be served and gets no plan counts as twice the cheapest fleet


@dataclass(frozen=True)
class Truth:
    """One workload's part of the table.

    `held` requests fit on a GPU by name; `shares` of its usable memory are taken by the weights and
    by each request; `steps[gpu][n - 1]` is the step in ms of n requests, for
    n up to held + 1. `cheapest` is the least cost in USD per hour, NaN where nothing holds.
    """

    held: dict[str, int]
    shares: dict[str, tuple[float, float]]
    steps: dict[str, np.ndarray]
    cheapest: float

    @property
    def possible(self) -> bool:
        """Whether any plan holds."""
        return bool(np.isfinite(self.cheapest))


@dataclass(frozen=True)
class Fate:
    """One answer beside its truth. `broken` says which promise breaks, and is empty if none."""

    number: int
    plan: Reading
    workload: Workload
    truth: Truth
    broken: str

    @property
    def problem(self) -> Problem | None:
        """Why nothing usable came back, where nothing did."""
        return self.plan.problem if isinstance(self.plan, Unreadable) else None

    @property
    def step_ms(self) -> float | None:
        """The true step of a plan that fits in memory."""
        plan = self.plan
        if not isinstance(plan, Plan) or plan.requests_per_gpu > self.truth.held[plan.gpu]:
            return None
        return float(self.truth.steps[plan.gpu][plan.requests_per_gpu - 1])

    @property
    def cost_ratio(self) -> float:
        """Fleet cost over the cheapest that holds; only asked where something holds."""
        if isinstance(self.plan, Plan):
            ratio = self.plan.cost_usd_per_hour / self.truth.cheapest
            return max(ratio, 1.0) if self.broken else ratio
        return REFUSED_COST

    @property
    def limits(self) -> set[str]:
        """What may be said to stop one more request on each GPU."""
        plan = self.plan
        assert isinstance(plan, Plan)
        steps, held = self.truth.steps[plan.gpu], self.truth.held[plan.gpu]
        if plan.requests_per_gpu > held:
            return set()  # nothing stops one more where not even these fit
        weights, request = self.truth.shares[plan.gpu]
        memory = weights + (plan.requests_per_gpu + 1) * request
        latency = float(steps[plan.requests_per_gpu]) / self.workload["max_step_ms"]
        accepted = set()
        if memory > 1 - NEAR:
            accepted.add("memory")
        if memory <= 1 + NEAR and latency > 1 - NEAR:
            accepted.add("latency")
        if memory <= 1 + NEAR and latency <= 1 + NEAR:
            accepted.add("load")
        return accepted


def read_truth(truth: Files, workloads: dict[str, Workload]) -> dict[str, Truth]:
    """Return the truth of each call by its id; `workloads` are those asked, by id, in order."""
    stored = truth.arrays("m7_planner/steps.npz")
    held, shares, steps = stored["held"], stored["shares"], stored["steps"]
    sizes = np.where(held >= 0, held + 1, 0)
    ends = np.cumsum(sizes.ravel()).reshape(sizes.shape)
    n_workloads = len(held) - len(CASES)
    found = {}
    for call_id, workload in workloads.items():
        topic, _, case = call_id.partition("/")
        row = int(case) if topic == "plan" else n_workloads + CASES.index(case)
        names = [offer["gpu"] for offer in workload["gpus"]]
        found[call_id] = Truth(
            {name: int(held[row, i]) for i, name in enumerate(names)},
            {name: (shares[row, i, 0], shares[row, i, 1]) for i, name in enumerate(names)},
            {
                name: steps[ends[row, i] - sizes[row, i] : ends[row, i]]
                for i, name in enumerate(names)
            },
            float(stored["cheapest"][row]),
        )
    return found


def fates(answers: Answers, truth: Files, topic: str = "plan") -> list[Fate]:
    """Return the fate of every answer of a topic, in the order they were asked.

    Eight checks ask, and so does the diagnosis of each that fails: of the same answers it is worked
    out once.
    """
    kept_as = f"fates of {topic}"
    of, found = truth.worked_out.get(kept_as, (None, []))
    if of is not answers:
        asked = list(answers.under(topic))
        truths = read_truth(truth, {answer.call.id: workload_of(answer) for answer in asked})
        found = list(_fates(asked, truths))
        truth.worked_out[kept_as] = (answers, found)
    return list(found)


def _fates(asked: list[Answer], truths: dict[str, Truth]) -> Iterator[Fate]:
    for number, answer in enumerate(asked):
        plan, workload, of_world = read_fleet(answer), workload_of(answer), truths[answer.call.id]
        broken = _what_breaks(plan, workload, of_world)
        if not broken and not answer.in_time:
            broken = "time"
        yield Fate(number, plan, workload, of_world, broken)


def _what_breaks(plan: Reading, workload: Workload, truth: Truth) -> str:
    if isinstance(plan, Unreadable):
        return "problem" if plan.problem else "form"
    if isinstance(plan, Refusal):
        return "refusal" if truth.possible else ""
    if plan.requests_per_gpu > truth.held[plan.gpu]:
        return "memory"
    step = float(truth.steps[plan.gpu][plan.requests_per_gpu - 1])
    if step > workload["max_step_ms"] * (1 + SLACK):
        return "latency"
    tokens_per_s = plan.n_gpus * plan.requests_per_gpu * 1000 / step
    return "load" if tokens_per_s < demand(workload) * (1 - SLACK) else ""
