"""Slips of dimension, order and rounding, recognised in answers beside the right ones.

Nothing here knows a milestone. A slip is told only where it explains every answer and coincidence
is ruled out; where two explain the same answers both are said, where more do, none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from milestones.compared import Compared, Slip
from milestones.slip_factors import by_a_rough_factor, by_one_factor, by_two_factors
from milestones.slip_orders import of_order
from milestones.slip_rounding import of_rounding

KINDS: tuple[Callable[[Compared], Slip | None], ...] = (
    of_rounding,
    by_one_factor,
    by_two_factors,
)
MOST_VALUES = 8  # of a quantity, for one of them to single out rows
FEWEST_ROWS = 20


def recognise(compared: Sequence[Compared]) -> Slip | None:
    """Return the slip that explains all that was compared; None if there is none.

    Where several things are compared, all that hold a wrong answer must show a slip: the same, or
    each its own where they have names.
    """
    with np.errstate(all="ignore"):  # answers may be of any size
        wrong = [one for one in compared if not one.same_shape or one.wrong.any()]
        found = [_slip(one) for one in wrong]
    if not found or any(slip is None for slip in found):
        return None
    slips = [slip for slip in found if slip is not None]
    if len({slip.equals for slip in slips}) == 1:
        return replace(slips[0], count=sum(slip.count for slip in slips))
    if not all(one.name for one in wrong):
        return None
    told = "; ".join(f"{one.name}: {slip}" for one, slip in zip(wrong, slips, strict=True))
    return Slip(told, tuple(thought for slip in slips for thought in slip.thoughts))


def _slip(compared: Compared) -> Slip | None:
    if compared.rough:
        return by_a_rough_factor(compared) if compared.same_shape and compared.right.size else None
    if compared.rows or compared.right.ndim == 2:
        found = of_order(compared)
        if found is not None:
            return found
    if not compared.same_shape or compared.right.size == 0:
        return None
    flat = _flat(compared)
    return next(filter(None, (kind(flat) for kind in KINDS)), None) or _only_where(flat)


def _flat(compared: Compared) -> Compared:
    """Return rows of several numbers as one column; their quantities are those of rows no more."""
    if compared.right.ndim == 1:
        return compared
    return Compared(
        compared.value.ravel(), compared.right.ravel(), name=compared.name, numbers="numbers"
    )


def _only_where(compared: Compared) -> Slip | None:
    """Tell which rows are wrong, where one value of one quantity singles them out."""
    if not compared.rows or len(compared.value) < FEWEST_ROWS or compared.wrong.all():
        return None
    told = list(dict.fromkeys(_conditions(compared)))
    if len(told) != 1:
        return None
    equals = f"the right value in every row but those where {told[0]}"
    return Slip(equals, ("What is different there? Work one such row out by hand.",))


def _conditions(compared: Compared) -> Iterator[str]:
    for name, q in compared.quantities.items():
        values = np.unique(q)
        if 1 < len(values) <= MOST_VALUES:
            for one in values:
                if (compared.wrong == (q == one)).all():
                    yield f"{name} is {one:g}"
                elif (compared.wrong == (q != one)).all() and len(values) > 2:
                    yield f"{name} is not {one:g}"
        for other, p in compared.quantities.items():
            if name < other and (compared.wrong == (q != p)).all():
                yield f"{name} and {other} differ"
