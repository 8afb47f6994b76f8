"""Milestone 7: the cheapest fleet that keeps its promises, and the plan that says so."""

from milestones.m7_planner.calls import calls
from milestones.m7_planner.checks import CHECKS
from milestones.m7_planner.written import document
from milestones.spec import Milestone
from milestones.understanding import understanding_names

MILESTONE = Milestone(
    slug="m7_planner",
    title="Planner",
    functions=("plan", "capacity_plan", "written_plan", *understanding_names("m7_planner")),
    calls=calls,
    checks=CHECKS,
    document=document,
)
