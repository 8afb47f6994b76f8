"""Milestone 5: a decode step as four physical terms, and the four shares real hardware gives."""

from milestones.m5_roofline.calls import calls
from milestones.m5_roofline.checks import CHECKS
from milestones.spec import Milestone
from milestones.understanding import understanding_names

MILESTONE = Milestone(
    slug="m5_roofline",
    title="Roofline",
    functions=("roofline_terms", "fit_roofline", *understanding_names("m5_roofline")),
    calls=calls,
    checks=CHECKS,
    runs=2,
)
