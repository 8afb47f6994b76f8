"""Slips of order in rows: transposed, reversed, sorted, shifted by one, constant, another's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from milestones.compared import Compared, Slip, close

FEWEST_ROWS = 4  # fewer could be in another order by chance


def of_order(compared: Compared) -> Slip | None:
    """Return the slip of order that explains all rows; None if none does."""
    value, right = compared.value, compared.right
    told = _transposed(value, right)
    if told is None and compared.same_shape and len(right) >= FEWEST_ROWS:
        varied = len(np.unique(right, axis=0)) >= FEWEST_ROWS
        told = next(_orders(value, right), None) if varied else None
        told = told or _of_another(compared)
    if told is None or (compared.same_shape and not compared.wrong.any()):
        return None
    equals, think = told
    return Slip(equals, (think,), len(right), "rows")


def _transposed(value: np.ndarray, right: np.ndarray) -> tuple[str, str] | None:
    if right.ndim != 2 or min(right.shape) < 2 or value.shape != right.shape[::-1]:
        return None
    if not close(value.T, right).all():
        return None
    return (
        "the right table, transposed: rows are columns and columns are rows",
        "Which axis is first? Return the transpose.",
    )


def _orders(value: np.ndarray, right: np.ndarray) -> Iterator[tuple[str, str]]:
    in_order = "Row i of the answer belongs to row i of the table: is the order kept on the way?"
    if close(value[::-1], right).all():
        yield "the right values in reversed order", in_order
    if close(value[1:], right[:-1]).all():
        yield "the right values, one row late", "Does counting start at 0 or at 1? Row 0 is first."
    if close(value[:-1], right[1:]).all():
        yield "the right values, one row early", "Does counting start at 0 or at 1? Row 0 is first."
    if right.ndim == 1:
        yield from _of_a_column(value, right, in_order)


def _of_a_column(value: np.ndarray, right: np.ndarray, in_order: str) -> Iterator[tuple[str, str]]:
    rising = np.sort(right)
    if close(value, rising).all():
        yield "the right values, sorted", in_order
    elif close(value, rising[::-1]).all():
        yield "the right values, sorted from the largest down", in_order
    elif close(np.sort(value), rising).all():
        yield "the right values in another order", in_order
    if value[0] == value[-1] and (value == value[0]).all():
        for name, one in (("mean", right.mean()), ("sum", right.sum()), ("first", right[0])):
            if close(value[:1], np.array([one])).all():
                what = f"the {name} of all the right values" if name != "first" else "row 0's value"
                yield what, "Each row has a value of its own: is a whole column summed up?"
                return
        yield "one number", "Each row has a value of its own: use its columns, not one number."
    if close(value, np.cumsum(right)).all():
        yield "running sums of the right values", "Each row stands for itself: nothing adds up."


def _of_another(compared: Compared) -> tuple[str, str] | None:
    for name, other in compared.others.items():
        if close(compared.value, other).all() and not close(other, compared.right).all():
            return f"what belongs in {name}", "Are two columns swapped? Look at their order."
    return None
