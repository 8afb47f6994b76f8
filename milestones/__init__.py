"""What is asked: one folder a milestone, with its functions, its checks and its handout.

Nothing here runs a student's code or knows a right answer; it imports numpy and pandas at most.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it imports pandas: too slow for a shell that completes a milestone's name
    from milestones.spec import Milestone

SLUGS = (
    "m1_profile_runs",
    "m2_kv_bytes",
    "m3_concurrency",
    "m4_cache_equivalence",
    "m5_roofline",
    "m6_memory_traffic",
    "m7_planner",
)
BONUS_SLUGS: tuple[str, ...] = (
    "x1_quantized_cache",
    "x2_eviction",
    "x3_latent_attention",
    "x4_ceiling",
)
"""Labs beyond the seven, whose points are all bonus; they are asked for by name."""


def all_slugs() -> tuple[str, ...]:
    """Return the slugs of the seven milestones, then those of the labs."""
    return (*SLUGS, *BONUS_SLUGS)


class UnknownMilestoneError(ValueError):
    """A name that is no milestone of this course."""


def slug_of(name: str) -> str:
    """Return the slug that `name` stands for: `5`, `m5` and `m5_roofline` all mean the fifth.

    Raises:
        UnknownMilestoneError: no milestone has that name; the message lists those that exist.
    """
    wanted = name.strip().lower().removesuffix(".ipynb")
    for slug in all_slugs():
        short = slug.partition("_")[0]
        if wanted in (slug, short, short.removeprefix("m")):
            return slug
    beyond = f"; and beyond them {', '.join(BONUS_SLUGS)}" if BONUS_SLUGS else ""
    raise UnknownMilestoneError(
        f"there is no milestone {name!r}; the milestones are 1 to {len(SLUGS)}: "
        f"{', '.join(SLUGS)}{beyond}"
    )


def number_of(slug: str) -> str:
    """Return the short name that commands show: 2 of `m2_kv_bytes`."""
    return slug.partition("_")[0].removeprefix("m")


def load(slug: str) -> Milestone:
    """Return the milestone with this slug, from the `MILESTONE` of its folder."""
    milestone: Milestone = import_module(f"milestones.{slug}").MILESTONE
    return milestone
