"""The calls of lab x4: every question is plain JSON, put to the function of its topic."""

from milestones.spec import Call, Files, Returns
from milestones.understanding import understanding_calls

FUNCTIONS: dict[str, tuple[str, Returns]] = {
    "ceilings": ("ceilings", "json"),
    "reserved": ("reserved_tokens", "json"),
    "waste": ("waste", "json"),
    "schedule": ("schedule", "array"),
    "prefix": ("blocks_held", "json"),
    "entropy": ("entropy_bits", "json"),
    "planes": ("byte_planes", "array"),
    "cache": ("cache_entropy", "array"),
}
"""By topic: the function that is asked, and the form its answer travels in."""


def calls(questions: Files) -> list[Call]:
    """Return the calls, in order, from the split's questions."""
    asked = questions.json("x4_ceiling/questions.json")
    return [
        Call(f"{topic}/{i}", function, args, returns)
        for topic, (function, returns) in FUNCTIONS.items()
        for i, args in enumerate(asked[topic])
    ] + understanding_calls("x4_ceiling", questions)
