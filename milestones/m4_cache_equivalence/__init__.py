"""Milestone 4: decoding with a KV cache gives the same logits, for a fraction of the work."""

from milestones.m4_cache_equivalence.calls import calls
from milestones.m4_cache_equivalence.checks import CHECKS
from milestones.spec import Milestone
from milestones.understanding import understanding_names

MILESTONE = Milestone(
    slug="m4_cache_equivalence",
    title="Cache equivalence",
    functions=(
        "full_logits",
        "new_cache",
        "decode_step",
        "count_key_projections",
        *understanding_names("m4_cache_equivalence"),
    ),
    calls=calls,
    checks=CHECKS,
)
