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
    told = _by_the_same(compared)
    if told is None:
        whole = _is_whole(compared.right).all()
        told = _by_a_part(compared) if whole else _to_whole(compared)
    return told or _to_decimals(compared)


def _is_whole(numbers: np.ndarray) -> np.ndarray:
    return np.asarray(numbers == np.rint(numbers))


def _by_the_same(compared: Compared) -> Slip | None:
    """Return the slip of answers that are all off by the same whole number."""
    off, n = compared.value - compared.right, len(compared.value)
    much = float(np.rint(off[0]))
    if not much or not close(compared.value, compared.right + much).all():
        return None
    if abs(much) == 1:
        told = "one"
        think = ROUND_DOWN if compared.whole and much > 0 else COUNT_AGAIN
    elif n < 3:
        return None
    else:
        told = f"{abs(much):,.0f}"
        think = f"What is {told} here, and counted {'twice' if much > 0 else 'not at all'}?"
    equals = f"the right value {'plus' if much > 0 else 'minus'} {told}"
    return Slip(equals, (think,), n, compared.noun)


def _by_a_part(compared: Compared) -> Slip | None:
    """Return the slip of answers that belong rounded down, and are not, or to the nearest."""
    value, right, n = compared.value, compared.right, len(compared.value)
    if not compared.whole:
        return None
    if not _is_whole(value).all():
        if (np.floor(value) == right).all():
            equals = "the right value before it is rounded down"
            return Slip(equals, ("Only whole ones count: round down.",), n, compared.noun)
        return None
    off = value - right
    if ((off == 0) | (off == 1)).all():
        equals = f"one too many in {int((off == 1).sum()):,} of {n:,} {compared.noun}, else right"
        return Slip(equals, ("Is a quotient rounded to the nearest whole number? Round down.",))
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
            return Slip(told, (think,), n, compared.noun)
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
            return Slip(equals, ("Return the number as it is; round only what you print.",), n,
                        compared.noun)  # fmt: skip
    return None
