"""A named mistake: a wrong edit of the solved notebook, the check that catches it, its hint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One change to one exercise: `old` becomes `new`, everywhere it stands in the source."""

    function: str
    old: str
    new: str

    def apply(self, source: str) -> str:
        """Return the edited source.

        Raises:
            ValueError: `old` does not stand in it, so the mistake has lost touch with the lesson.
        """
        if self.old not in source:
            raise ValueError(f"{self.function} no longer holds {self.old!r}")
        return source.replace(self.old, self.new)


@dataclass(frozen=True)
class NamedMistake:
    """A mistake that people make.

    `caught_by` is the check that must fail on it, and whose failure shows `hint`; `also` are the
    checks that may fail beside it. Any other check must pass.
    """

    name: str
    edits: tuple[Edit, ...]
    caught_by: str
    hint: str
    also: tuple[str, ...] = ()

    @property
    def checks(self) -> tuple[str, ...]:
        """Every check that this mistake may fail."""
        return (self.caught_by, *self.also)
