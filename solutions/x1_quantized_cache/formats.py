"""What numbers become in few bits, worked out in fractions: nothing is rounded but what must be.

A second formulation of what the lesson does with arrays: here the values of a format are walked
through one after the other, and what shares a scale is a list of places.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

Scheme = dict[str, Any]
"""How keys or values are held: `format`, and what it needs."""
HALF = Fraction(1, 2)


# ---------------------------------------------------------------- FP8


@dataclass(frozen=True)
class Fp8:
    """An 8-bit float: its smallest step, codes in a stretch of equal steps, and finite codes.

    The codes from 0 up stand for growing values. Two stretches have the smallest step (the
    subnormal numbers and those above them); from then on each stretch doubles it.
    """

    smallest: Fraction
    stretch: int
    n_finite: int
    has_infinity: bool

    @property
    def values(self) -> tuple[Fraction, ...]:
        """The values of the finite codes without a sign, in order."""
        return _walk(self)

    @property
    def largest(self) -> Fraction:
        """The largest number."""
        return self.values[-1]

    def value(self, code: int) -> float:
        """Return what a code of 0 to 255 stands for."""
        sign, rest = (-1.0 if code >= 128 else 1.0), code % 128
        if rest < self.n_finite:
            return sign * float(self.values[rest])
        infinite = self.has_infinity and rest == self.n_finite
        return sign * math.inf if infinite else math.nan

    def code(self, x: float) -> int:
        """Return the nearest value's code: of a tie the even one, of what is too large the last."""
        return self._place(x)[0]

    def margin(self, x: float) -> Fraction:
        """Return how far x is from the nearest tie, in steps; 1/2 beyond the largest number."""
        return self._place(x)[1]

    def _place(self, x: float) -> tuple[int, Fraction]:
        size = min(Fraction(abs(x)), self.largest)
        sign = 128 if math.copysign(1.0, x) < 0 else 0
        above = bisect_left(self.values, size)
        if self.values[above] == size:
            return sign + above, HALF
        below = above - 1
        way = (size - self.values[below]) / (self.values[above] - self.values[below])
        even = below if below % 2 == 0 else above
        nearest = even if way == HALF else below if way < HALF else above
        return sign + nearest, abs(way - HALF)


@cache
def _walk(form: Fp8) -> tuple[Fraction, ...]:
    values, step = [Fraction(0)], form.smallest
    while len(values) < form.n_finite:
        reached = len(values) - 1
        if reached >= 2 * form.stretch and reached % form.stretch == 0:
            step *= 2
        values.append(values[-1] + step)
    return tuple(values)


FP8 = {
    # 8 codes a stretch; the last of the 128 is NaN
    "e4m3": Fp8(Fraction(1, 2**9), 8, 127, has_infinity=False),
    # 4 codes a stretch; the last four are infinity and NaN
    "e5m2": Fp8(Fraction(1, 2**16), 4, 124, has_infinity=True),
}


# ---------------------------------------------------------------- whole numbers with a scale


def sharing(shape: Sequence[int], scheme: Scheme) -> list[np.ndarray]:
    """Return the places, in the flat array, of the numbers that share a scale, for each scale."""
    n_tokens, n_heads, size = shape
    place = np.arange(n_tokens * n_heads * size).reshape(n_tokens, n_heads, size)
    heads = range(n_heads)
    match scheme:
        case {"format": "int", "share": "tensor"}:
            return [place.ravel()]
        case {"format": "int", "share": "token"}:
            return [place[t, h] for t in range(n_tokens) for h in heads]
        case {"format": "int", "share": "channel"}:
            return [place[:, h, c] for h in heads for c in range(size)]
        case {"format": "groups", "along": "tokens", "group": group}:
            starts = range(0, n_tokens - group + 1, group)
            return [place[a : a + group, h, c] for a in starts for h in heads for c in range(size)]
        case {"format": "groups", "along": "channels", "group": group}:
            starts = range(0, size - group + 1, group)
            return [
                place[t, h, a : a + group] for t in range(n_tokens) for h in heads for a in starts
            ]
    raise ValueError(f"no scales in {scheme}")


@dataclass(frozen=True)
class Through:
    """Numbers that went through a scheme: their codes (NaN where none), and what comes back.

    `margin` is how far the nearest to a tie is from it, in steps; `step` the smallest step.
    """

    codes: np.ndarray
    seen: np.ndarray
    margin: float
    step: float


def through(x: np.ndarray, scheme: Scheme) -> Through:
    """Send numbers through a scheme, in fractions."""
    flat = x.ravel()
    codes, seen = np.full(flat.shape, np.nan), flat.astype(np.float64)
    margins, steps = [HALF], [Fraction(1)]
    if scheme["format"] in FP8:
        form = FP8[scheme["format"]]
        codes = np.array([form.code(number) for number in flat], dtype=np.float64)
        seen = np.array([form.value(int(code)) for code in codes])
        margins += [form.margin(number) for number in flat]
    elif scheme["format"] != "16 bits":
        for places in sharing(x.shape, scheme):
            numbers = [Fraction(float(number)) for number in flat[places]]
            zero, step = _zero_and_step(numbers, scheme)
            ways = [(number - zero) / step if step else Fraction(0) for number in numbers]
            wholes = [round(way) for way in ways]  # a tie to the even one
            codes[places] = wholes
            seen[places] = [float(zero + whole * step) for whole in wholes]
            margins += [abs(way - math.floor(way) - HALF) for way in ways]
            steps += [step] if step else []
    return Through(
        codes.reshape(x.shape), seen.reshape(x.shape), float(min(margins)), float(min(steps))
    )


def _zero_and_step(numbers: Sequence[Fraction], scheme: Scheme) -> tuple[Fraction, Fraction]:
    """Return what code 0 stands for, and how far codes lie apart."""
    codes = 2 ** scheme["bits"]
    if scheme["format"] == "int":
        return Fraction(0), max(map(abs, numbers)) / (codes // 2 - 1)
    return min(numbers), (max(numbers) - min(numbers)) / (codes - 1)


def in_double(
    scheme: Scheme, margins: list[float] | None = None
) -> Callable[[np.ndarray], np.ndarray]:
    """Return what sends an array through a scheme in double precision, for a model to run on.

    What it is given joins `margins`: how far, in steps, the nearest number lies from a tie.
    """

    def seen(x: np.ndarray) -> np.ndarray:
        if scheme["format"] == "16 bits":
            return x
        flat = x.ravel()
        back = flat.copy()
        for places in sharing(x.shape, scheme):
            numbers = flat[places]
            symmetric = scheme["format"] == "int"
            zero = 0.0 if symmetric else numbers.min()
            reach = np.abs(numbers - zero).max()
            step = reach / (2 ** (scheme["bits"] - symmetric) - 1)
            ways = (numbers - zero) / step
            back[places] = np.floor(ways + 0.5) * step + zero
            if margins is not None:
                margins.append(float(np.abs(ways - np.floor(ways) - 0.5).min()))
        return back.reshape(x.shape)

    return seen


# ---------------------------------------------------------------- bits


def bits_of(n_tokens: int, n_heads: int, size: int, scheme: Scheme) -> int:
    """Return the bits of one layer's keys or values: each number's own, then what is shared."""
    numbers = n_tokens * n_heads * size
    if scheme["format"] in FP8:
        return 8 * numbers
    if scheme["format"] == "16 bits":
        return 16 * numbers
    bits: int = scheme["bits"]
    if scheme["format"] == "int":
        sharers = {"tensor": numbers, "token": size, "channel": n_tokens}[scheme["share"]]
        return bits * numbers + 16 * (numbers // sharers)
    length = n_tokens if scheme["along"] == "tokens" else size
    group: int = scheme["group"]
    waiting = numbers // length * (length % group)
    grouped = numbers - waiting
    return bits * grouped + 2 * 16 * (grouped // group) + 16 * waiting
