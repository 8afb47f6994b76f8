"""Milestone 7: the cheapest fleet that keeps its promises, and the plan that says so."""

from milestones.m7_planner.calls import calls
from milestones.m7_planner.checks import CHECKS
from milestones.spec import Milestone

MILESTONE = Milestone(
    slug="m7_planner",
    title="Planner",
    functions=("plan", "capacity_plan"),
    calls=calls,
    checks=CHECKS,
)
