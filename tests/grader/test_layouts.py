"""Hand-ins are found as learning platforms leave them, and archives can do no harm."""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from grader.archives import moment
from grader.errors import BadInputError
from grader.handins import HandIn, file_stem, find_hand_ins
from grader.notebook import MAX_BYTES

M2, M3 = "m2_kv_bytes", "m3_concurrency"
SLUGS = (M2, M3)


def write(path: Path, content: str = "x", modified: int | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    if modified is not None:
        os.utime(path, (modified, modified))


def write_zip(path: Path, files: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def contents(folder: Path) -> dict[str, dict[str, str]]:
    """What each student handed in, by milestone."""
    found: dict[str, dict[str, str]] = {}
    for one in find_hand_ins(folder, SLUGS):
        found.setdefault(one.student, {})
        if not one.missing:
            found[one.student][one.slug] = one.read().decode()
    return found


def hand_in(folder: Path, student: str, slug: str) -> HandIn:
    (one,) = [
        one for one in find_hand_ins(folder, SLUGS) if (one.student, one.slug) == (student, slug)
    ]
    return one


def plain(root: Path) -> None:
    write(root / "ann" / f"{M2}.ipynb", "ann 2")
    write(root / "ann" / f"{M3}.ipynb", "ann 3")
    write(root / "bo" / "homework" / f"{M2}.ipynb", "bo 2")
    write(root / "bo" / "homework" / ".ipynb_checkpoints" / f"{M3}.ipynb", "a checkpoint")


def zip_a_student(root: Path) -> None:
    write_zip(root / "ann.zip", {f"{M2}.ipynb": "ann 2", f"work/{M3}.ipynb": "ann 3"})
    write_zip(root / "bo" / "all.zip", {f"notebooks/{M2}.ipynb": "bo 2", "__MACOSX/x": ""})


def zip_of_the_class(root: Path) -> None:
    names = {f"ann/{M2}.ipynb": "ann 2", f"ann/{M3}.ipynb": "ann 3", f"bo/{M2}.ipynb": "bo 2"}
    write_zip(root / "class.zip", names)


def canvas(root: Path) -> None:
    write(root / f"ann_7001_90001_{M2}.ipynb", "ann's first 2")
    write(root / f"ann_7001_90002_{M2}-1.ipynb", "ann 2")
    write(root / f"ann_LATE_7001_90003_{M3}.ipynb", "ann 3")
    write_zip(root / "bo_7002_90004_work.zip", {f"{M2}.ipynb": "bo 2"})


def moodle(root: Path) -> None:
    write(root / "ann_7001_assignsubmission_file" / f"{M2}.ipynb", "ann 2")
    write(root / "ann_7001_assignsubmission_file" / f"{M3}.ipynb", "ann 3")
    write(root / "bo_7002_assignsubmission_file_" / f"{M2}.ipynb", "bo 2")
    write(root / "bo_7002_assignsubmission_onlinetext" / "onlinetext.html", "<p>hello")


def moodle_flat(root: Path) -> None:
    write(root / f"ann_7001_assignsubmission_file_{M2}.ipynb", "ann 2")
    write(root / f"ann_7001_assignsubmission_file_{M3}.ipynb", "ann 3")
    write(root / f"bo_7002_assignsubmission_file_{M2}.ipynb", "bo 2")


def gradescope(root: Path) -> None:
    write(root / "submission_11" / f"{M2}.ipynb", "ann 2")
    write(root / "submission_11" / f"{M3}.ipynb", "ann 3")
    write(root / "submission_12" / f"{M2}.ipynb", "bo 2")
    person = ":submitters:\n  - :name: {0}\n    :sid: '1'\n    :email: {0}\n  :status: processed\n"
    metadata = "---\n" + "".join(
        f"submission_{number}:\n  {person.format(name)}"
        for number, name in ((11, "ann"), (12, "bo"))
    )
    write(root / "submission_metadata.yml", metadata)


def nbgrader(root: Path) -> None:
    write(root / "submitted" / "ann" / "ps1" / f"{M2}.ipynb", "ann 2")
    write(root / "submitted" / "ann" / "ps2" / f"{M3}.ipynb", "ann 3")
    write(root / "submitted" / "bo" / "ps1" / f"{M2}.ipynb", "bo 2")
    write(root / "submitted" / "bo" / "ps1" / "timestamp.txt", "2026-11-30 10:00:00 UTC")


def github(root: Path) -> None:
    for name in ("ann", "bo"):
        (root / f"kv-capacity-{name}" / ".git").mkdir(parents=True)
        write(root / f"kv-capacity-{name}" / "notebooks" / f"{M2}.ipynb", f"{name} 2")
    write(root / "kv-capacity-ann" / "notebooks" / f"{M3}.ipynb", "ann 3")
    write(
        root / "kv-capacity-ann" / "attic" / f"{M3}.ipynb", "an older one", modified=4_000_000_000
    )


@pytest.mark.parametrize(
    ("lay_out", "names"),
    [
        (plain, ("ann", "bo")),
        (zip_a_student, ("ann", "bo")),
        (zip_of_the_class, ("ann", "bo")),
        (canvas, ("ann (7001)", "bo (7002)")),
        (moodle, ("ann (7001)", "bo (7002)")),
        (moodle_flat, ("ann (7001)", "bo (7002)")),
        (gradescope, ("ann", "bo")),
        (nbgrader, ("ann", "bo")),
        (github, ("ann", "bo")),
    ],
)
def test_a_layout_is_read(
    lay_out: Callable[[Path], None], names: tuple[str, str], tmp_path: Path
) -> None:
    lay_out(tmp_path)
    folder = tmp_path / "class.zip" if lay_out is zip_of_the_class else tmp_path
    ann, bo = names
    assert contents(folder) == {ann: {M2: "ann 2", M3: "ann 3"}, bo: {M2: "bo 2"}}


def test_dots_in_the_name_of_a_zip_are_the_students(tmp_path: Path) -> None:
    for name in ("ann.lee", "ann.ott"):
        write_zip(tmp_path / f"{name}.zip", {f"{M2}.ipynb": name})
    assert contents(tmp_path) == {"ann.lee": {M2: "ann.lee"}, "ann.ott": {M2: "ann.ott"}}


@pytest.mark.parametrize("name", ["bo.lee.zip", "bo.lee.tar.gz", "bo.lee.rar"])
def test_a_students_archive_that_cannot_be_read_is_told_and_is_not_nothing(
    name: str, tmp_path: Path
) -> None:
    write(tmp_path / name, "no archive")
    one = hand_in(tmp_path, "bo.lee", M2)
    assert not one.missing
    with pytest.raises(BadInputError, match=name):
        one.read()


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (f"{M2}.ipynb", f"{M2} (1).ipynb"),
        (f"{M2}.ipynb", f"{M2}-1.ipynb"),
        (f"{M2}-1.ipynb", f"{M2}-2.ipynb"),
        (f"{M2}-Copy1.ipynb", f"{M2}-Copy2.ipynb"),
        (f"sub/{M2}.ipynb", f"{M2}.ipynb"),
        (f"{M2}-9.ipynb", f"{M2}-10.ipynb"),
    ],
)
def test_of_several_files_for_a_milestone_the_last_one_counts(
    earlier: str, later: str, tmp_path: Path
) -> None:
    write(tmp_path / "ann" / earlier, "earlier", modified=1_700_000_000)
    write(tmp_path / "ann" / later, "later", modified=1_700_000_000)
    assert contents(tmp_path)["ann"] == {M2: "later"}


def test_a_group_of_gradescope_hands_in_for_each_of_its_members(tmp_path: Path) -> None:
    write(tmp_path / "submission_1" / f"{M2}.ipynb", "ours")
    write(
        tmp_path / "submission_metadata.yml",
        "submission_1:\n  :submitters:\n  - :name: Ann\n    :email: ann@x\n  - :name: Bo\n"
        "    :email: bo@x\n",
    )
    assert contents(tmp_path) == {"ann@x": {M2: "ours"}, "bo@x": {M2: "ours"}}


@pytest.mark.parametrize("text", ["- a list", "submission_1: 5", "{", "submission_1: {}"])
def test_a_list_of_submitters_that_is_none_is_told(text: str, tmp_path: Path) -> None:
    write(tmp_path / "submission_1" / f"{M2}.ipynb")
    write(tmp_path / "submission_metadata.yml", text)
    with pytest.raises(BadInputError, match="list of submitters"):
        find_hand_ins(tmp_path, SLUGS)


# ---------------------------------------------------------------- archives that mean harm


def linked(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo(f"{M2}.ipynb")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")


def encrypted(path: Path) -> None:
    write_zip(path, {f"{M2}.ipynb": "secret"})
    raw = bytearray(path.read_bytes())
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # local and central flags
        raw[raw.index(signature) + at] |= 1
    path.write_bytes(raw)


def bomb(path: Path) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open(f"{M2}.ipynb", "w", force_zip64=True) as stream,
    ):
        for _ in range(200):
            stream.write(bytes(2**20))


def lying_bomb(path: Path) -> None:
    bomb(path)
    raw = bytearray(path.read_bytes())
    at = raw.index(b"PK\x01\x02") + 24  # the central directory's word on the size
    raw[at : at + 4] = (100).to_bytes(4, "little")
    path.write_bytes(raw)


def cut(path: Path) -> None:
    write_zip(path, {f"{M2}.ipynb": "x" * 10_000})
    path.write_bytes(path.read_bytes()[:60])


def wrong_sum(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{M2}.ipynb", "content")
    path.write_bytes(path.read_bytes().replace(b"content", b"c0ntent"))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: write_zip(path, {f"../../{M2}.ipynb": "x"}), "leads out of the archive"),
        (lambda path: write_zip(path, {f"/etc/{M2}.ipynb": "x"}), "leads out of the archive"),
        (lambda path: write_zip(path, {f"..\\{M2}.ipynb": "x"}), "leads out of the archive"),
        (lambda path: write_zip(path, {f"C:\\{M2}.ipynb": "x"}), "leads out of the archive"),
        (linked, "is a link"),
        (encrypted, "is encrypted"),
        (bomb, "too large for a notebook"),
        (lying_bomb, "cannot be unpacked"),
        (cut, "not a zip archive that can be read"),
        (wrong_sum, "cannot be unpacked"),
        (lambda path: write_zip(path, {"work.zip": "PK"}), "an archive inside an archive"),
        (lambda path: write_zip(path, {"work.tar.gz": ""}), "an archive inside an archive"),
        (
            lambda path: write_zip(path, dict.fromkeys(map(str, range(20_001)), "")),
            "holds more than 20,000 files",
        ),
        (lambda path: path.write_bytes(b""), "not a zip archive that can be read"),
    ],
)
def test_an_archive_that_is_not_what_it_seems_is_told_in_a_sentence(
    make: Callable[[Path], None], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "in" / "ann").mkdir(parents=True)
    make(tmp_path / "in" / "ann" / "work.zip")
    before = sorted(tmp_path.rglob("*"))
    one = hand_in(tmp_path / "in", "ann", M2)
    assert not one.missing
    with pytest.raises(BadInputError, match=sentence) as caught:
        one.read()
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before, "nothing is unpacked onto the disk"


@pytest.mark.parametrize("suffix", ["rar", "7z", "tar.gz"])
def test_an_archive_of_another_kind_is_told(suffix: str, tmp_path: Path) -> None:
    write(tmp_path / "ann" / f"work.{suffix}")
    with pytest.raises(BadInputError, match=r"hand in .ipynb files or a .zip"):
        hand_in(tmp_path, "ann", M2).read()


def test_a_notebook_beside_a_broken_archive_still_counts(tmp_path: Path) -> None:
    write(tmp_path / "ann" / f"{M2}.ipynb", "fine")
    write(tmp_path / "ann" / "work.zip", "no zip")
    assert hand_in(tmp_path, "ann", M2).read() == b"fine"
    assert hand_in(tmp_path, "ann", M3).fault is not None, "it may hold this one"


def dated(path: Path, folder: str) -> None:
    """Write an archive of two notebooks: one with a local time, one with a time of 1970 in UTC."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(f"{folder}{M2}.ipynb", (2026, 11, 30, 23, 30, 0)), "x")
        info = zipfile.ZipInfo(f"{folder}{M3}.ipynb", (2026, 11, 30, 23, 30, 0))
        info.extra = struct.pack("<HHH", 0x9999, 2, 7) + struct.pack("<HHBi", 0x5455, 5, 1, 86_400)
        archive.writestr(info, "y")


def test_a_time_is_taken_from_a_classs_archive_only_where_it_is_universal(tmp_path: Path) -> None:
    dated(tmp_path / "class.zip", "ann/")
    first, second = (
        next(one for one in find_hand_ins(tmp_path / "class.zip", SLUGS) if one.slug == slug)
        for slug in (M2, M3)
    )
    assert first.handed_in_at is None, "a local time of nowhere"
    assert second.handed_in_at == datetime(1970, 1, 2, tzinfo=UTC)


def test_a_students_own_archive_was_handed_in_when_it_was_whatever_it_claims(
    tmp_path: Path,
) -> None:
    dated(tmp_path / "ann.zip", "")
    os.utime(tmp_path / "ann.zip", (86_400 * 20_000,) * 2)
    for slug in (M2, M3):
        at = hand_in(tmp_path, "ann", slug).handed_in_at
        assert at == datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=20_000)


def test_links_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    write(secret / f"{M2}.ipynb", "not yours")
    folder = tmp_path / "in"
    (folder / "ann").mkdir(parents=True)
    (folder / "ann" / "elsewhere").symlink_to(secret)
    (folder / "ann" / f"{M3}.ipynb").symlink_to(secret / f"{M2}.ipynb")
    (folder / "bo").symlink_to(secret)
    assert {one.student for one in find_hand_ins(folder, SLUGS)} == {"ann"}
    assert hand_in(folder, "ann", M2).missing
    with pytest.raises(BadInputError, match="is a link"):
        hand_in(folder, "ann", M3).read()


def test_a_notebook_of_an_archive_is_read_up_to_its_bound_only(tmp_path: Path) -> None:
    path = tmp_path / "ann" / "work.zip"
    path.parent.mkdir()
    bomb(path)
    assert path.stat().st_size < MAX_BYTES / 100
    with pytest.raises(BadInputError, match="too large"):
        hand_in(tmp_path, "ann", M2).read()


def test_a_name_within_a_students_own_folder_makes_nobody_elses_hand_in(tmp_path: Path) -> None:
    eve, victim = "Eve_9_assignsubmission_file", "Vera Victim_7_1"
    theirs = "Vera Victim_7_assignsubmission_file"
    write_zip(
        tmp_path / "class.zip",
        {f"{eve}/{victim}_{M2}-9.ipynb": "forged", f"{theirs}/{M2}.ipynb": "vera's"},
    )
    found = contents(tmp_path / "class.zip")
    assert found == {"Eve (9)": {}, "Vera Victim (7)": {M2: "vera's"}}


def empty_name(path: Path) -> None:
    write_zip(path, {f"{M2}.ipynb": "x", "n": "y"})
    path.write_bytes(path.read_bytes().replace(b"\x01\x00\x00\x00n", b"\x00\x00\x00\x00"))


def damaged_lzma(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr(f"{M2}.ipynb", "x" * 2_000)
    raw = bytearray(path.read_bytes())
    raw[60:80] = bytes(20)
    path.write_bytes(raw)


@pytest.mark.parametrize("make", [empty_name, damaged_lzma])
def test_a_damaged_archive_never_ends_the_class(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    (tmp_path / "ann").mkdir()
    make(tmp_path / "ann" / "work.zip")
    write(tmp_path / "bo" / f"{M2}.ipynb", "bo 2")
    assert hand_in(tmp_path, "bo", M2).read() == b"bo 2"
    with contextlib.suppress(BadInputError):
        hand_in(tmp_path, "ann", M2).read()


def test_a_number_without_end_in_a_name_is_no_attempt(tmp_path: Path) -> None:
    write_zip(tmp_path / "ann.zip", {f"{M2}-{'9' * 5_000}.ipynb": "x"})
    assert hand_in(tmp_path, "ann", M2).missing


def test_a_notebook_of_no_milestones_name_is_told_whatever_else_was_handed_in(
    tmp_path: Path,
) -> None:
    write(tmp_path / "ann" / f"{M2}.ipynb", "ann 2")
    write(tmp_path / "ann" / f"{M3}_final.ipynb", "ann 3")
    write(tmp_path / "ann" / "milestones" / M3 / "blank.ipynb", "the course's, in a clone")
    write(tmp_path / "ann" / f"{M3}.txt", "no notebook")
    write_zip(tmp_path / "bo.zip", {"work/m2.ipynb": "bo 2", "work/Untitled.ipynb": "bo ?"})
    for student in ("cy", "di"):
        write(tmp_path / student / f"{M2}.ipynb", "2")
    write(tmp_path / "di" / f"{M3}.ipynb", "3")
    write(tmp_path / "di" / "x1.ipynb", "a lab, and nothing that is owed is missing")
    told = {one.student: one.unnamed for one in find_hand_ins(tmp_path, SLUGS)}
    assert {student: files for student, files in told.items() if files} == {
        "ann": (f"{M3}_final.ipynb",),
        "bo": ("work/Untitled.ipynb", "work/m2.ipynb"),
        "di": ("x1.ipynb",),
    }


def test_a_student_called_submitted_hides_nobody(tmp_path: Path) -> None:
    write(tmp_path / "submitted" / f"{M2}.ipynb", "theirs")
    write(tmp_path / "ann" / f"{M2}.ipynb", "ann 2")
    assert contents(tmp_path) == {"submitted": {M2: "theirs"}, "ann": {M2: "ann 2"}}


def test_a_time_that_no_calendar_has_is_no_time() -> None:
    assert moment(86_400.0) == datetime(1970, 1, 2, tzinfo=UTC)
    for seconds in (1e18, -1e18, float("inf")):
        assert moment(seconds) is None


# ---------------------------------------------------------------- names as files


def test_no_two_students_share_a_file_and_none_leaves_its_folder() -> None:
    names = ["ann", "Ann B.", "../x", "..", ".", ".hidden", "a/b", "a\\b", "a%2Fb", "x" * 300]
    names += ["x" * 299 + "y", "new\nline", "nul\0", "Łukasz", "=cmd()", "C:", "a ", " a", "a."]
    names += ["\u4e00" * 80, "\U00020000" * 60, "\U00020000" * 300, "x" + "\U00020000" * 60]
    stems = [file_stem(name) for name in names]
    assert len(set(stems)) == len(names)
    for stem in stems:
        assert stem
        assert Path(stem).name == stem
        assert not set(stem) & set('/\\:*?"<>|\0\n')
        assert stem == stem.strip(". ")
        assert len(f"{stem}.html.unfinished".encode()) <= 255


def test_a_zip_is_closed_after_it_was_read(tmp_path: Path) -> None:
    write_zip(tmp_path / "ann.zip", {f"{M2}.ipynb": "x"})
    one = hand_in(tmp_path, "ann", M2)
    (tmp_path / "ann.zip").unlink()
    with pytest.raises(BadInputError, match="cannot be unpacked"):
        one.read()
