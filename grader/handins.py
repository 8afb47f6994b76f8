"""What a class handed in: one notebook a student and milestone, read when its turn comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from grader.errors import BadInputError
from grader.layouts import students

MAX_NAME = 80  # characters of a student's name in a file's name
MAX_NAME_BYTES = 200  # file systems take 255; a hash, `.html` and `.unfinished` may follow
PLAIN = " -_.@()+,="


@dataclass(frozen=True, slots=True)
class HandIn:
    """One student's notebook for one milestone.

    `content` reads it: None where nothing was handed in, or where `fault` says why what is there is
    not read. `handed_in_at` is when, as far as the files tell. `unnamed` are this student's
    notebooks of no milestone's name: one that was meant for a milestone may be among them.
    """

    student: str
    slug: str
    content: Callable[[], bytes] | None = None
    handed_in_at: datetime | None = None
    fault: str | None = None
    unnamed: tuple[str, ...] = ()

    @property
    def missing(self) -> bool:
        """Whether nothing was handed in."""
        return self.content is None and self.fault is None

    def read(self) -> bytes:
        """Return the notebook's bytes.

        Raises:
            BadInputError: they cannot be read; the message says why and what to do.
        """
        if self.fault is not None or self.content is None:
            raise BadInputError(self.fault or "nothing was handed in")
        return self.content()


def find_hand_ins(
    submissions: Path, slugs: Sequence[str], beyond: Sequence[str] = ()
) -> list[HandIn]:
    """Return a hand-in for every student and milestone, sorted, those not handed in included.

    Of milestones `beyond` those, which nobody has to hand in, only what was handed in.

    Raises:
        BadInputError: there is no such folder or archive, or no hand-in in it.
    """
    found = []
    for student in students(submissions, (*slugs, *beyond)):
        for slug in (*slugs, *(slug for slug in beyond if slug in student.notebooks)):
            member = student.notebooks.get(slug)
            if member is None:  # what could not be looked into may hold any milestone
                one = HandIn(student.name, slug, fault=student.fault, unnamed=student.unnamed)
            else:
                one = HandIn(
                    student.name, slug, content=member.read, handed_in_at=member.handed_in_at,
                    fault=member.fault, unnamed=student.unnamed,
                )  # fmt: skip
            found.append(one)
    return found


def file_stem(student: str) -> str:
    """Return the name of a student's files: no path, nothing hidden, and no other student's."""
    last = len(student) - 1
    kept = "".join(
        # a dot or a space is no first or last character: it hides, or Windows drops it
        c if c.isalnum() or (c in PLAIN and not (c in " ." and i in (0, last))) else _escaped(c)
        for i, c in enumerate(student)
    )
    # A letter takes up to four bytes: one student's name must not cost a class its files.
    short = kept[:MAX_NAME].encode()[:MAX_NAME_BYTES].decode(errors="ignore")
    if short != kept:
        return f"{short}~{sha256(student.encode()).hexdigest()[:16]}"
    return kept or "%"


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
