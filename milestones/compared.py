"""Answers beside the right ones, as arrays: what slips are sought in, and how a slip is told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

RTOL = 1e-6  # room for single precision
DIGITS = 6.0  # what one number tells at that tolerance


@dataclass(frozen=True)
class Slip:
    """A slip that explains every answer: what they equal, and what to think about.

    A thought must hold whichever side of a fraction the slip is on: of a quotient an eighth came
    back where a division by 8 was forgotten. `count` are the answers it was seen in, right ones
    included where it says that they are right.
    """

    equals: str
    thoughts: tuple[str, ...]
    count: int = 0
    noun: str = "answers"

    @property
    def think(self) -> str:
        """What to think about, each thought once."""
        return " ".join(dict.fromkeys(self.thoughts))

    def __str__(self) -> str:
        """Say what the answers equal, and in how many of them."""
        if self.count < 2:
            return self.equals
        many = "both" if self.count == 2 else f"all {self.count:,}"
        return f"{self.equals}, in {many} {self.noun}"


@dataclass(frozen=True)
class Compared:
    """Answers of one kind beside the right ones.

    `value` and `right` are float arrays: (n,) for n questions or rows, (n, k) for rows of k
    numbers. `quantities` are numbers of each question by name, each (n,), NaN where a question has
    none. `others` are right values of something else, by its name, in the shape of `right`. `whole`
    says that right answers are rounded down, `rows` that they are rows of one table, `rough` that
    they are estimates, of which only the size can be told. `name` tells what is compared from what
    else is, `of_row` are the quantities that a row is shown with, `numbers` names the answers.
    """

    value: np.ndarray
    right: np.ndarray
    quantities: Mapping[str, np.ndarray] = field(default_factory=dict)
    others: Mapping[str, np.ndarray] = field(default_factory=dict)
    whole: bool = False
    rows: bool = False
    rough: bool = False
    name: str = ""
    of_row: tuple[str, ...] = ()
    numbers: str = "answers"

    @property
    def noun(self) -> str:
        """What its answers are called."""
        return "rows" if self.rows else self.numbers

    def at(self, rows: np.ndarray) -> Compared:
        """Return the same of some rows alone."""
        return replace(
            self,
            value=self.value[rows],
            right=self.right[rows],
            quantities={name: q[rows] for name, q in self.quantities.items()},
            others={},
        )

    @property
    def same_shape(self) -> bool:
        """Whether values and right values can be compared one by one."""
        return self.value.shape == self.right.shape

    @cached_property
    def wrong(self) -> np.ndarray:
        """Which values are not the right ones, in the shape of both."""
        return ~close(self.value, self.right)

    @cached_property
    def digits(self) -> np.ndarray:
        """What each value tells, in decimal digits: of a whole number no more than it has."""
        size = np.maximum(np.abs(self.value), np.abs(self.right))
        exact = (self.value == np.rint(self.value)) & (self.right == np.rint(self.right))
        told = np.log10(np.clip(np.nan_to_num(size, posinf=1e9), 1.0, 1e9))
        return np.asarray(np.where(exact, np.minimum(told, DIGITS), DIGITS))


def close(value: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Tell of each value whether it is the right one; what is not finite never is."""
    return np.asarray((np.abs(value - right) <= RTOL * np.abs(right)) & np.isfinite(value))


def of_cases(
    cases: Iterable[tuple[Any, Any, Mapping[str, Any]]], *, whole: bool = False, name: str = ""
) -> Compared:
    """Put answers to single questions side by side, each with the quantities it was asked with.

    What is no number becomes NaN, which is never right and never a slip.
    """
    asked = list(cases)
    names = dict.fromkeys(name for _, _, args in asked for name in args)
    return Compared(
        value=_column(value for value, _, _ in asked),
        right=_column(right for _, right, _ in asked),
        quantities={name: _column(args.get(name) for _, _, args in asked) for name in names},
        whole=whole,
        name=name,
    )


def _column(values: Iterable[Any]) -> np.ndarray:
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
