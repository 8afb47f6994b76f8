"""Slips of rounding and counting: up for down, decimals cut off, one too many."""

from __future__ import annotations

import numpy as np

from milestones.compared import Compared, Slip, close

ENOUGH = 4.0  # decimal digits that the answers must tell: some ten slips are tried
COUNT_AGAIN = "Is the first or the last one left out, or counted twice?"
ROUND_DOWN = "What fits only in part does not fit: is a quotient rounded up?"


def of_rounding(compared: Compared) -> Slip | None:
    """Return the slip of rounding that explains all answers; None if none does."""
    if compared.right.ndim != 1 or int(compared.wrong.sum()) < 2:
        return None
    if not np.isfinite(compared.value).all():
        return None
    digits = np.log10(np.maximum(1.0, np.abs(compared.right)))
    if digits[compared.wrong].sum() < ENOUGH:
        return _to_decimals(compared)
    told = _by_one(compared) if _is_whole(compared.right).all() else _to_whole(compared)
    return told or _to_decimals(compared)


def _is_whole(numbers: np.ndarray) -> np.ndarray:
    return np.asarray(numbers == np.rint(numbers))


def _by_one(compared: Compared) -> Slip | None:
    """Return the slip of answers that are whole and off by the same number."""
    value, right, n = compared.value, compared.right, len(compared.value)
    if not _is_whole(value).all():
        if compared.whole and (np.floor(value) == right).all():
            think = "Only whole ones count: round down."
            return Slip("the right value before it is rounded down", think, n, compared.noun)
        return None
    off = value - right
    if (off == off[0]).all():
        much = f"{abs(off[0]):,.0f}" if abs(off[0]) != 1 else "one"
        equals = f"the right value {'plus' if off[0] > 0 else 'minus'} {much}"
        if abs(off[0]) != 1 and n < 3:
            return None
        if abs(off[0]) != 1:
            think = f"What is {much} here, and counted {'twice' if off[0] > 0 else 'not at all'}?"
        else:
            think = ROUND_DOWN if compared.whole and off[0] > 0 else COUNT_AGAIN
        return Slip(equals, think, n, compared.noun)
    if compared.whole and ((off == 0) | (off == 1)).all():
        equals = f"one too many in {int((off == 1).sum()):,} of {n:,} {compared.noun}, right else"
        return Slip(equals, "Is a quotient rounded to the nearest whole number? Round down.")
    return None


def _to_whole(compared: Compared) -> Slip | None:
    """Return the slip of answers that lost their decimals."""
    value, right, n = compared.value, compared.right, len(compared.value)
    if not _is_whole(value).all():
        return None
    for cut, told in (
        (np.trunc(right), "the right value without its decimals"),
        (np.rint(right), "the right value rounded to a whole number"),
        (np.ceil(right), "the right value rounded up"),
    ):
        if (value == cut).all():
            think = "The decimals belong to the answer: is there a `//`, an `int()` or a `round()`?"
            return Slip(told, think, n, compared.noun)
    return None


def _to_decimals(compared: Compared) -> Slip | None:
    value, right, n = compared.value, compared.right, len(compared.value)
    wrong = compared.wrong
    for decimals in range(1, 7):
        rounded = np.round(right, decimals)
        if close(value, rounded).all():
            told = np.log10(np.maximum(1.0, np.abs(value[wrong]) * 10.0**decimals)).sum()
            if told < ENOUGH:
                return None
            equals = f"the right value rounded to {decimals} decimal{'s' if decimals > 1 else ''}"
            return Slip(equals, "Return the number as it is; round only what you print.", n,
                        compared.noun)  # fmt: skip
    return None
