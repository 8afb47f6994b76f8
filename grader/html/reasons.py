"""How a hand-in ended, as a person reads it."""

from __future__ import annotations

from dataclasses import dataclass

from grader.classroom import Reason


@dataclass(frozen=True)
class Told:
    """A reason code in words: a word, a symbol that stands for it, and what it means."""

    word: str
    symbol: str
    kind: str  # the class that colours it
    meaning: str


REASONS = {
    Reason.MISSING: Told(
        "not handed in", "–", "skipped", "Nothing was handed in for this milestone."
    ),
    Reason.UNREADABLE: Told(
        "unreadable", "?", "failed",
        "What was handed in is not a notebook that can be read, so no check could be tried.",
    ),
    Reason.LIMIT: Told(
        "stopped", "■", "failed",
        "The notebook passed a bound on time, memory, processes or output, and was stopped there. "
        "What it had answered by then was judged. The rest was done in a fresh process without the "
        "cell or the function that passed it, as long as the bounds in all allowed.",
    ),
    Reason.ENDED: Told(
        "ended early", "◆", "failed",
        "The notebook ended its own process before it was asked everything. What it had answered "
        "by then was judged; the rest counts as not answered.",
    ),
    Reason.TRAP: Told(
        "trap", "▲", "failed",
        "Predictions follow a label file that holds no real labels and was left in the room as a "
        "trap. Your instructor will talk to you about it.",
    ),
    Reason.BROKEN: Told(
        "not graded", "!", "broken",
        "The grader or its machine failed here. This is not your fault and costs no points: it "
        "will be graded again.",
    ),
}  # fmt: skip
"""Every ending but the usual one."""
