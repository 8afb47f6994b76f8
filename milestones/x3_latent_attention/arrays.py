"""Arrays against the truth of lab x3: their form, then their numbers, each said in a sentence.

The bound is that of milestone 4 (`depart`): sums here have fewer than 100 float64 terms of order 1
through at most 2 layers, so two right computations differ by 1e-15 to 1e-12, and the smallest of
the named mistakes by more than 1e-4.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from milestones import compare
from milestones.compare import right_array
from milestones.compared import Compared
from milestones.m4_cache_equivalence.depart import ATOL, RTOL, same
from milestones.spec import Answer, Answers, Compare, Files, ReadTable, Verdict, failed, passed

NEARLY_RIGHT = 5e-7  # of the largest value: single precision is nearer, named mistakes are far off
NEARLY = (
    "That is right but for the last digits: is something float32, or the 1e-6 of `norm` missing? "
    "Everything is float64 here."
)


def truth_of(truth: Files, topic: str) -> dict[str, np.ndarray]:
    """Return the right arrays of one topic, by call id."""
    return truth.arrays(f"x3_latent_attention/{topic}.npz")


def arrays_agree(answers: Answers, truth: Files, topic: str) -> Verdict:
    """Compare the arrays of one topic; say of the first wrong one where and how far it is off."""
    expected = truth_of(truth, topic)
    for answer in answers.under(topic):
        if answer.call.returns == "kept":  # new caches of a sequence: another check looks at some
            continue
        verdict = array_agrees(answer, expected[answer.call.id])
        if not verdict.passed:
            return verdict
    return passed()


def array_agrees(answer: Answer, right: np.ndarray) -> Verdict:
    """Compare one array with the right one."""
    formed = form_agrees(answer, right)
    if not formed.passed or same(answer.value, right):
        return formed
    value = answer.value
    wrong = ~np.isclose(value, right, rtol=RTOL, atol=ATOL)
    much = float(np.abs(value - right).max())
    largest = float(np.abs(right).max())
    verdict = failed(
        f"{int(wrong.sum()):,} of {value.size:,} values are off, by up to {much:.3g}; the right "
        f"ones reach {largest:.3g}.",
        remark=f"what `{answer.call.function}` returns is off",
        asked=str(answer.call),
    )
    return replace(verdict, think=NEARLY) if much <= NEARLY_RIGHT * largest else verdict


def form_agrees(answer: Answer, right: np.ndarray) -> Verdict:
    """Check that an answer is an array of finite numbers in the right shape."""
    if right.size:  # a new cache has no row yet
        right_array(right, right.shape)
    return compare.form_agrees(answer, right.shape, "an array of another shape")


def arrays_beside(topic: str) -> Compare:
    """Put the arrays of a topic beside the right ones."""

    def compare(answers: Answers, truth: Files, _read_table: ReadTable) -> list[Compared]:
        expected = truth_of(truth, topic)
        found = [
            (answer.value, expected[answer.call.id])
            for answer in answers.under(topic)
            if isinstance(answer.value, np.ndarray) and answer.call.id in expected
        ]
        return [
            Compared(np.atleast_2d(value), np.atleast_2d(right), rows=True)
            for value, right in found
            if value.ndim == right.ndim <= 2
        ]

    return compare
