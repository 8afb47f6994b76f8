"""Whatever lies in a class's folder, each student has one row a milestone, and no cell is run."""

from __future__ import annotations

import csv
import io
import os
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grader.errors import BadInputError
from grader.handins import HandIn, file_stem, find_hand_ins
from grader.outputs import FORMULA_STARTS, table
from tests.grader.fuzz import fuzzed, texts

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="names of any bytes, links and pipes, as Linux has them"
)

SLUGS = ("m2_kv_bytes", "m3_concurrency")
SECRET = b"what a link could lead to"

# ---------------------------------------------------------------- what lies in the folder


def as_notebook(path: Path, content: bytes) -> None:
    path.mkdir()
    (path / f"{SLUGS[0]}.ipynb").write_bytes(content)


def as_folder_for_notebook(path: Path, _content: bytes) -> None:
    (path / f"{SLUGS[0]}.ipynb").mkdir(parents=True)


def as_link_for_notebook(path: Path, _content: bytes) -> None:
    path.mkdir()
    (path / f"{SLUGS[0]}.ipynb").symlink_to(path.parents[1] / "secret")


def as_pipe_for_notebook(path: Path, _content: bytes) -> None:
    path.mkdir()
    os.mkfifo(path / f"{SLUGS[0]}.ipynb")


def as_zip(path: Path, content: bytes) -> None:
    path.mkdir()
    with zipfile.ZipFile(path / "mine.zip", "w") as archive:
        archive.writestr(f"{SLUGS[0]}.ipynb", content)
        archive.writestr(f"../{SLUGS[1]}.ipynb", content)


def as_broken_zip(path: Path, content: bytes) -> None:
    path.mkdir()
    (path / "mine.zip").write_bytes(b"PK\x03\x04" + content)


def as_empty(path: Path, _content: bytes) -> None:
    path.mkdir()


def as_file(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def as_link(path: Path, _content: bytes) -> None:
    path.symlink_to(path.parents[1] / "elsewhere")


def as_pipe(path: Path, _content: bytes) -> None:
    os.mkfifo(path)


Put = Callable[[Path, bytes], None]
FOLDERS: tuple[Put, ...] = (
    *(as_notebook, as_notebook, as_folder_for_notebook, as_link_for_notebook),
    *(as_pipe_for_notebook, as_zip, as_broken_zip, as_empty),
)
OTHERS: tuple[Put, ...] = (as_file, as_link, as_pipe)

ODD_NAMES = (
    *(
        b"=1+1",
        b"+x",
        b"-x",
        b"@x",
        b"\tx",
        b"'=x",
        b"a,b",
        b'"',
        b"a\nb",
        b"\x1b[2J",
        b" ",
        b"~",
    ),
    *(
        b"\xff",
        b"\xfe\xff",
        b"a\r=1",
        b"%FF",
        b"a\xcc\x81",
        b"\xc3\xa1",
        b"x" * 255,
        b"a;b",
        b"con",
        b"a.zip",
        b"%",
    ),
)
names = (
    st.sampled_from(ODD_NAMES)
    | st.text(min_size=1, max_size=12).map(lambda text: text.encode("utf-8", "replace"))
).filter(lambda name: not set(b"/\0") & set(name) and not name.startswith(b"."))
entries = st.dictionaries(
    names, st.tuples(st.sampled_from([*FOLDERS, *OTHERS]), st.binary(max_size=30)), max_size=6
)


@fuzzed(200)
@given(entries)
@example({b"=1": (as_link_for_notebook, b""), b"a\nb": (as_zip, b"{}"), b"x.zip": (as_pipe, b"")})
def test_every_student_has_one_row_a_milestone_and_nothing_is_followed(
    lying: dict[bytes, tuple[Put, bytes]],
) -> None:
    with TemporaryDirectory() as parent:
        folder = Path(parent) / "class"
        folder.mkdir()
        (Path(parent) / "secret").write_bytes(SECRET)
        as_notebook(Path(parent) / "elsewhere", SECRET)
        for name, (put, content) in lying.items():
            put(folder / os.fsdecode(name), content)
        students = [name for name, (put, _) in lying.items() if put in FOLDERS]
        if (hand_ins := found_or_refused(folder)) is None:
            assert not students
            return
        rows = [(one.student, one.slug) for one in hand_ins]
        assert len(set(rows)) == len(rows)
        assert len(rows) >= len(SLUGS) * len(students)
        handed_in: list[bytes | None] = []
        for one in hand_ins:
            one.student.encode("utf-8")
            if one.missing:
                continue
            read = read_or_refused(one, [os.fsdecode(name) for name in lying])
            assert read != SECRET
            handed_in.append(read)
    given_in = {content for put, content in lying.values() if put is as_notebook}
    assert given_in <= set(handed_in)
    check_table(rows)


def found_or_refused(folder: Path) -> list[HandIn] | None:
    """Look for hand-ins; assert that a refusal is one line."""
    try:
        return find_hand_ins(folder, SLUGS)
    except BadInputError as error:
        said = str(error)
    assert said.isprintable()
    return None


def read_or_refused(one: HandIn, names: list[str]) -> bytes | None:
    """Read a hand-in; assert that a refusal is one line but for the names that it quotes."""
    try:
        return one.read()
    except BadInputError as error:
        said = str(error)
    for name in sorted(names, key=len, reverse=True):  # one may lie within another
        said = said.replace(name, "")
    assert said.isprintable()
    return None


@fuzzed(200)
@given(st.sets(st.sampled_from(["", "..", ".", "a/b", "a\\b", "a.", "A", "x" * 300]) | st.text()))
def test_every_student_has_files_of_their_own_inside_the_folder(students: set[str]) -> None:
    stems = {file_stem(student) for student in students}
    assert len(stems) == len(students)
    for stem in stems:
        assert Path(stem).name == stem
        assert not stem.startswith(".")
        assert len(stem.encode("utf-8")) <= 255


# ---------------------------------------------------------------- the table of grades


cells = (
    st.sampled_from(["=1", "-1", "\t=", "\n=1", "a\r=1", '"', "'=1", ""])
    | texts
    | st.text(max_size=10)
)


@fuzzed(200)
@given(
    st.lists(
        st.tuples(cells, cells),
        max_size=6,
    )
)
def test_no_cell_of_a_table_is_a_formula_and_each_is_read_back(
    rows: list[tuple[str, str]],
) -> None:
    check_table(rows)


def check_table(rows: list[tuple[str, str]]) -> None:
    written = table(("student", "milestone"), rows)
    saved = io.StringIO(
        written.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass"), ""
    )
    read = list(csv.reader(saved, strict=True))[1:]
    assert len(read) == len(rows)
    for found, right in zip(read, rows, strict=True):
        for cell, said in zip(found, right, strict=True):
            assert not cell.startswith(FORMULA_STARTS)
            assert cell in (said, f"'{said}")


# ---------------------------------------------------------------- faults that fuzz has found


def test_a_number_of_ours_stays_a_number_whatever_its_sign() -> None:
    written = table(("student", "change"), [("-1", "-1.5"), ("+2", "+0")], numbers={"change"})
    assert written.splitlines()[1:] == ["'-1,-1.5", "'+2,+0"]


def test_two_folders_whose_names_are_no_text_are_two_students(tmp_path: Path) -> None:
    as_notebook(tmp_path / os.fsdecode(b"\xff"), b"one")
    as_notebook(tmp_path / os.fsdecode(b"\xfe"), b"two")
    found = find_hand_ins(tmp_path, SLUGS[:1])
    assert sorted(one.read() for one in found) == [b"one", b"two"]


def test_a_carriage_return_in_a_name_makes_no_row_of_its_own() -> None:
    check_table([("a\r=1+1", "m2_kv_bytes")])


def test_a_pipe_named_as_an_archive_is_not_waited_for(tmp_path: Path) -> None:
    as_notebook(tmp_path / "bob", b"{}")
    (tmp_path / "ada").mkdir()
    pipe = tmp_path / "ada" / "mine.zip"
    os.mkfifo(pipe)
    looking = threading.Thread(target=find_hand_ins, args=(tmp_path, SLUGS), daemon=True)
    looking.start()
    looking.join(timeout=5)
    waits = looking.is_alive()
    if waits:  # a writer that comes and goes lets the reader on
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        looking.join()
    assert not waits
