"""Milestone 1: what a table of decode runs holds, and how far a straight line gets on it."""

from milestones.m1_profile_runs.calls import calls
from milestones.m1_profile_runs.checks import CHECKS
from milestones.spec import Milestone
from milestones.understanding import understanding_names

MILESTONE = Milestone(
    slug="m1_profile_runs",
    title="Profile the runs",
    functions=("profile_runs", "linear_baseline_r2", *understanding_names("m1_profile_runs")),
    calls=calls,
    checks=CHECKS,
)
