"""What a failing check tells a student: what was asked, what came back, what it equals, a thought.

The words of a check and of a report alike. Each text holds for itself, in this order; an empty one
has nothing to say. On a split that is not public `asked`, slips and breakdowns are left out, since
they come from comparing with single hidden values (DESIGN, section 7).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One slice of what was judged.

    `by` is what slices are cut by (GPU, batch) and `name` the slice; `count` are its runs or plans.
    `share` is its part of all the error, as a fraction. `figure` is the slice's own error as a
    fraction, and `bias` its mean signed error (above 0: predicted too high), where there is one.
    """

    by: str
    name: str
    count: int
    share: float
    figure: float | None = None
    bias: float | None = None


@dataclass(frozen=True)
class Breakdown:
    """Where an error lies: slices, those cuts first in which it is most unevenly spread.

    `unit` is what `count` counts and `figure` the name of each slice's own figure, if it has one.
    `told` is the finding in a sentence.
    """

    title: str
    unit: str
    parts: tuple[Part, ...]
    told: str = ""
    figure: str = ""

    @property
    def cuts(self) -> dict[str, tuple[Part, ...]]:
        """The slices of each cut, in the order of the parts."""
        found: dict[str, tuple[Part, ...]] = {}
        for part in self.parts:
            found[part.by] = (*found.get(part.by, ()), part)
        return found


@dataclass(frozen=True)
class Diagnosis:
    """Why a check failed, in the order a student reads it.

    `asked` is the question as a person would type it; `came_back` the answer with its unit and how
    far off it is; `equals` the known mistake or slip that all answers equal; `think` the idea to
    think about again; `breakdown` where the error lies, for checks of many answers at once.
    """

    asked: str = ""
    came_back: str = ""
    equals: str = ""
    think: str = ""
    breakdown: Breakdown | None = None

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """The label and the text of each part that has something to say, in order."""
        named = (
            ("asked", self.asked),
            ("came back", self.came_back),
            ("equals", self.equals),
            ("think about", self.think),
        )
        return tuple((label, text) for label, text in named if text)
