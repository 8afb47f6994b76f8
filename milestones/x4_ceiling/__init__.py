"""Lab x4: what stops a GPU from making more tokens, and what paging and coding win back."""

from milestones.spec import Milestone
from milestones.understanding import understanding_names
from milestones.x4_ceiling.calls import calls
from milestones.x4_ceiling.checks import CHECKS

MILESTONE = Milestone(
    slug="x4_ceiling",
    title="The ceiling",
    functions=(
        "ceilings",
        "reserved_tokens",
        "waste",
        "schedule",
        "blocks_held",
        "entropy_bits",
        "byte_planes",
        "cache_entropy",
        *understanding_names("x4_ceiling"),
    ),
    calls=calls,
    checks=CHECKS,
)
