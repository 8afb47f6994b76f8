"""Where an error lies, as a page shows it: tables of slices, with a bar for each."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from grader.html.charts import slice_bar
from grader.told import bias_told
from milestones.diagnosis import Breakdown, Part

FIRST_CUTS = 2  # shown at once, those in which the error is most uneven; the rest on demand


@dataclass(frozen=True)
class ShownSlice:
    """A row of a table of slices."""

    name: str
    count: str
    figure: str
    bias: str
    share: str
    bar: Markup


@dataclass(frozen=True)
class ShownCut:
    """One table of slices."""

    by: str
    slices: tuple[ShownSlice, ...]


@dataclass(frozen=True)
class ShownBreakdown:
    """A breakdown: what it found, the tables shown at once, and those shown on demand."""

    title: str
    told: str
    unit: str
    figure: str
    first: tuple[ShownCut, ...]
    rest: tuple[ShownCut, ...]

    @classmethod
    def of(cls, breakdown: Breakdown) -> ShownBreakdown:
        """Return the breakdown as a page shows it."""
        cuts = [
            ShownCut(by, tuple(_slice(part, parts) for part in parts))
            for by, parts in breakdown.cuts.items()
        ]
        return cls(
            breakdown.title,
            breakdown.told,
            breakdown.unit,
            breakdown.figure,
            tuple(cuts[:FIRST_CUTS]),
            tuple(cuts[FIRST_CUTS:]),
        )


def _slice(part: Part, parts: tuple[Part, ...]) -> ShownSlice:
    of_count = part.count / sum(one.count for one in parts)
    figure = "" if part.figure is None else f"{part.figure:.3f}"
    bar = slice_bar(part.share, of_count)
    return ShownSlice(
        part.name, f"{part.count:,}", figure, bias_told(part), f"{part.share:.0%}", bar
    )
