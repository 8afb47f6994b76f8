"""Where a machine gives no boundary `grader class` says so and refuses; root or not, it works."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.host import Host
from grader.split import Split
from tests.conftest import WriteNotebook

ROOT = Path(__file__).parents[2]
NO_NAMESPACES = (  # an ordinary user whose system has turned user namespaces off
    "echo 0 > /proc/sys/user/max_user_namespaces && "
    "exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs "
)


def grader_class(
    submissions: Path, split: Split, out: Path, *options: str, before: str = "", user: str = ""
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "grader", "class", str(submissions), "--split",
               str(split.folder), "--out", str(out), *options]  # fmt: skip
    if before:
        for tool in ("unshare", "setpriv"):
            if shutil.which(tool) is None:
                pytest.skip(f"needs {tool} (util-linux) to make such a machine")
        quoted = " ".join(f"'{part}'" for part in command)
        command = ["unshare", "--user", *user.split(), "sh", "-c", f"{before}{quoted}"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in run.stdout + run.stderr
    return run


@pytest.fixture
def submissions(write_notebook: WriteNotebook, tmp_path: Path) -> Path:
    folder = tmp_path / "submissions"
    (folder / "ann").mkdir(parents=True)
    cell = "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n    return 1"
    write_notebook(cell).rename(folder / "ann" / "m2_kv_bytes.ipynb")
    return folder


def test_without_namespaces_a_class_is_refused_and_nothing_written(
    submissions: Path, m2_split: Split, tmp_path: Path, walled: Host
) -> None:
    assert walled.walled
    out = tmp_path / "out"
    run = grader_class(submissions, m2_split, out, before=NO_NAMESPACES, user="--map-root-user")
    assert run.returncode == 2
    assert "this machine gives no boundary around a notebook" in run.stderr
    assert "--trust-submissions" in run.stderr
    assert not out.exists()


def test_without_namespaces_trusted_hand_ins_are_graded_and_it_is_said(
    submissions: Path, m2_split: Split, tmp_path: Path, walled: Host
) -> None:
    assert walled.walled
    out = tmp_path / "out"
    run = grader_class(
        submissions, m2_split, out, "--trust-submissions",
        before=NO_NAMESPACES, user="--map-root-user",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "No boundary" in run.stderr
    assert "with your own rights" in run.stderr
    assert "ann,m2_kv_bytes,0,15,graded" in (out / "grades.csv").read_text()


def test_an_ordinary_user_gets_walled_rooms(
    submissions: Path, m2_split: Split, tmp_path: Path, walled: Host
) -> None:
    assert walled.walled
    out = tmp_path / "out"
    run = grader_class(
        submissions, m2_split, out, before="exec ", user="--map-user=1234 --map-group=1234"
    )
    assert run.returncode == 0, run.stderr
    assert "with an operating-system boundary" in run.stderr
    assert "ann,m2_kv_bytes,0,15,graded" in (out / "grades.csv").read_text()


def test_trust_is_not_taken_where_there_is_a_boundary(
    submissions: Path, m2_split: Split, tmp_path: Path, walled: Host
) -> None:
    assert walled.walled
    run = grader_class(submissions, m2_split, tmp_path / "out", "--trust-submissions")
    assert run.returncode == 0, run.stderr
    assert "with an operating-system boundary" in run.stderr
