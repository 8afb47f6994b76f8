"""Lab x2: a cache of bounded size, and what it should forget."""

from milestones.spec import Milestone
from milestones.understanding import understanding_names
from milestones.x2_eviction.calls import calls
from milestones.x2_eviction.checks import CHECKS

MILESTONE = Milestone(
    slug="x2_eviction",
    title="What to forget",
    functions=(
        "sinks_and_recent",
        "attend",
        "attention_received",
        "heavy_and_recent",
        "decode",
        *understanding_names("x2_eviction"),
    ),
    calls=calls,
    checks=CHECKS,
)
