"""Points given by hand: merged whole or not at all, and the same file twice changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from grader.errors import BadInputError
from grader.gradebook.book import Book, history, open_book, read_class
from grader.gradebook.manual import Merged, merge_marks, read_marks, read_rubric
from grader.gradebook.points import final_points
from grader.gradebook.rules import MilestoneRules
from tests.grader.gradebook import M7, MONDAY, graded, write

RUBRIC = (
    "criterion,points_max,sentence,bonus\n"
    "assumptions,3,States what it assumes.,\n"
    "trade-off,2,Weighs cost against latency.,false\n"
    "beauty,1,Is a joy to read.,true\n"
)
MARKS = (
    "student,criterion,points,comment,author\n"
    'ann,assumptions,2.5,"clear, short",T. Eacher\n'
    "ann,trade-off,2,,T. Eacher\n"
    "'=HYPERLINK(1),assumptions,3,,T. Eacher\n"
)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    with open_book(tmp_path / "book.sqlite", create=True) as opened:
        write(opened, [(graded(name, slug=M7), MONDAY) for name in ("ann", "=HYPERLINK(1)")])
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def merge(
    book: Book, folder: Path, marks: str = MARKS, rubric: str = RUBRIC, day: int = 0
) -> Merged:
    (folder / "marks.csv").write_text(marks, encoding="utf-8")
    (folder / "rubric.csv").write_text(rubric, encoding="utf-8")
    return merge_marks(
        book, M7, read_rubric(folder / "rubric.csv"), read_marks(folder / "marks.csv"),
        name="marks.csv", now=lambda: MONDAY + timedelta(days=day),
    )  # fmt: skip


def points(book: Book, student: str) -> Decimal | None:
    return final_points(read_class(book).entries[student, M7], MilestoneRules()).points


def test_marks_count_once_all_that_is_no_bonus_is_marked(book: Book, folder: Path) -> None:
    assert points(book, "ann") == 15
    assert merge(book, folder) == Merged(new=3, changed=0, same=0)
    assert points(book, "ann") == Decimal("19.5")
    assert points(book, "=HYPERLINK(1)") is None, "its trade-off is not marked"


def test_the_same_file_twice_changes_nothing(book: Book, folder: Path) -> None:
    merge(book, folder)
    before = (read_class(book), history(book))
    assert merge(book, folder, day=1) == Merged(new=0, changed=0, same=3)
    assert (read_class(book), history(book)) == before


def test_a_changed_mark_is_in_the_history(book: Book, folder: Path) -> None:
    merge(book, folder)
    changed = MARKS.replace('2.5,"clear, short",T. Eacher', "3,on a second look,A. Other")
    assert merge(book, folder, changed, day=1) == Merged(new=0, changed=1, same=2)
    assert points(book, "ann") == 20
    last = history(book, "ann", M7)[-1]
    assert (last.part, last.before, last.after) == (
        "assumptions", "2.5 by T. Eacher", "3 by A. Other",
    )  # fmt: skip


def test_a_mark_below_zero_or_for_nobody_is_told_with_its_row_and_nothing_is_written(
    book: Book, folder: Path
) -> None:
    marks = MARKS + "bob,assumptions,1,,T\nann,style,1,,T\n\nann,beauty,1.5,,T\nann,beauty,-1,,T\n"
    with pytest.raises(BadInputError) as refused:
        merge(book, folder, marks)
    assert str(refused.value).splitlines() == [
        "marks.csv: row 5: there is no student 'bob' in the gradebook",
        "marks.csv: row 6: there is no criterion 'style'; there are assumptions, trade-off, beauty",
        "marks.csv: row 8: 1.5 points for 'beauty', which has 0 to 1",
        "marks.csv: row 9: -1 points for 'beauty', which has 0 to 1",
        "marks.csv: row 9: 'ann' has points for 'beauty' in row 8 already",
    ]
    assert points(book, "ann") == 15
    assert history(book) == []


def test_what_cannot_be_read_is_told_with_its_row(folder: Path) -> None:
    (folder / "marks.csv").write_text(
        "student,criterion,points,comment,author\n"
        "ann,assumptions,many,,T\n"
        "ann,assumptions,nan,,T\n"
        '"ann",assumptions,2,"two\nlines",T\n'
        ",assumptions,1,,\n"
    )
    with pytest.raises(BadInputError) as refused:
        read_marks(folder / "marks.csv")
    told = [line.partition("marks.csv: ")[2] for line in str(refused.value).splitlines()]
    assert told == [
        "row 2: points 'many' is no number",
        "row 3: points 'nan' is no number",
        "row 5: student is empty",
        "row 5: author is empty",
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("student,criterion,points,coment,author\n", "must name the columns"),
        ("student,criterion,points,comment\n", "must name the columns"),
        ("", "it names nothing"),
        ("student,criterion,points,comment,author\nann,a,1,x\n", "row 2: has 4 cells, not 5"),
    ],
)
def test_a_table_of_other_columns_is_refused(content: str, said: str, folder: Path) -> None:
    (folder / "marks.csv").write_text(content)
    with pytest.raises(BadInputError, match=said):
        read_marks(folder / "marks.csv")


def test_a_table_as_a_german_spreadsheet_saves_it_is_read(folder: Path) -> None:
    text = "Student;Criterion;Points;Comment;Author\r\nBjørn;a;2,5;gut, kurz;T\r\n"
    (folder / "marks.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (mark,) = read_marks(folder / "marks.csv")
    assert (mark.student, mark.points, mark.comment) == ("Bjørn", Decimal("2.5"), "gut, kurz")
    (folder / "marks.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInputError, match="is not UTF-8"):
        read_marks(folder / "marks.csv")


def test_a_rubric_may_be_toml(folder: Path) -> None:
    (folder / "rubric.toml").write_text(
        '[[criterion]]\ncriterion = "a"\npoints_max = 2.5\nsentence = "S."\n'
        '[[criterion]]\ncriterion = "b"\npoints_max = 1\nsentence = ""\nbonus = true\n'
    )
    first, second = read_rubric(folder / "rubric.toml")
    assert (first.name, first.points_max, first.bonus) == ("a", Decimal("2.5"), False)
    assert second.bonus


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("criterion,points_max,sentence\na,2,\na,3,\n", "row 3: criterion 'a' stands there twice"),
        ("criterion,points_max,sentence\na,many,\n", "row 2: points_max"),
        ("criterion,points_max,sentence\na,0,\n", "row 2: points_max"),
        ("criterion,points_max,sentence\n,2,\n", "row 2: criterion"),
        ("criterion,points_max,sentence\n", "holds no criterion"),
    ],
)
def test_a_faulty_rubric_is_told_with_its_row(content: str, said: str, folder: Path) -> None:
    (folder / "rubric.csv").write_text(content)
    with pytest.raises(BadInputError, match=said):
        read_rubric(folder / "rubric.csv")


def test_a_rubric_cannot_take_away_what_was_given_by_it(book: Book, folder: Path) -> None:
    merge(book, folder)
    smaller = RUBRIC.replace("assumptions,3", "assumptions,2").replace("trade-off", "weighing")
    with pytest.raises(BadInputError) as refused:
        merge(book, folder, "student,criterion,points,comment,author\n", smaller)
    assert str(refused.value).splitlines() == [
        "the rubric has no criterion 'trade-off', for which the gradebook holds points already; "
        "keep it",
        "=HYPERLINK(1) has 3 points for 'assumptions' already, more than the rubric gives",
        "ann has 2.5 points for 'assumptions' already, more than the rubric gives",
    ]
    assert points(book, "ann") == Decimal("19.5")
