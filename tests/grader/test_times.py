"""Times of handing in from the LMS: they count in place of the files', row by row or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner

from grader.errors import BadInputError
from grader.gradebook.book import Book, open_book, read_class
from grader.gradebook.points import final_points
from grader.gradebook.rules import Due, Late, MilestoneRules
from grader.gradebook.times import read_times, with_times
from grader.gradebook_cli import gradebook
from tests.grader.gradebook import M2, M7, MONDAY, graded, write

BERLIN = ZoneInfo("Europe/Berlin")
HEADER = "student,milestone,handed_in_at\n"
LATE = MilestoneRules(
    Due(MONDAY, BERLIN), late=Late(points_per_day=Decimal(1), cut_off_days=3)
)  # noon UTC is 14:00 in Berlin


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with open_book(tmp_path / "book.sqlite", create=True) as opened:
        write(
            opened,
            [
                (graded("ann"), MONDAY + timedelta(days=30)),  # the time of the download
                (graded("bob"), MONDAY - timedelta(days=1)),
                (graded("eve", notebook="one"), MONDAY + timedelta(days=1)),
                (graded("eve", [5, 5, 5], notebook="two"), MONDAY + timedelta(days=2)),
            ],
        )
        yield opened


def points(book: Book, tmp_path: Path, rows: str, student: str, header: str = HEADER) -> str:
    """Return a student's final points with such times, and how they came about."""
    file = tmp_path / "times.csv"
    file.write_text(header + rows, encoding="utf-8")
    record = with_times(read_class(book), read_times(file, BERLIN), name="times.csv")
    final = final_points(record.entries[student, M2], LATE)
    return f"{final.points}: {'; '.join(final.lines)}"


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2026-10-05 14:00:00", "15.00: 15 of 15"),  # of the rules' zone, to the second
        ("2026-10-05 14:00:01", "14.00:"),
        ("2026-10-05T12:00:00Z", "15.00: 15 of 15"),
        ("2026-10-05T12:00:01+00:00", "14.00:"),
        ("2026-10-08 14:00:00", "12.00:"),  # the third day counts
        ("2026-10-08 14:00:01", "0.00:"),  # and the fourth does not
    ],
)
def test_the_time_of_the_lms_counts_to_the_second(
    book: Book, tmp_path: Path, at: str, expected: str
) -> None:
    found = points(book, tmp_path, f"ann,m2,{at}\n", "ann")
    assert found.startswith(expected)
    assert ("nothing counts after 3 days" in found) == expected.startswith("0.00")


def test_who_is_in_no_row_keeps_the_time_of_the_file(book: Book, tmp_path: Path) -> None:
    assert points(book, tmp_path, "ann,2,2026-10-05 12:00\n", "bob").startswith("15.00:")
    assert points(book, tmp_path, "bob,2,2026-10-05 12:00\n", "ann").startswith("0.00:")


def test_of_several_attempts_the_row_names_its_notebook(book: Book, tmp_path: Path) -> None:
    header = HEADER.strip() + ",notebook_sha256\n"
    first, second = read_class(book).entries["eve", M2].attempts
    rows = f"eve,m2,2026-10-09 12:00,{first.notebook_sha256[:12]}\n"
    rows += f"eve,m2,2026-10-04 12:00,{second.notebook_sha256}\n"
    found = points(book, tmp_path, rows, "eve", header)
    assert found.startswith("15.00: attempt 1 of 2 counts, the best")  # and they are numbered anew


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("ann,m2,yesterday\n", "row 2: 'yesterday' is no time"),
        ("ann,m2,2026-10-05\n", "row 2: '2026-10-05' is a day without a time"),
        ("ann,m2,2026-10-25 02:30\n", "row 2: 2026-10-25T02:30:00 happens twice in Europe/Berlin"),
        ("ann,m99,2026-10-05 12:00\n", "row 2: "),
        ("zoe,m2,2026-10-05 12:00\n", "row 2: the gradebook holds no 'zoe'"),
        ("ann,m7,2026-10-05 12:00\n", f"row 2: the gradebook holds no {M7}"),
        (
            "eve,m2,2026-10-05 12:00\n",
            "row 2: 'eve' has 2 attempts; add the column notebook_sha256",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_told_with_its_number(
    book: Book, tmp_path: Path, rows: str, said: str
) -> None:
    with pytest.raises(BadInputError) as caught:
        points(book, tmp_path, f"{rows}bob,m2,never\n" if "yesterday" in rows else rows, "ann")
    assert said in str(caught.value)
    assert ("row 3: 'never' is no time" in str(caught.value)) == ("yesterday" in rows)


def test_a_beginning_that_fits_no_attempt_or_any_is_refused(book: Book, tmp_path: Path) -> None:
    header = HEADER.strip() + ",notebook_sha256\n"
    with pytest.raises(BadInputError, match="needs at least 8 characters"):
        points(book, tmp_path, "eve,m2,2026-10-05 12:00,ab\n", "eve", header)
    with pytest.raises(BadInputError, match="'eve' has not handed in this notebook"):
        points(book, tmp_path, f"eve,m2,2026-10-05 12:00,{'f' * 64}\n", "eve", header)


def test_the_commands_take_times_and_the_zone_of_the_rules(book: Book, tmp_path: Path) -> None:
    assert book.engine.url.database is not None
    (tmp_path / "rules.toml").write_text(
        'timezone = "Europe/Berlin"\n[late]\npoints_per_day = 1\n'
        "[milestone.m2_kv_bytes]\ndeadline = 2026-10-05T14:00:00\n"
    )
    (tmp_path / "times.csv").write_text(HEADER + "ann,m2,2026-10-06 14:00:00\n")
    command = ["explain", book.engine.url.database, "ann", "--rules", str(tmp_path / "rules.toml")]
    run = CliRunner().invoke(gradebook, [*command, "--times", str(tmp_path / "times.csv")])
    assert run.exit_code == 0
    assert "1 day late: -1 = 14" in run.output
    without = CliRunner().invoke(gradebook, command)
    assert "30 days late" in without.output
    assert datetime(2026, 10, 5, 12, tzinfo=UTC) == MONDAY
