"""How a hand-in ended, as a person reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Told:
    """A reason code in words: a word, a symbol that stands for it, and what it means."""

    word: str
    symbol: str
    kind: str  # the class that colours it
    meaning: str


REASONS = {
    "graded": Told("graded", "", "", ""),
    "missing": Told(
        "not handed in", "–", "skipped", "Nothing was handed in for this milestone."
    ),
    "unreadable": Told(
        "unreadable", "?", "failed",
        "A file was handed in, but it is not a notebook that can be read, so none of its checks "
        "could be tried.",
    ),
    "stopped": Told(
        "stopped", "■", "failed",
        "The notebook was stopped before its end. What it had answered until then was judged; "
        "the rest counts as not answered.",
    ),
    "trap": Told(
        "trap", "▲", "failed",
        "Predictions follow a label file that holds no real labels and was left in the room as a "
        "trap. Your instructor will talk to you about it.",
    ),
    "broken": Told(
        "not graded", "!", "broken",
        "The grader or its machine failed here. This is not your fault and costs no points: it "
        "will be graded again.",
    ),
}  # fmt: skip


def told(reason: str) -> Told:
    """Return a reason in words; one that is new here is told by its code alone."""
    return REASONS.get(reason) or Told(reason, "?", "skipped", "")
