"""Who a student of the gradebook is in an LMS: a row of the roster that the LMS exported."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.errors import BadInputError

# Columns that name one person, and no other, in what Canvas and Moodle export.
IDENTIFIERS = (
    "id",
    "sis user id",
    "sis login id",
    "integration id",
    "id number",
    "idnumber",
    "username",
    "email address",
    "email",
)
NAMES = ("student", "full name")
FIRST, LAST = ("first name", "firstname"), ("surname", "last name", "lastname")
NUMBERED = re.compile(r"^(?P<name>.+) \((?P<number>\d+)\)$")  # as a download of Canvas is read


@dataclass(frozen=True)
class Person:
    """One row of a roster, by column."""

    cells: Mapping[str, str]

    def get(self, *columns: str) -> str:
        """Return the first of these columns that is there and filled."""
        lowered = {name.strip().lower(): value for name, value in self.cells.items()}
        return next((lowered[c].strip() for c in columns if lowered.get(c, "").strip()), "")

    def identifiers(self) -> Iterator[str]:
        """Yield what names this person alone."""
        for column in IDENTIFIERS:
            if value := self.get(column):
                yield _plain(value)

    def names(self) -> Iterator[str]:
        """Yield what this person is called, which two may share."""
        for column in NAMES:
            if value := self.get(column):
                yield _plain(value)
                last, comma, first = value.partition(",")
                if comma:
                    yield _plain(f"{first.strip()} {last.strip()}")
                    yield _plain(f"{last}{first}".replace(" ", ""))
        first, last = self.get(*FIRST), self.get(*LAST)
        if first or last:
            yield _plain(f"{first} {last}".strip())


@dataclass(frozen=True)
class Roster:
    """What an LMS exported: its columns and its people."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    people: tuple[Person, ...]

    def matched(self, students: Sequence[str]) -> tuple[dict[str, Person], list[str]]:
        """Return each student's row, and a sentence for each who has none or several.

        An identifier goes before a name; a name that two people share is nobody's.
        """
        by_id: dict[str, set[int]] = defaultdict(set)
        by_name: dict[str, set[int]] = defaultdict(set)
        for position, person in enumerate(self.people):
            for value in person.identifiers():
                by_id[value].add(position)
            for value in person.names():
                by_name[value].add(position)
        found: dict[str, Person] = {}
        taken: dict[int, str] = {}
        remarks = []
        for student in students:
            candidates = _first_hit(student, by_id, by_name)
            if len(candidates) != 1:
                why = "is nobody in" if not candidates else "may be several people in"
                remarks.append(f"{student}: {why} the roster; left out")
                continue
            (position,) = candidates
            if position in taken:
                remarks.append(f"{student}: is the same person as {taken[position]}; left out")
                continue
            taken[position] = student
            found[student] = self.people[position]
        return found, remarks


def _first_hit(
    student: str, by_id: Mapping[str, set[int]], by_name: Mapping[str, set[int]]
) -> set[int]:
    numbered = NUMBERED.match(student)
    name = numbered["name"] if numbered else student
    ids = [numbered["number"]] if numbered else []
    for table, keys in ((by_id, [student, *ids]), (by_name, [student, name])):
        for key in keys:
            if hit := table.get(_plain(key)):
                return hit
    return set()


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip().casefold()


def read_roster(path: Path) -> Roster:
    """Read the CSV that an LMS exported.

    Raises:
        BadInputError: it cannot be read, or holds nobody.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInputError(
            f"{path}: is not UTF-8; export it again, not by a spreadsheet"
        ) from None
    head = text.partition("\n")[0]
    delimiter = max(",;\t", key=head.count)
    try:
        header, *rows = csv.reader(text.splitlines(keepends=True), delimiter=delimiter)
    except (ValueError, csv.Error):
        raise BadInputError(f"{path}: is no CSV with a header and rows") from None
    people = tuple(_people(header, rows))
    if not people:
        raise BadInputError(f"{path}: names nobody; export the gradebook with its students")
    return Roster(tuple(header), tuple(map(tuple, rows)), people)


def _people(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[Person]:
    for row in rows:
        person = Person(dict(zip(header, row, strict=False)))
        if next(person.identifiers(), None) or (
            # Canvas's second and third row describe assignments, and name no one
            any(person.names()) and "points possible" not in row[0].lower()
        ):
            yield person
