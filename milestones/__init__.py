"""What is asked: one folder a milestone, with its functions, its checks and its handout.

Nothing here runs a student's code or knows a right answer; it imports numpy and pandas at most.
"""

from importlib import import_module

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


class UnknownMilestoneError(ValueError):
    """A name that is no milestone of this course."""


def slug_of(name: str) -> str:
    """Return the slug that `name` stands for: `5`, `m5` and `m5_roofline` all mean the fifth.

    Raises:
        UnknownMilestoneError: no milestone has that name; the message lists those that exist.
    """
    wanted = name.strip().lower().removesuffix(".ipynb")
    for slug in SLUGS:
        short = slug.partition("_")[0]
        if wanted in (slug, short, short.removeprefix("m")):
            return slug
    raise UnknownMilestoneError(
        f"there is no milestone {name!r}; the milestones are 1 to {len(SLUGS)}: {', '.join(SLUGS)}"
    )


def load(slug: str) -> Milestone:
    """Return the milestone with this slug, from the `MILESTONE` of its folder."""
    milestone = import_module(f"milestones.{slug}").MILESTONE
    assert isinstance(milestone, Milestone)
    return milestone
