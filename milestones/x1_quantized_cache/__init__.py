"""Lab x1: a cache in 8 bits and fewer, what that costs in bytes, and what it does to a model."""

from milestones.spec import Milestone
from milestones.understanding import understanding_names
from milestones.x1_quantized_cache.calls import calls
from milestones.x1_quantized_cache.checks import CHECKS

MILESTONE = Milestone(
    slug="x1_quantized_cache",
    title="A quantized cache",
    functions=(
        "to_int",
        "from_int",
        "from_fp8",
        "to_fp8",
        "through_groups",
        "cache_bytes",
        "as_seen",
        "perplexity",
        "profile",
        "profile_lm",
        *understanding_names("x1_quantized_cache"),
    ),
    calls=calls,
    checks=CHECKS,
)
