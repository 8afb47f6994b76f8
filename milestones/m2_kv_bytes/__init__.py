"""Milestone 2: how many bytes of KV cache one token costs, from a shape or a config file."""

from milestones.m2_kv_bytes.calls import calls
from milestones.m2_kv_bytes.checks import CHECKS
from milestones.spec import Milestone
from milestones.understanding import understanding_names

MILESTONE = Milestone(
    slug="m2_kv_bytes",
    title="KV bytes",
    functions=(
        "kv_bytes_per_token",
        "kv_bytes_for_runs",
        "kv_bytes_from_config",
        *understanding_names("m2_kv_bytes"),
    ),
    calls=calls,
    checks=CHECKS,
)
