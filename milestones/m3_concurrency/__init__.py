"""Milestone 3: how many requests a GPU can hold, and how long each of them may be."""

from milestones.m3_concurrency.calls import calls
from milestones.m3_concurrency.checks import CHECKS
from milestones.spec import Milestone
from milestones.understanding import understanding_names

MILESTONE = Milestone(
    slug="m3_concurrency",
    title="Concurrency",
    functions=(
        "max_concurrent_requests",
        "max_context_len",
        *understanding_names("m3_concurrency"),
    ),
    calls=calls,
    checks=CHECKS,
)
