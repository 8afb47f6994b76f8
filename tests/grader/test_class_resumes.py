"""A class that is killed at any moment goes on where it was and ends as an undisturbed one does."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest

from grader import class_cli
from grader.cluster import _Here, pack
from grader.errors import BadInputError
from grader.host import Host
from grader.places import Places
from grader.report import CheckReport, MilestoneReport, Outcome, Stop
from grader.results import Results, write_whole
from grader.split import Split

ROOT = Path(__file__).parents[2]
M2 = "m2_kv_bytes"
CELL = (
    "import time  # {name}\ntime.sleep(0.3)\n"
    "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n"
    "    return {factor} * n_layers * n_kv_heads * head_dim * kv_bits // 8"
)
STUDENTS = 12


@pytest.fixture(scope="module")
def submissions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("class") / "submissions"
    for number in range(STUDENTS):
        name = f"student-{number:02}"
        source = CELL.format(name=name, factor=2 + number % 3)
        cell = nbformat.v4.new_code_cell(source, id="only")
        (folder / name).mkdir(parents=True)
        path = folder / name / f"{M2}.ipynb"
        path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])))
        os.utime(path, (1_790_000_000 + number, 1_790_000_000 + number))
    return folder


def command(submissions: Path, split: Split, out: Path, key: Path) -> list[str]:
    return [sys.executable, "-m", "grader", "class", str(submissions), "--split",
            str(split.folder), "--out", str(out), "--key", str(key), "--workers", "2"]  # fmt: skip


def outcome(out: Path) -> dict[str, bytes]:
    """Every file that a graded class leaves, but the results it keeps for the next time."""
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.relative_to(out).parts[0] != "results"
    }


@pytest.fixture(scope="module")
def undisturbed(
    submissions: Path, m2_hidden: Split, walled: Host, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, bytes]]:
    """The key that signs, and what a run leaves that nothing disturbs."""
    assert walled.walled
    folder = tmp_path_factory.mktemp("undisturbed")
    key = folder / "signing.key"
    run = subprocess.run(
        command(submissions, m2_hidden, folder / "out", key), cwd=ROOT, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = outcome(folder / "out")
    assert {"grades.csv", "gradebook.sqlite", "class.html", "receipts/public.pem"} <= found.keys()
    return key, found


def results(out: Path) -> int:
    return len(list((out / "results").glob("*.json")))


def killed_after(run: subprocess.Popen[bytes], out: Path, count: int) -> None:
    """Kill a run with SIGKILL once it has kept so many results."""
    while results(out) < count:
        assert run.poll() is None, "it must be killed before it is done"
        time.sleep(0.01)
    run.kill()
    run.wait()


def zygotes(run: subprocess.Popen[bytes]) -> Iterator[psutil.Process]:
    for child in psutil.Process(run.pid).children():
        with contextlib.suppress(psutil.Error):
            if "grader.zygote" in " ".join(child.cmdline()):
                yield child


def test_a_run_that_is_killed_again_and_again_ends_as_an_undisturbed_one(
    submissions: Path, m2_hidden: Split, undisturbed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    key, expected = undisturbed
    out = tmp_path / "out"
    started = command(submissions, m2_hidden, out, key)
    for count in (1, 5, 9):
        run = subprocess.Popen(started, cwd=ROOT, stderr=subprocess.DEVNULL)
        killed_after(run, out, count)
        kept = {path: path.stat().st_mtime_ns for path in (out / "results").glob("*.json")}
        assert count <= len(kept) < STUDENTS
        assert not (out / "grades.csv").exists(), "no grades of half a class"
    last = subprocess.run(started, cwd=ROOT, capture_output=True, text=True, check=False)
    assert last.returncode == 0, last.stderr
    assert outcome(out) == expected
    for path, modified in kept.items():
        assert path.stat().st_mtime_ns == modified, "nothing that was graded is graded again"


def test_a_worker_that_is_killed_changes_nothing(
    submissions: Path, m2_hidden: Split, undisturbed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    key, expected = undisturbed
    out = tmp_path / "out"
    run = subprocess.Popen(
        command(submissions, m2_hidden, out, key), cwd=ROOT, stderr=subprocess.DEVNULL
    )
    for count in (2, 6):
        while results(out) < count:
            assert run.poll() is None
            time.sleep(0.01)
        for zygote in zygotes(run):
            zygote.kill()
    assert run.wait() == 0
    assert outcome(out) == expected


def test_an_unchanged_notebook_is_not_run_again(
    submissions: Path, m2_hidden: Split, undisturbed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    key, expected = undisturbed
    again = tmp_path / "out"
    shutil.copytree(key.parent / "out", again)
    before = {path.name: path.stat().st_mtime_ns for path in (again / "results").iterdir()}
    run = subprocess.run(
        command(submissions, m2_hidden, again, key), cwd=ROOT, capture_output=True, check=False
    )
    assert run.returncode == 0
    assert outcome(again) == expected
    after = {path.name: path.stat().st_mtime_ns for path in (again / "results").iterdir()}
    assert after == before


def test_a_full_disk_stops_the_run_loses_nothing_and_says_what_to_do(
    submissions: Path, m2_hidden: Split, undisturbed: tuple[Path, dict[str, bytes]], tmp_path: Path
) -> None:
    key, expected = undisturbed
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root to mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    small = ["mount", "-t", "tmpfs", "-o", "size=28k", "tmpfs", str(disk)]
    if subprocess.run(small, capture_output=True, check=False).returncode:
        pytest.skip("this machine mounts no file system")
    try:
        started = command(submissions, m2_hidden, disk / "out", key)
        full = subprocess.run(started, cwd=ROOT, capture_output=True, text=True, check=False)
        assert full.returncode == 2
        assert "No space left on device" in full.stderr
        assert "it goes on where it was" in full.stderr
        assert "Traceback" not in full.stderr
        kept = results(disk / "out")
        assert 0 < kept < STUDENTS
        larger = ["mount", "-o", "remount,size=8m", str(disk)]
        subprocess.run(larger, check=True, capture_output=True)
        assert subprocess.run(started, cwd=ROOT, capture_output=True, check=False).returncode == 0
        assert outcome(disk / "out") == expected
    finally:
        subprocess.run(["umount", str(disk)], check=False)


# ---------------------------------------------------------------- a cluster


@pytest.fixture
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason='needs the extra "cluster"')
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as found:
        yield found


def test_a_cluster_gives_the_same_grades_though_a_worker_is_killed(
    cluster: Any, submissions: Path, m2_hidden: Split,
    undisturbed: tuple[Path, dict[str, bytes]], tmp_path: Path,
) -> None:  # fmt: skip
    key, expected = undisturbed
    out = tmp_path / "out"
    started = command(submissions, m2_hidden, out, key)[:-2]
    started += ["--scheduler", cluster.scheduler_address]
    run = subprocess.Popen(started, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    while results(out) < 3:
        assert run.poll() is None, run.stderr and run.stderr.read()
        time.sleep(0.01)
    worker = next(iter(cluster.workers.values()))
    psutil.Process(worker.pid).kill()
    _, said = run.communicate()
    assert run.returncode == 0, said
    assert "walled room" in said
    assert outcome(out) == expected


def test_no_scheduler_is_told(submissions: Path, m2_hidden: Split, tmp_path: Path) -> None:
    started = command(submissions, m2_hidden, tmp_path / "out", tmp_path / "key")[:-2]
    started += ["--scheduler", "tcp://127.0.0.1:9"]
    run = subprocess.run(started, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "no Dask scheduler answers there" in run.stderr
    assert "Traceback" not in run.stderr


def test_what_travels_to_a_worker_holds_no_truth(m2_hidden: Split, tmp_path: Path) -> None:
    places = Places(ROOT / "data", m2_hidden.folder / "questions")
    there = pack(places).unpack(tmp_path)
    assert (there.data / "train.csv").is_file()
    assert (there.questions / "runs.csv").is_file()
    assert not list(tmp_path.rglob("*truth*"))
    assert not list(tmp_path.rglob("public_split"))


def test_a_worker_that_has_served_another_split_gets_this_ones_questions(
    m2_hidden: Split, m2_split: Split, tmp_path: Path
) -> None:
    changed = tmp_path / "questions"
    shutil.copytree(m2_hidden.folder / "questions", changed)
    (changed / "runs.csv").write_text("run_id\n")
    here = _Here(trust=False)
    try:
        for questions in (m2_split.folder / "questions", changed):
            at = here.places(pack(Places(ROOT / "data", questions)))
            assert at.read("questions/runs.csv") == (questions / "runs.csv").read_bytes()
    finally:
        here._stack.close()


@pytest.mark.parametrize("walled", [True, False])
def test_a_class_on_workers_without_walls_is_not_called_walled(
    walled: bool, m2_hidden: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def connected(_address: str, *, trust: bool) -> Iterator[tuple[Any, int, bool]]:
        assert trust
        yield None, 3, walled

    monkeypatch.setattr(class_cli, "connect", connected)
    monkeypatch.setattr(class_cli, "remote", lambda *_args, **_kwargs: None)
    with class_cli._team(m2_hidden, ROOT / "data", "tcp://x", trust=True) as team:
        assert team.walled is walled
        assert ("walled room" in team.said) is walled


# ---------------------------------------------------------------- the results kept


def report(outcome: Outcome = Outcome.PASSED) -> MilestoneReport:
    points = None if outcome is Outcome.BROKEN else 0.1 + 0.2
    check = CheckReport("c", "It is.", outcome, points, 1.0, 0.1 + 0.7, 0.8, "ü\n")
    stop = Stop("ended its process", by_bound=False, detail="by SIGKILL")
    return MilestoneReport(M2, "Bytes", "aa", (check,), (), None, stop, "note", "### Why\nü\n")


def test_a_kept_result_is_the_one_that_was_made(tmp_path: Path) -> None:
    first = Results(tmp_path, {"split": "a"}).of(M2, "aa", report)
    kept = Results(tmp_path, {"split": "a"}).of(M2, "aa", lambda: pytest.fail("graded again"))
    assert first == kept == report()


@pytest.mark.parametrize(
    ("made_with", "slug", "notebook"),
    [({"split": "b"}, M2, "aa"), ({"split": "a"}, "m3_concurrency", "aa"),
     ({"split": "a"}, M2, "bb"), ({"split": "a", "grader": "2"}, M2, "aa")],
)  # fmt: skip
def test_whatever_decides_a_result_makes_it_another_one(
    made_with: dict[str, object], slug: str, notebook: str, tmp_path: Path
) -> None:
    Results(tmp_path, {"split": "a"}).of(M2, "aa", report)
    asked = []

    def grade() -> MilestoneReport:
        asked.append(slug)
        return report()

    Results(tmp_path, made_with).of(slug, notebook, grade)
    assert asked


def test_a_broken_result_is_no_result(tmp_path: Path) -> None:
    kept = Results(tmp_path, {})
    kept.of(M2, "aa", lambda: report(Outcome.BROKEN))
    assert kept.of(M2, "aa", report) == report()


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b'{"checks": 5}', b"\xff"])
def test_a_damaged_result_is_graded_again(damage: bytes, tmp_path: Path) -> None:
    kept = Results(tmp_path, {})
    kept.of(M2, "aa", report)
    (path,) = tmp_path.glob("*.json")
    path.write_bytes(damage)
    assert kept.of(M2, "aa", report) == report()
    assert path.read_bytes() != damage


def test_the_same_notebook_handed_in_by_many_is_graded_once(tmp_path: Path) -> None:
    kept, asked = Results(tmp_path, {}), []

    def slow() -> MilestoneReport:
        asked.append(1)
        time.sleep(0.2)
        return report()

    many = [threading.Thread(target=kept.of, args=(M2, "aa", slow)) for _ in range(8)]
    for thread in many:
        thread.start()
    for thread in many:
        thread.join()
    assert len(asked) == 1
    assert not kept._under_way, "one lock a notebook would stay to the end"


def test_what_is_no_file_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "told")
        assert os.read(reader, 100) == b"told"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    (tmp_path / "folder").mkdir()
    with pytest.raises(BadInputError, match="cannot be written: Is a directory"):
        write_whole(tmp_path / "folder", "told")


@pytest.mark.parametrize("end", [BadInputError("no room for temporary files"), KeyboardInterrupt])
def test_a_file_whose_parts_end_half_way_is_as_it_was(
    end: BaseException | type[BaseException], tmp_path: Path
) -> None:
    def parts() -> Iterator[str]:
        yield "half"
        raise end

    path = tmp_path / "class.html"
    write_whole(path, "whole")
    with pytest.raises((BadInputError, KeyboardInterrupt)):
        write_whole(path, parts())
    assert [(left.name, left.read_text()) for left in tmp_path.iterdir()] == [
        ("class.html", "whole")
    ]


def test_an_unwritable_folder_is_told(tmp_path: Path) -> None:
    kept = Results(tmp_path / "results", {})
    shutil.rmtree(tmp_path / "results")
    with pytest.raises(BadInputError, match="cannot be written"):
        kept.of(M2, "aa", report)
