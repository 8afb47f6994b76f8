"""Slips by a factor: a constant that units are apart by, or a quantity that the question names.

A factor counts only where it explains every answer, the right ones among them, and where that is
no coincidence: each number tells as many decimal digits as it has, and the digits must outweigh the
factors that are tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from milestones.compared import RTOL, Compared, Slip, close

ENOUGH, ENOUGH_OF_TWO = 5.0, 8.0
"""Digits that outweigh some hundred single factors, and some ten thousand products of two."""
MOST_TOLD = 2  # more explanations than these explain nothing
SAMPLE = 24  # answers looked at first: most factors fail on them


@dataclass(frozen=True)
class Constant:
    """A factor that people slip by, and what to think about when it shows."""

    factor: float
    think: str


MISSING = "Which factor of your product is missing, or counted once too often?"
CONSTANTS = (
    Constant(8, "A byte has 8 bits: is something counted in bits that belongs in bytes, or divided "
                "by 8 twice?"),
    Constant(2, "Keys and values are two, and so are a multiplication and an addition: is a factor "
                "of 2 missing, or counted twice?"),
    Constant(100, "A fraction and a percentage are a factor of 100 apart."),
    Constant(60, "Minutes and seconds, or hours and minutes, are a factor of 60 apart."),
    Constant(3600, "An hour has 3,600 seconds: which of the two is the unit?"),
    *(
        Constant(1000.0**n, f"Units are {1000**n:,} apart (ms and s, kB and B, GB and kB): which "
                            "one is asked for?")
        for n in (1, 2, 3)
    ),
    *(
        Constant(1024.0**n, f"2^{10 * n} is the step of KiB, MiB and GiB: which unit is asked for?")
        for n in (1, 2, 3)
    ),
    *(
        Constant(
            1.024**n,
            f"Decimal and binary units are {1.024**n:.4g} apart: {name} is 10^{3 * n} bytes, "
            f"{binary} is 2^{10 * n}.",
        )
        for n, name, binary in ((1, "a kB", "a KiB"), (2, "a MB", "a MiB"), (3, "a GB", "a GiB"))
    ),
    Constant(-1, "The sign is the other one: what is taken from what?"),
)  # fmt: skip
IN_WORDS = {2.0: "twice", 0.5: "half", 0.125: "an eighth of", -1.0: "minus"}
BITS = (16.0, 8.0, 32.0)
APART = (60, 3600, 1e3, 1e6, 1e9)
"""The constants that even an estimate can be seen to be off by."""
NEAR = 1.2
IN_PRODUCTS = (2.0, 0.5, 8.0, 0.125)


@dataclass(frozen=True)
class Factor:
    """A factor of each answer, (n,), with what it says; `of` is what it is made of."""

    factor: np.ndarray
    equals: str
    think: str


def by_one_factor(compared: Compared) -> Slip | None:
    """Return the slip by a constant, or by one quantity of the question; None if none."""
    return (
        _told(compared, _ones, ENOUGH)
        or _upside_down(compared)
        or _told(compared, _one_for_another, ENOUGH)
        or _by_any_constant(compared)
    )


def by_two_factors(compared: Compared) -> Slip | None:
    """Return the slip by a product of two quantities, or of one and a constant; None if none."""
    if int(compared.wrong.sum()) < 3:
        return None
    return _told(compared, _twos, ENOUGH_OF_TWO)


def by_a_rough_factor(compared: Compared) -> Slip | None:
    """Return the slip of estimates by units, or of estimates of something else; None if none.

    Half of the estimates lie within a factor of two of each other, and their middle within a fifth
    of the slip's: units lie further apart than that.
    """
    for name, other in compared.others.items():
        if _about(compared.value / other, 1.0):
            return Slip(
                f"about what {name} would be", (f"Asked for is another quantity than {name}.",)
            )
    for constant in CONSTANTS:
        for factor in (constant.factor, 1 / constant.factor):
            if constant.factor in APART and _about(compared.value / compared.right, factor):
                return Slip(f"about {times(factor)}", (constant.think,))
    return None


def _about(ratio: np.ndarray, factor: float) -> bool:
    if not (np.isfinite(ratio) & (ratio > 0)).all():
        return False
    low, middle, high = np.quantile(ratio, (0.25, 0.5, 0.75))
    return bool(high < 2 * low and 1 / NEAR < middle / factor < NEAR)


def times(factor: float) -> str:
    """Say a factor of the right value: `twice the right value`."""
    if factor in IN_WORDS:
        return f"{IN_WORDS[factor]} the right value"
    if 0 < abs(factor) < 1:
        if math.isclose(1 / factor, round(1 / factor), rel_tol=RTOL):
            return f"the right value divided by {round(1 / factor):,}"
        return f"{factor:.4g} times the right value"
    whole = factor == round(factor)
    return f"{round(factor):,} times the right value" if whole else (
        f"{factor:.5g} times the right value"
    )  # fmt: skip


# ---------------------------------------------------------------- what is tried


def _ones(compared: Compared) -> Iterator[Factor]:
    yield from _constants(len(compared.value))
    if len(compared.value) == 1:
        return  # one answer cannot tell a quantity from a number that happens to equal it
    for name, q in _usable(compared).items():
        yield Factor(
            q,
            f"the right value times {name}",
            f"Is `{name}` a factor once too often, or a division by it missing?",
        )
        yield Factor(
            1 / q,
            f"the right value divided by {name}",
            f"Is a factor `{name}` missing, or divided by once too often?",
        )
        if name.endswith("_bits") and np.ptp(q) > 0:
            for bits in BITS:
                yield Factor(
                    bits / q,
                    f"what {bits:g} bits would give, whatever `{name}` says",
                    f"Use `{name}`: not every question has {bits:g} bits.",
                )


def _one_for_another(compared: Compared) -> Iterator[Factor]:
    usable = _usable(compared) if len(compared.value) > 1 else {}
    for name, q in usable.items():
        for other, p in usable.items():
            if name != other:
                yield Factor(
                    q / p,
                    f"the right value with {name} in the place of {other}",
                    f"Which of the two belongs here: `{name}` or `{other}`?",
                )


def _twos(compared: Compared) -> Iterator[Factor]:
    usable = list(_usable(compared).items())
    for i, (name, q) in enumerate(usable):
        for constant in IN_PRODUCTS:
            told = f"{times(constant)} times {name}"
            yield Factor(constant * q, told, MISSING)
            yield Factor(constant / q, f"{times(constant)} divided by {name}", MISSING)
        for other, p in usable[i + 1 :]:
            yield Factor(p * q, f"the right value times {name} and {other}", MISSING)
            yield Factor(1 / (p * q), f"the right value divided by {name} and {other}", MISSING)
            for one, a, two, b in ((name, q, other, p), (other, p, name, q)):
                for constant in IN_PRODUCTS:
                    told = f"{times(constant)} with {one} in the place of {two}"
                    yield Factor(constant * a / b, told, MISSING)


def _constants(n: int) -> Iterator[Factor]:
    for constant in CONSTANTS:
        yield Factor(np.full(n, constant.factor), times(constant.factor), constant.think)
        if constant.factor != -1:
            under = 1 / constant.factor
            yield Factor(np.full(n, under), times(under), constant.think)


def _usable(compared: Compared) -> dict[str, np.ndarray]:
    """Return the quantities that every question has and that could be factors."""
    return {
        name: q for name, q in compared.quantities.items() if bool((np.isfinite(q) & (q > 0)).all())
    }


# ---------------------------------------------------------------- what counts


def _told(
    compared: Compared, tried: Callable[[Compared], Iterator[Factor]], enough: float
) -> Slip | None:
    n_wrong = int(compared.wrong.sum())
    if n_wrong < 2 and len(compared.value) > 1:
        return None
    few = compared.at(_sample(compared))
    first = list(tried(few))
    if not first:
        return None
    explaining = _explain(few, [factor.factor for factor in first])
    left = {factor.equals for factor, fits in zip(first, explaining, strict=True) if fits}
    if not left:
        return None
    found = [
        factor
        for factor in tried(compared)
        if factor.equals in left and _explains(compared, factor.factor, enough)
    ]
    if not found or len(found) > MOST_TOLD:
        return None
    equals = ", or ".join(factor.equals for factor in found)
    thoughts = tuple(factor.think for factor in found)
    return Slip(equals, thoughts, len(compared.value), compared.noun)


def _sample(compared: Compared) -> np.ndarray:
    wrong, right = np.flatnonzero(compared.wrong), np.flatnonzero(~compared.wrong)
    return np.concatenate([wrong[:: max(1, len(wrong) // SAMPLE)], right[:SAMPLE]])


def _explain(compared: Compared, factors: Sequence[np.ndarray]) -> np.ndarray:
    """Tell of each factor, (n,), whether it explains all answers."""
    f, value, right = np.array(factors), compared.value, compared.right
    if not compared.whole:
        return np.asarray(close(value, f * right).all(axis=1))
    low, high = np.floor(f * right), np.ceil(f * (right + 1))
    return np.asarray(((f > 0) & (low <= value) & (value <= high)).all(axis=1))


def _explains(compared: Compared, factor: np.ndarray, enough: float) -> bool:
    """Tell whether a factor explains all answers, and the wrong ones tell enough digits of it."""
    if not _explain(compared, [factor])[0]:
        return False
    told = compared.digits
    if compared.whole:
        spread = np.ceil(factor * (compared.right + 1)) - np.floor(factor * compared.right) + 1
        told = np.log10(np.maximum(1.0, compared.value / spread))  # 0 is any large divisor's
    return bool(told[compared.wrong].sum() >= enough)


def _upside_down(compared: Compared) -> Slip | None:
    n = len(compared.value)
    if compared.whole or int(compared.wrong.sum()) < min(2, n) or not np.all(compared.right):
        return None
    if not close(compared.value, 1 / compared.right).all():
        return None
    return Slip(
        "one over the right value",
        ("What is divided by what? The quotient is upside down.",),
        n,
        compared.noun,
    )


def _by_any_constant(compared: Compared) -> Slip | None:
    """Return the slip by a constant that is none of the usual ones, seen in three answers."""
    value, right = compared.value[compared.right != 0], compared.right[compared.right != 0]
    if compared.whole or len(value) < 3 or not compared.wrong.all() or not value.all():
        return None
    factor = float(np.median(value / right))
    n = len(compared.value)
    if not math.isfinite(factor):
        return None
    if not _explains(compared, np.full(n, factor), ENOUGH):
        return None
    return Slip(times(factor), (MISSING,), n, compared.noun)
