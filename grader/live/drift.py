"""Where a live notebook and its saved file part: what a run from a fresh kernel would not find.

Instant and without running anything: the cells as they were run are compared with the cells as
they are saved, for the names that the asked functions build on. Pure.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from grader.live.definitions import CellCode, Definition

AnyCell = TypeVar("AnyCell", "SavedCell", "RunCell")
MAX_NAMES = 5
DEFINES = re.compile(r"^((?:async )?def \w+|class \w+)\(.*")
MAX_START = 48  # characters of a cell's first line that tell it from others


@dataclass(frozen=True)
class SavedCell:
    """A code cell of the saved notebook; `index` counts all its cells from 0."""

    index: int
    source: str
    code: CellCode

    def __str__(self) -> str:
        """Name the cell as a person finds it: by how it starts."""
        return f"the cell `{first_line(self.source)}`"


@dataclass(frozen=True)
class RunCell:
    """A cell as it was run, with the number that stands beside it.

    It started no earlier than `after` and no later than `before` (Unix seconds): of a cell that
    ran before anyone took the time, no more is known.
    """

    number: int
    code: CellCode
    after: float
    before: float


@dataclass(frozen=True)
class Note:
    """One thing that a run from a fresh kernel would do otherwise, and what to do about it."""

    kind: str  # deleted, unsaved, edited, order, stale, later or not_run
    name: str
    text: str


def first_line(source: str) -> str:
    """Return how a cell starts."""
    line = next((line.strip() for line in source.splitlines() if line.strip()), "")
    line = DEFINES.sub(r"\1(…)", line)
    return line if len(line) <= MAX_START else f"{line[: MAX_START - 1]}…"


def drift(
    asked: Sequence[str],
    saved: Sequence[SavedCell],
    run: Sequence[RunCell],
    saved_at: float | None,
    missing: Collection[str] = (),
    given: Collection[str] = (),
) -> tuple[Note, ...]:
    """Return what would come out otherwise for the `asked` names, at most one note a name.

    `run` is in the order of running, `saved` in the order of the file, which was last written at
    `saved_at` (Unix seconds). `missing` are the asked names that the kernel does not have, and
    `given` the sources of cells as the course gave them: nothing is written there yet.
    """
    compared = _Compared(saved, run, saved_at)
    found = [compared.not_run(name, given) for name in asked if name in missing]
    found += [compared.note(name) for name in compared.reached(asked) if name not in missing]
    notes = [note for note in found if note is not None]
    unsaved = [f"`{note.name}`" for note in notes if note.kind == "unsaved"]
    told = [note for note in notes if note.kind != "unsaved"]
    if unsaved:
        shown = ", ".join(unsaved[:MAX_NAMES]) + (" and more" if len(unsaved) > MAX_NAMES else "")
        was = "was" if len(unsaved) == 1 else "were"
        text = (
            f"{shown} {was} changed after the notebook was last saved, and only the saved file is "
            "graded. Save it (Ctrl-S)."
        )
        told.insert(0, Note("unsaved", unsaved[0].strip("`"), text))
    return tuple(told)


class _Compared:
    def __init__(
        self, saved: Sequence[SavedCell], run: Sequence[RunCell], saved_at: float | None
    ) -> None:
        self._saved, self._run, self._saved_at = saved, run, saved_at
        self._any_name_saved = any(cell.code.opaque for cell in saved)

    def reached(self, asked: Iterable[str]) -> list[str]:
        """Return the asked names and all that they build on, as the kernel has them."""
        found: dict[str, None] = {}
        waiting = list(asked)
        while waiting:
            name = waiting.pop(0)
            if name in found:
                continue
            found[name] = None
            made = self._live(name)
            if made:
                last = made[-1][1]
                waiting += sorted(last.needs | last.calls_on)
        return list(found)

    def not_run(self, name: str, given: Collection[str]) -> Note | None:
        """Return a note on an asked name that only the file has."""
        saved = self._in_file(name)
        if not saved or saved[-1][0].source in given:
            return None
        if self._live(name):  # what was run and is gone was deleted on purpose
            return None
        text = f"`{name}` is not defined in this kernel yet: run {saved[-1][0]}."
        return Note("not_run", name, text)

    def note(self, name: str) -> Note | None:
        """Return what a fresh run would make otherwise of a name that the kernel has."""
        live, saved = self._live(name), self._in_file(name)
        if not live:  # it came from elsewhere: a module, a `%run`
            return None
        ran, now = live[-1]
        if not saved:
            return None if self._any_name_saved else self._gone(name, ran)
        cell, at_the_end = saved[-1]
        if now.code == at_the_end.code:
            return self._stale(name, ran, now, cell) or self._later(name, cell, at_the_end)
        if any(now.code == other.code for _, other in saved):
            return self._order(name, live, saved)
        return self._differs(name, ran, cell)

    # ------------------------------------------------------------ the kinds of note

    def _gone(self, name: str, ran: RunCell) -> Note:
        if self._is_newer_than_file(ran):
            return Note("unsaved", name, "")  # told for all such names at once
        return Note(
            "deleted",
            name,
            f"`{name}` lives on in this kernel, but no cell of the saved notebook defines it. "
            "Define it in a cell, or save the notebook if you just did.",
        )

    def _differs(self, name: str, ran: RunCell, cell: SavedCell) -> Note:
        if self._is_newer_than_file(ran):
            return Note("unsaved", name, "")  # told for all such names at once
        other = f"`{name}` in this kernel is not the one of the saved notebook"
        if self._saved_at is not None and ran.before <= self._saved_at:
            text = f"{other}: {cell} was changed after it was run. Run it again."
        else:
            text = f"{other}. Save it (Ctrl-S), or if you changed {cell} since, run that again."
        return Note("edited", name, text)

    def _order(
        self,
        name: str,
        live: list[tuple[RunCell, Definition]],
        saved: list[tuple[SavedCell, Definition]],
    ) -> Note:
        _, now = live[-1]
        last, at_the_end = saved[-1]
        current = next(cell for cell, made in saved if made.code == now.code)
        if any(made.code == at_the_end.code for _, made in live):
            why = f"{current} was run after {last}, which stands below it"
        else:
            why = f"{last} sets it once more, further down, and was not run"
        return Note(
            "order",
            name,
            f"`{name}` has another value from the top: {why}. Run the cells in order.",
        )

    def _stale(self, name: str, ran: RunCell, now: Definition, cell: SavedCell) -> Note | None:
        for other in self._built_on(now, self._live):
            made = self._live(other)
            before = [one for one in made if one[0].number <= ran.number]
            if before and made[-1][1].code != before[-1][1].code:
                return Note(
                    "stale",
                    name,
                    f"`{name}` was made before `{other}` was last changed. Run {cell} again.",
                )
        return None

    def _later(self, name: str, cell: SavedCell, made: Definition) -> Note | None:
        for other in self._built_on(made, self._in_file):
            cells = self._in_file(other)
            if hasattr(builtins, other) or self._any_name_saved:
                continue
            if cells and cells[0][0].index > cell.index:
                return Note(
                    "later",
                    name,
                    f"from the top, {cell} stops with an error: it uses `{other}`, which only "
                    f"{cells[0][0]} further down defines. Move that one up.",
                )
        return None

    # ------------------------------------------------------------ looking up

    def _live(self, name: str) -> list[tuple[RunCell, Definition]]:
        return list(_of(name, self._run))

    def _in_file(self, name: str) -> list[tuple[SavedCell, Definition]]:
        return list(_of(name, self._saved))

    def _built_on(
        self, made: Definition, look_up: Callable[[str], Sequence[tuple[object, Definition]]]
    ) -> list[str]:
        """Return the names that running a definition reads, through the functions it calls."""
        found: dict[str, None] = {}
        waiting = sorted(made.needs)
        while waiting:
            name = waiting.pop(0)
            if name in found or name == made.name:
                continue
            found[name] = None
            others = look_up(name)
            if others:
                waiting += sorted(others[-1][1].calls_on)
        return list(found)

    def _is_newer_than_file(self, ran: RunCell) -> bool:
        return self._saved_at is not None and ran.after > self._saved_at


def _of(name: str, cells: Sequence[AnyCell]) -> Iterator[tuple[AnyCell, Definition]]:
    for cell in cells:
        made = cell.code.definitions.get(name)
        if made is not None:
            yield cell, made
