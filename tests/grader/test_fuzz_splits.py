"""A damaged split is refused in one line, or it is BROKEN: never zero, never full marks."""

from __future__ import annotations

import copy
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import milestones
from grader.errors import BadInputError
from grader.judge import all_broken, judge, read_mistakes
from grader.report import MilestoneReport
from grader.split import Split, file_hashes, open_split
from milestones.spec import Answers, Files
from solutions.exam import write_manifest
from solutions.lesson import ROOT
from tests.grader.fuzz import PUBLIC, fuzzed, leaves, milestone_of, right_answers, trees
from tests.grader.test_cli import grader

linux_only = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")


@contextmanager
def copied(split: Split) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        copy_to = Path(folder) / "split"
        shutil.copytree(split.folder, copy_to)
        yield copy_to


def refused_or_opened(folder: Path) -> Split | None:
    """Open a split; assert that a refusal is one line that names what is at fault."""
    try:
        return open_split(folder)
    except BadInputError as error:
        said = str(error)
    assert said.isprintable()
    assert str(folder) in said
    return None


# ---------------------------------------------------------------- files

NAMES = ("x.csv", "\u202e", "\n", "a" * 255, os.fsdecode(b"\xff\xfe"))


@dataclass(frozen=True)
class Damage:
    """One change to a folder that must not go unseen."""

    name: str
    do: Callable[[Path], object]

    def __repr__(self) -> str:
        return self.name


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 1
    path.write_bytes(raw)


def file_for_folder(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.write_text("")


def instead(put: Callable[[Path], object]) -> Callable[[Path], None]:
    def do(path: Path) -> None:
        path.unlink()
        put(path)

    return do


def add(name: str, path: Path) -> None:
    path.with_name(name).write_text("x")


DAMAGES = (
    Damage("deleted", Path.unlink),
    Damage("cut", cut),
    Damage("a bit flipped", flip),
    Damage("emptied", lambda path: path.write_bytes(b"")),
    Damage("a folder in its place", instead(Path.mkdir)),
    Damage("a link to itself", instead(lambda path: path.symlink_to(path.name))),
    Damage("a link to nothing", instead(lambda path: path.symlink_to("nothing"))),
    Damage("a link to a device", instead(lambda path: path.symlink_to("/dev/zero"))),
    Damage(
        "a link that opens and cannot be read", instead(lambda p: p.symlink_to("/proc/self/mem"))
    ),
    Damage("a pipe", instead(lambda path: os.mkfifo(path))),
    Damage("another name", lambda path: path.rename(path.with_name("other"))),
    Damage("its folder gone", lambda path: shutil.rmtree(path.parent)),
    Damage("its folder a file", file_for_folder),
    *(Damage(f"{name!a} beside it", partial(add, name)) for name in NAMES),
)


@linux_only
@fuzzed(60)
@given(data=st.data(), damage=st.sampled_from(DAMAGES))
def test_a_split_whose_files_were_touched_is_refused_in_one_line(
    data: st.DataObject, damage: Damage, m2_split: Split
) -> None:
    with copied(m2_split) as folder:
        files = sorted(file_hashes(folder))
        path = folder / data.draw(st.sampled_from([*files, "MANIFEST.json"]))
        if path.parent == folder and damage.name.startswith("its folder"):
            path = folder / files[-1]
        damage.do(path)
        assert refused_or_opened(folder) is None


# ---------------------------------------------------------------- the manifest

ODD: tuple[Any, ...] = (
    *(True, None, 1.0, 2, "1", [1], {}, [], "", 10**400, float("nan"), "\ud800", "\x1b[2J", "a\nb"),
    *([[1, "x"], ["a", "b"]], [["MANIFEST.json", "x"], [None, 1]], [[[], 1]], {"\n": "x"}),
    *({"../../x": "y"}, {"/etc/passwd": "x"}, {"\ud800": 1}, {"": "x"}, "x" * 100_000),
)
odd = st.sampled_from(ODD) | trees(st.sampled_from(["files", "schema"])) | leaves


@fuzzed(150)
@given(data=st.data())
def test_a_manifest_says_what_it_must_or_is_refused_in_one_line(
    data: st.DataObject, m2_split: Split
) -> None:
    manifest = json.loads((m2_split.folder / "MANIFEST.json").read_text())
    right = copy.deepcopy(manifest)
    keys = data.draw(
        st.sampled_from([["files"], ["schema"], ["split_id"], ["kind"], ["files", "x"]])
    )
    if keys[-1] == "x":
        keys = ["files", data.draw(st.sampled_from(sorted(right["files"])))]
    parent = manifest["files"] if len(keys) == 2 else manifest
    if data.draw(st.booleans()):
        parent[keys[-1]] = data.draw(odd)
    else:
        del parent[keys[-1]]
    check_manifest(m2_split, json.dumps(manifest).encode(), right)


@fuzzed(100)
@given(raw=st.binary(max_size=200) | odd.map(lambda v: json.dumps(v).encode()))
def test_what_is_no_manifest_is_refused_in_one_line(raw: bytes, m2_split: Split) -> None:
    check_manifest(m2_split, raw, None)


@pytest.mark.parametrize(
    "raw", [b"[" * 100_000, b'{"files": ' + b"[" * 900 + b"]" * 900 + b"}", b'{"schema": NaN}', b""]
)
def test_a_manifest_that_is_hard_to_read_is_refused_in_one_line(
    raw: bytes, m2_split: Split
) -> None:
    check_manifest(m2_split, raw, None)


def check_manifest(split: Split, raw: bytes, right: Any) -> None:
    with TemporaryDirectory() as parent:
        folder = Path(parent) / "split"
        folder.mkdir()
        for entry in split.folder.iterdir():
            if entry.name != "MANIFEST.json":
                shutil.copytree(entry, folder / entry.name)
        (folder / "MANIFEST.json").write_bytes(raw)
        opened = refused_or_opened(folder)
    if opened is None:
        return
    said = json.loads(raw)
    assert right is not None
    assert said["files"] == right["files"]
    assert said["schema"] == 1
    assert opened.split_id.isprintable()
    assert opened.split_id
    assert opened.public is (said.get("kind") == "public")


# ---------------------------------------------------------------- the truth itself


def rewritten_json(draw: st.DrawFn, raw: bytes) -> bytes:
    """Return a truth file with one value lost or of another kind.

    A number in place of a number, or a list that is shorter by one, cannot be known as wrong.
    """
    whole = json.loads(raw)
    node: Any = whole
    parent: Any = None
    key: Any = None
    while isinstance(node, dict | list) and node and (parent is None or draw(st.integers(0, 5))):
        parent = node
        key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        node = node[key]
    others = [None, True, float("nan"), float("inf"), "text", [], {}, ["text"], {"text": 1}]
    if parent is None:
        return json.dumps(draw(st.sampled_from(others))).encode()
    if isinstance(parent, dict) and draw(st.booleans()):
        del parent[key]
    else:
        parent[key] = draw(st.sampled_from([o for o in others if type(o) is not type(node)]))
    return json.dumps(whole).encode()


def rewritten_npz(draw: st.DrawFn, raw: bytes) -> bytes:
    """Return a truth file with one of its arrays lost, cut, of another type, or with no numbers."""
    with np.load(io.BytesIO(raw)) as stored:
        arrays = {name: stored[name] for name in stored.files}
    name = draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    match draw(st.integers(0, 5)):
        case 0:
            del arrays[name]
        case 1 if "/" not in name:  # how many logits there are, no file of the truth says
            arrays[name] = array[:-1] if array.ndim else np.zeros(3)
        case 2:
            arrays[name] = array.astype("U8")
        case 3:
            arrays[name] = np.full(array.shape, np.nan)
        case 4:
            arrays[name] = array[..., None]
        case _:
            arrays[name] = np.zeros((0,))
    saved = io.BytesIO()
    np.savez_compressed(saved, **arrays)
    return saved.getvalue()


@st.composite
def wrong_truth(draw: st.DrawFn, slug: str) -> tuple[str, bytes]:
    """Draw a file of a milestone's truth and what it holds instead."""
    root = PUBLIC / "truth"
    files = sorted(path for path in (root / slug).rglob("*") if path.is_file())
    path = draw(st.sampled_from(files))
    raw = path.read_bytes()
    kind = draw(st.integers(0, 7))
    if kind == 0:
        found = draw(st.binary(max_size=50))
    elif kind == 1:
        found = raw[: draw(st.integers(0, len(raw) - 3))]
    elif path.suffix == ".npz":
        found = rewritten_npz(draw, raw)
    else:
        found = rewritten_json(draw, raw)
    return str(path.relative_to(root)), found


def points_on(slug: str, answers: Answers, truth: Files) -> MilestoneReport:
    """Judge as `grade` does: what escapes the judge breaks every check."""
    milestone = milestone_of(slug)
    try:
        mistakes = read_mistakes(truth, slug)
        checks = judge(milestone, answers, truth, mistakes, public=True)
    except Exception as error:
        checks = all_broken(milestone, repr(error))
    return MilestoneReport(slug, milestone.title, "", checks)


# numpy leaves a broken archive to the garbage collector to close
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("slug", milestones.all_slugs())
def test_right_answers_on_a_damaged_truth_earn_everything_or_are_not_graded(slug: str) -> None:
    @fuzzed(40 if slug != "m7_planner" else 15)
    @given(wrong_truth(slug))
    def holds(wrong: tuple[str, bytes]) -> None:
        name, content = wrong
        with TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "runs.csv").symlink_to(PUBLIC / "truth" / "runs.csv")
            for path in (PUBLIC / "truth" / slug).rglob("*"):
                if path.is_file():
                    link = root / path.relative_to(PUBLIC / "truth")
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(path)
            (root / name).unlink()
            (root / name).write_bytes(content)
            report = points_on(slug, right_answers(slug), Files(root))
        assert report.points in (None, report.points_max), report.checks

    holds()


@pytest.mark.parametrize("slug", ["m5_roofline", "m6_memory_traffic"])
@pytest.mark.parametrize("label", ["", "nan", "inf", "text"])
def test_a_label_that_is_no_number_is_not_graded(slug: str, label: str, tmp_path: Path) -> None:
    shutil.copytree(PUBLIC / "truth", tmp_path / "truth")
    path = tmp_path / "truth" / "runs.csv"
    first, row, rest = path.read_text().split("\n", 2)
    path.write_text("\n".join([first, f"{row.split(',')[0]},{label},{label}", rest]))
    report = points_on(slug, right_answers(slug), Files(tmp_path / "truth"))
    assert report.points is None


# ---------------------------------------------------------------- on the command line


def checked(folder: Path) -> tuple[int, str]:
    run = grader(
        "check", "2", "--split", folder, "--notebooks", ROOT / "solutions" / "solved"
    )  # fmt: skip
    return run.returncode, run.stdout + run.stderr


def test_a_manifest_nested_without_end_exits_2(m2_split: Split) -> None:
    with copied(m2_split) as folder:
        (folder / "MANIFEST.json").write_bytes(b"[" * 100_000)
        code, said = checked(folder)
    assert code == 2
    assert "cannot be read as a manifest" in said


@pytest.mark.parametrize("content", [None, b'{"known_shapes/0": NaN}'])
def test_a_truth_that_was_damaged_before_it_was_sealed_exits_3(
    content: bytes | None, m2_split: Split
) -> None:
    with copied(m2_split) as folder:
        path = folder / "truth" / "m2_kv_bytes" / "answers.json"
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        write_manifest(folder, "public", bytes(32), 0)
        code, said = checked(folder)
    assert code == 3
    assert "not graded" in said
