"""Where a class stands: every student's final points in every milestone, and the total."""

from __future__ import annotations

from dataclasses import dataclass

from grader.gradebook.book import ClassRecord
from grader.gradebook.points import Final, Total, final_points, total_points
from grader.gradebook.rules import Rules


@dataclass(frozen=True)
class Standing:
    """One student's final points by milestone, and the total."""

    student: str
    finals: dict[str, Final]
    total: Total


def standings(record: ClassRecord, rules: Rules) -> list[Standing]:
    """Return a standing a student, sorted by name."""
    found = []
    for student in record.students:
        finals = {
            slug: final_points(record.entries[student, slug], rules.for_student(student, slug))
            for slug in record.slugs
        }
        weights = [
            rules.weight(slug, final.points_max or final.bonus_max)
            for slug, final in finals.items()
        ]
        total = total_points(list(finals.values()), weights, rules.rounding, rules.bonus_cap)
        found.append(Standing(student, finals, total))
    return found


def strangers(record: ClassRecord, rules: Rules) -> list[str]:
    """Return the students whom an extension names and the gradebook does not know."""
    named = {extension.student for extension in rules.extensions}
    return sorted(named - set(record.students))
