"""Where a figure lies beside its bar: which side is the good one, and what of the axis is shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

SHOWN = 2.5  # times what the bar allows: beyond it a figure is drawn at the edge


@dataclass(frozen=True)
class Scale:
    """An axis that runs from the best figure to beyond the bar.

    A bar above one half and at most 1 is one to reach, on a scale that ends at 1 (R², a share of
    plans); any other is one to keep below: an error, or a cost ratio, which is 1 at best.
    """

    bar: float
    best: float

    @classmethod
    def of(cls, bar: float) -> Self:
        """Return the scale of a bar."""
        return cls(bar, 1.0 if bar > 0.5 else 0.0)

    @property
    def at_least(self) -> bool:
        """Whether the bar is one to reach."""
        return self.best >= self.bar

    def at(self, figure: float) -> float:
        """Return where a figure stands: 0 the best, 1 the end of what is shown; within both."""
        shown = (self.bar - self.best) * SHOWN
        return min(1.0, max(0.0, (figure - self.best) / shown)) if shown else 0.0

    def beyond(self, figure: float) -> bool:
        """Whether a figure is too far off to be drawn where it lies."""
        return abs(figure - self.best) > abs(self.bar - self.best) * SHOWN

    def inside(self, figure: float) -> bool:
        """Whether a figure keeps its bar."""
        return figure >= self.bar if self.at_least else figure <= self.bar

    @property
    def words(self) -> str:
        """The bar as a person says it."""
        return f"at {'least' if self.at_least else 'most'} {self.bar:g}"
