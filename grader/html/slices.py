"""Where an error lies, as a page shows it: tables of slices, with a bar for each."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from grader.html.charts import slice_bar
from grader.told import bias_told
from milestones.diagnosis import Breakdown, Part

FIRST_CUTS = 2  # shown at once, those in which the error is most uneven; the rest on demand
SAME = 0.005  # shares that read the same in whole per cent


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
    """A breakdown: what it found, the tables shown at once, and those shown on demand.

    It is `marked` where a slice's share of the error says other than its share of the count.
    """

    title: str
    told: str
    unit: str
    figure: str
    first: tuple[ShownCut, ...]
    rest: tuple[ShownCut, ...]
    marked: bool

    @classmethod
    def of(cls, breakdown: Breakdown) -> ShownBreakdown:
        """Return the breakdown as a page shows it."""
        marked = any(
            abs(part.share - _of_count(part, parts)) > SAME
            for parts in breakdown.cuts.values()
            for part in parts
        )
        cuts = [
            ShownCut(by, tuple(_slice(part, parts, marked=marked) for part in parts))
            for by, parts in breakdown.cuts.items()
        ]
        return cls(
            breakdown.title,
            breakdown.told,
            breakdown.unit,
            breakdown.figure,
            tuple(cuts[:FIRST_CUTS]),
            tuple(cuts[FIRST_CUTS:]),
            marked,
        )


def _of_count(part: Part, parts: tuple[Part, ...]) -> float:
    return part.count / sum(one.count for one in parts)


def _slice(part: Part, parts: tuple[Part, ...], *, marked: bool) -> ShownSlice:
    figure = "" if part.figure is None else f"{part.figure:.3f}"
    bar = slice_bar(part.share, _of_count(part, parts) if marked else None)
    return ShownSlice(
        part.name, f"{part.count:,}", figure, bias_told(part), f"{part.share:.0%}", bar
    )
