"""Where the logits of a sequence depart from the right ones, and by how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from milestones.compared import Compared
from milestones.spec import Answer, Answers, Compare, Files, ReadTable

RTOL, ATOL = 1e-9, 1e-12


@dataclass(frozen=True)
class Sequenced:
    """The logits of one sequence, token by token; `word` is what a token's place is called.

    `value` and `right` hold (vocab,) arrays; a value may have any shape.
    """

    value: tuple[np.ndarray, ...]
    right: tuple[np.ndarray, ...]
    word: str

    @property
    def departs(self) -> int | None:
        """The first token whose logits are wrong; None where all are right."""
        pairs = zip(self.value, self.right, strict=True)
        return next((t for t, (a, b) in enumerate(pairs) if not same(a, b)), None)

    def told(self) -> str:
        """Say where the logits depart, by how much, and whether they come back."""
        t = self.departs
        if t is None:
            return ""
        n = len(self.right)
        largest = float(np.abs(self.right[t]).max())
        much = f"by up to {_gap(self.value[t], self.right[t])} (logits there reach {largest:.3g})"
        if n == 1:
            return f"The logits of its one token are off {much}."
        later = [same(a, b) for a, b in zip(self.value[t:], self.right[t:], strict=True)]
        n_right = sum(later)
        after = f", and right again in {n_right} of the {n - t - 1} after it" if n_right else ""
        if t == 0:
            return f"Off from the first {self.word} of {n}, {much}{after}."
        until = f"{self.word} 0" if t == 1 else f"{self.word}s 0 to {t - 1}"
        verb = "is" if t == 1 else "are"
        return f"{until.capitalize()} {verb} right; {self.word} {t} of {n} is off {much}{after}."


def same(value: np.ndarray, right: np.ndarray) -> bool:
    """Tell whether logits agree within rounding; NaN never does."""
    with np.errstate(invalid="ignore", over="ignore"):
        return value.shape == right.shape and bool(
            np.isclose(value, right, rtol=RTOL, atol=ATOL).all()
        )


def _gap(value: np.ndarray, right: np.ndarray) -> str:
    if value.shape != right.shape:
        return "its whole shape"
    with np.errstate(invalid="ignore", over="ignore"):
        gap = float(np.abs(value - right).max())
    return f"{gap:.3g}" if np.isfinite(gap) else "more than can be counted"


def sequence_of(answer: Answer, answers: Answers, expected: Mapping[str, np.ndarray]) -> Sequenced:
    """Return the sequence that an answer belongs to: its own rows, or its chain of steps."""
    call = answer.call
    if call.function == "full_logits":
        right = expected[call.id]
        value = np.asarray(answer.value)
        rows = value if value.shape == right.shape else np.full(right.shape, np.nan)
        return Sequenced(tuple(rows), tuple(right), "position")
    chain = call.id.rpartition("/")[0]
    steps = [
        one
        for one in answers.under(call.topic)
        if one.call.id.rpartition("/")[0] == chain and one.call.function == "decode_step"
    ]
    return Sequenced(
        tuple(np.asarray(one.value) for one in steps),
        tuple(expected[one.call.id] for one in steps),
        "step",
    )


def logits_beside(topic: str) -> Compare:
    """Put the logits of every sequence of a topic beside the right ones, (tokens, vocab) each."""

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        expected = truth.arrays(f"m4_cache_equivalence/logits/{topic}.npz")
        firsts = [
            one
            for one in answers.under(topic)
            if one.call.function == "full_logits" or one.call.id.endswith("/0")
        ]
        found = [sequence_of(one, answers, expected) for one in firsts]
        return [one for each in found if (one := _stacked(each)) is not None]

    return compare


def _stacked(sequence: Sequenced) -> Compared | None:
    """Return a sequence as two tables; None where a step has another shape."""
    shapes: Sequence[tuple[int, ...]] = [step.shape for step in sequence.value]
    if any(shape != right.shape for shape, right in zip(shapes, sequence.right, strict=True)):
        return None
    return Compared(np.array(sequence.value), np.array(sequence.right), rows=True)
