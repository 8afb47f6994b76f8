"""Milestone 6: a model of the step that learns only what memory traffic leaves unexplained."""

from milestones.m6_memory_traffic.calls import calls
from milestones.m6_memory_traffic.checks import CHECKS
from milestones.spec import Milestone
from milestones.understanding import understanding_names

MILESTONE = Milestone(
    slug="m6_memory_traffic",
    title="Memory traffic",
    functions=(
        "traffic_features",
        "fit_step_time",
        "predict_step_ms",
        *understanding_names("m6_memory_traffic"),
    ),
    calls=calls,
    checks=CHECKS,
    runs=2,
)
