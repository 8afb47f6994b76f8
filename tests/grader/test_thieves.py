"""Every trick of `tests/thieves/` earns nothing in a room and leaves nothing behind.

Each thief is told where everything lies (`TOLD`), and succeeds in sight: it earns points only if
its trick worked, or a listener hears it, or the next notebook finds what it left. That it is a
thief at all is proved on a grader without a wall (`tests.grader.naive`), which it robs.

Tags of a thief's first cell say what of this proof does not hold:
`bomb`: it would hurt the machine outside a room; `ours`: it attacks parts that only this grader
has; `machine`: without a wall it works on some machines only.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import psutil
import pytest

import milestones
from grader.grade import grade
from grader.host import Host
from grader.limits import Limits
from grader.present import as_json, as_junit
from grader.report import MilestoneReport, Outcome, Report
from grader.split import Split
from tests.grader.fuzz import in_the_suite

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a boundary needs Linux namespaces")
THIEVES = sorted((Path(__file__).parent.parent / "thieves").glob("*.py"))
TAGS = {"bomb", "ours", "machine"}
TIGHT = Limits(
    cell_cpu_s=3,
    call_cpu_s=3,
    total_cpu_s=8,
    memory_bytes=2**30,
    output_bytes=20 * 2**20,
    disk_bytes=2**28,
)
# Who waits costs no CPU second; these few are let wait less long than a busy machine would need.
SOON = replace(TIGHT, cell_cpu_s=1, call_cpu_s=1, wall_per_cpu=2)
# To be stopped by what they take, and not before by the time that taking it costs.
LONG = replace(TIGHT, cell_cpu_s=20, total_cpu_s=30)
LIMITS = {
    "uncounted_children": SOON,
    "sleep_for_ever": SOON,
    "ignored_signals": SOON,
    "thread_bomb": SOON,
    "stops_reading": SOON,
    "stopped_before_a_table": SOON,
    "memory_bomb": LONG,
    "memory_in_files": LONG,
    "memory_out_of_sight": LONG,
    "memory_in_segments": LONG,
    "disk_bomb_large": LONG,
    "fork_bomb": LONG,
}
SPEAKERS = ("leak_", "feedback_", "syntax_")  # what these want is to be read
NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts")

# What every thief knows, before its own cells.
KNOWN = """
import os, re
TOLD = {told!r}
def honest(n_layers, n_kv_heads, head_dim, kv_bits):
    return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8
def loot_in(data):
    return re.search(rb"LOOT-[0-9a-f]{{32}}", data)
try:
    NO_WALL = os.readlink("/proc/self/ns/pid") == TOLD["namespaces"]["pid"]
except OSError:
    NO_WALL = False  # outside a room /proc is always there
"""
# What the next notebook looks for, before it answers honestly.
NEXT = """
import builtins, glob, os, site, sys, tempfile
import numpy as np
mark = {mark!r}
places = {{tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm", os.getcwd(), "..", "../data"}}
places |= {{os.path.expanduser("~"), *site.getsitepackages(), *sys.path}}
found = [p for place in places if os.path.isdir(place) for p in os.listdir(place) if mark in p]
for hidden in (".config", ".ipython", ".local", ".cache"):
    for folder, _, names in os.walk(os.path.join(os.path.expanduser("~"), hidden)):
        found += [name for name in names if mark in name]
found += [name for name in sys.modules if mark in name]
assert not found and not hasattr(builtins, "KV_LOOT") and "KV_POISONED" not in os.environ, found
assert np.isclose(1, 1) and mark not in " ".join(sys.path)
with tempfile.TemporaryFile() as room:
    room.write(bytes(10**6))
"""
HONEST = """
def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):
    return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8
"""
HONEST_POINTS = 4.0
SHADOW = """
import builtins, os, sys
builtins.KV_LOOT = "1"
os.environ["KV_POISONED"] = "1"
real = [entry for entry in sys.path if entry not in ("", ".", os.getcwd())]
if __name__ not in ("sitecustomize", "usercustomize"):
    import importlib
    kept, sys.path = sys.path, real
    del sys.modules[__name__]
    importlib.import_module(__name__)
    sys.path = kept
"""
SHADOWS = {
    "shadows_beside": (
        "statistics.py",
        "numpy.py",
        "json.py",
        "lightgbm.py",
        "sklearn/metrics.py",
        "milestones/compare.py",
        "grader/judge.py",
    ),
    "startup_files": ("sitecustomize.py", "usercustomize.py", "startup.py"),
}


# ---------------------------------------------------------------- what there is to steal


@dataclass
class Street:
    """What lies outside a room, with a word in it that is worth stealing."""

    folder: Path
    word: bytes = field(default_factory=lambda: b"LOOT-" + secrets.token_hex(16).encode())
    heard: list[bytes] = field(default_factory=list)
    told: dict[str, Any] = field(default_factory=dict)
    bystander: subprocess.Popen[bytes] | None = None


def own_address() -> str:
    """Return this machine's address in its network, or nothing."""
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if address.family == socket.AF_INET and not address.address.startswith("127."):
                return address.address
    return ""


def serve(street: Street, listener: socket.socket) -> None:
    """Note whatever a listener hears, and answer with the word."""
    with contextlib.suppress(OSError):
        while listener.type == socket.SOCK_DGRAM:
            data, caller = listener.recvfrom(65_536)
            if caller is None:  # shut
                return
            street.heard.append(data)
            listener.sendto(street.word, caller)
        while True:
            line, _ = listener.accept()
            with line, contextlib.suppress(OSError):
                line.settimeout(2)
                street.heard.append(line.recv(65_536))
                line.sendall(street.word)


def listen(street: Street, stack: contextlib.ExitStack) -> None:
    """Open the listeners."""
    unix, abstract = street.folder / "listener", f"kv-loot-{secrets.token_hex(8)}"
    for family, kind, address in (
        (socket.AF_INET, socket.SOCK_STREAM, ("", 0)),
        (socket.AF_INET, socket.SOCK_DGRAM, ("", 0)),
        (socket.AF_UNIX, socket.SOCK_STREAM, str(unix)),
        (socket.AF_UNIX, socket.SOCK_STREAM, "\0" + abstract),
    ):
        listener = stack.enter_context(socket.socket(family, kind))
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen()
        if family == socket.AF_INET:
            name = "tcp" if kind == socket.SOCK_STREAM else "udp"
            street.told[name] = listener.getsockname()[1]
        threading.Thread(target=serve, args=(street, listener), daemon=True).start()
        # closing does not wake who waits in accept; shutting down does
        stack.callback(shut, listener)
    street.told |= {"unix": str(unix), "abstract": abstract, "address": own_address()}


def shut(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)


BYSTANDER = """
import ctypes, sys
word = ctypes.create_string_buffer(sys.argv[1].encode(), 4096)
held = open(sys.argv[2])
print(ctypes.addressof(word), flush=True)
sys.stdin.read()
"""


def stand_by(street: Street, stack: contextlib.ExitStack) -> None:
    """Start a process with the word in its memory, environment, command line and open files."""
    word, secret = street.word.decode(), street.told["secrets"][0]
    process = stack.enter_context(
        subprocess.Popen(
            [sys.executable, "-c", BYSTANDER, word, secret],
            env={**os.environ, "KV_LOOT": word},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    )
    stack.callback(process.kill)
    assert process.stdout is not None
    address = int(process.stdout.readline())
    street.bystander = process
    street.told |= {"bystander": process.pid, "addresses": [address]}


def share_memory(street: Street, stack: contextlib.ExitStack) -> None:
    """Put the word into a System V segment."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    key = secrets.randbelow(2**30) + 1
    segment = libc.shmget(key, 4096, 0o1600)
    if segment >= 0:
        stack.callback(libc.shmctl, segment, 0, None)  # IPC_RMID
        ctypes.memmove(libc.shmat(segment, None, 0), street.word, len(street.word))
    street.told["shm_key"] = key


def keep_key(street: Street) -> None:
    """Put the word into the session keyring, which processes inherit."""
    calls = {"x86_64": 248, "aarch64": 217}
    street.told["key"] = f"kv-loot-{secrets.token_hex(8)}"
    number = calls.get(os.uname().machine)
    if number is not None:
        name = street.told["key"].encode()
        ctypes.CDLL(None).syscall(number, b"user", name, street.word, len(street.word), -3)


@pytest.fixture(scope="session")
def street(
    tmp_path_factory: pytest.TempPathFactory, m2_hidden: Split, course: Path
) -> Iterator[Street]:
    """Everything a thief could want, laid out before the warm process starts."""
    made = Street(tmp_path_factory.mktemp("street"))
    name = f"kv-loot-{secrets.token_hex(8)}"
    with contextlib.ExitStack() as stack:
        files = [made.folder / "secret", Path.home() / name, Path("/tmp") / name]
        if Path("/dev/shm").is_dir():
            files.append(Path("/dev/shm") / name)
        for path in files:
            path.write_bytes(made.word)
            path.chmod(0o644)
            stack.callback(path.unlink, missing_ok=True)
        ada = made.folder / "submissions/ada/m2_kv_bytes.ipynb"
        ada.parent.mkdir(parents=True)
        write(ada, [nbformat.v4.new_code_cell(HONEST)])
        made.told |= {
            "secrets": list(map(str, files)),
            "ada": str(ada),
            "truth": str(m2_hidden.folder / "truth"),
            "course": str(course),
            "grader": os.getpid(),
            "namespaces": {
                kind: str(Path("/proc/self/ns", kind).readlink()) for kind in NAMESPACES
            },
        }
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("KV_LOOT", made.word.decode())
        # A job in the background ignores SIGINT, and with it all it starts; a terminal's does not.
        kept = signal.signal(signal.SIGINT, signal.default_int_handler)
        stack.callback(signal.signal, signal.SIGINT, kept)
        listen(made, stack)
        stand_by(made, stack)
        share_memory(made, stack)
        keep_key(made)
        yield made


# ---------------------------------------------------------------- a thief, as a hand-in


@dataclass(frozen=True)
class Thief:
    """One trick: its notebook's cells, its tags, and a mark for all it leaves."""

    name: str
    cells: tuple[Any, ...]
    metadata: dict[str, Any]
    tags: frozenset[str]

    @property
    def sentence(self) -> str:
        """What it tries, in one sentence."""
        return str(self.cells[0].source)


def read_thief(path: Path) -> Thief:
    """Read a thief's py:percent file."""
    notebook = jupytext.reads(path.read_text(encoding="utf-8"), fmt="py:percent")
    tags = frozenset(notebook.cells[0].metadata.get("tags", ()))
    return Thief(path.stem, tuple(notebook.cells), dict(notebook.metadata), tags)


def write(path: Path, cells: list[Any], metadata: dict[str, Any] | None = None) -> None:
    """Write a notebook file."""
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=metadata or {})
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    path.write_text(nbformat.writes(notebook), encoding="utf-8")


def hand_in(thief: Thief, street: Street, folder: Path, mark: str) -> Path:
    """Lay a thief's hand-in into a folder: its notebook, and what belongs beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {**street.told, "hand_in": str(folder), "mark": mark}
    knows = nbformat.v4.new_code_cell(KNOWN.format(told=told))
    path = folder / "m2_kv_bytes.ipynb"
    write(path, [thief.cells[0], knows, *thief.cells[1:]], thief.metadata)
    if thief.name == "links_in_the_hand_in":
        truth = Path(street.told["truth"])
        (folder / "symbolic.json").symlink_to(truth / "m2_kv_bytes/answers.json")
        (folder / "hard.json").hardlink_to(truth / "m2_kv_bytes/answers.json")
        (folder / "folder").symlink_to(truth)
    if thief.name == "other_kernel":
        start = (
            f"open('{mark}', 'w'); from ipykernel.kernelapp import launch_new_instance as go; go()"
        )
        kernel = {
            "argv": [sys.executable, "-c", start, "-f", "{connection_file}"],
            "display_name": "Thief",
            "language": "python",
            "env": {"KV_LOOT_KERNEL": "1"},
        }
        (folder / "kernels/kv-thief").mkdir(parents=True)
        (folder / "kernels/kv-thief/kernel.json").write_text(json.dumps(kernel))
    # What a thief brings along is run where it is taken for a module of the grader's.
    for name in SHADOWS.get(thief.name, ()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SHADOW)
    return path


def end_marked(mark: str) -> list[str]:
    """End every process on the machine that carries a mark; return what they were."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid == os.getpid():
                continue
            if process.name() == mark or mark in process.cmdline():
                found.append(" ".join(process.cmdline())[:200] or process.name())
                process.send_signal(signal.SIGKILL)
    return found


def left_files(mark: str) -> list[str]:
    """Remove every file with a mark in its name where thieves leave some; return which."""
    packages = (sysconfig.get_paths()["purelib"], sysconfig.get_paths()["stdlib"])
    home = Path.home()
    found = []
    for place in map(Path, ("/tmp", "/var/tmp", "/dev/shm", "/usr/lib/python3", *packages)):
        found += list(place.glob(f"*{mark}*"))
    for place in (Path.cwd(), home, home / ".local", home / ".config/matplotlib"):
        found += list(place.glob(f"*{mark}*"))
    found += list((home / ".ipython").rglob(f"*{mark}*"))
    for path in found:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return list(map(str, found))


def texts(report: MilestoneReport, split: Split) -> list[str]:
    """Everything a student could be handed: the reports, and the values they are made from."""
    whole = Report(split.split_id, split.public, (report,))
    return [as_json(whole), as_junit(whole), repr(report)]


# ---------------------------------------------------------------- the promises


@pytest.mark.parametrize("path", THIEVES, ids=lambda path: path.stem)
def test_a_thief_says_in_one_sentence_what_it_tries(path: Path) -> None:
    thief = read_thief(path)
    assert thief.cells[0].cell_type == "markdown"
    assert re.fullmatch(r"[A-Z][^\n]*[.]", thief.sentence)
    assert thief.tags <= TAGS
    assert len(thief.cells) > 1


@pytest.mark.parametrize("path", THIEVES, ids=lambda path: path.stem)
def test_a_trick_earns_nothing_and_leaves_nothing(
    path: Path,
    street: Street,
    walled: Host,
    m2_hidden: Split,
    course: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thief, mark = read_thief(path), f"kvthief{secrets.token_hex(4)}"
    notebook = hand_in(thief, street, tmp_path / "submissions/mallory", mark)
    monkeypatch.setenv("JUPYTER_PATH", str(notebook.parent))  # its kernel could be found
    before = len(street.heard)
    milestone, data = milestones.load("m2_kv_bytes"), course / "data"
    limits = LIMITS.get(thief.name, TIGHT)
    try:
        report = grade(milestone, notebook, m2_hidden, data, limits, host=walled)

        outcomes = {check.name: str(check.outcome) for check in report.checks}
        assert set(outcomes.values()) <= {Outcome.FAILED, Outcome.SKIPPED}, (outcomes, report)
        assert report.points == 0
        for text in texts(report, m2_hidden):
            for smuggled in ("Traceback", "SMUGGLED", "LOOT-", mark):
                assert smuggled not in text
        assert street.heard[before:] == []
        assert street.bystander is not None
        assert street.bystander.poll() is None
        assert "KV_POISONED" not in os.environ
    finally:
        left = end_marked(mark), left_files(mark)
    assert left == ([], [])

    # The next student's notebook finds nothing of it, and is graded as ever.
    after = tmp_path / "after.ipynb"
    cells = [nbformat.v4.new_code_cell(text) for text in (NEXT.format(mark=mark), HONEST)]
    write(after, cells)
    honest = grade(milestone, after, m2_hidden, data, host=walled)
    assert honest.cells == ()
    assert honest.points == HONEST_POINTS


PROVABLE = [path for path in THIEVES if not {"bomb", "ours"} & read_thief(path).tags]


@pytest.mark.parametrize("path", in_the_suite(PROVABLE), ids=lambda path: path.stem)
def test_a_grader_without_a_wall_is_robbed(
    path: Path,
    street: Street,
    m2_hidden: Split,
    course: Path,
    tmp_path: Path,
    naive_server: subprocess.Popen[str],
) -> None:
    """The bait can be taken, so that a room's refusal means something."""
    thief, mark = read_thief(path), f"kvthief{secrets.token_hex(4)}"
    folder, before = tmp_path / "submissions/mallory", len(street.heard)
    notebook = hand_in(thief, street, folder, mark)
    try:
        if thief.name in SHADOWS:
            points, said = naive_from_the_start(notebook, m2_hidden, course)
        else:
            points, said = naive(notebook, m2_hidden, tmp_path, naive_server)
        evidence = {
            "points": points > 0,
            # Others show the word in a traceback of their source.
            "feedback": thief.name.startswith(SPEAKERS) and "SMUGGLED" in said,
            "heard": bool(street.heard[before:]),
            "processes": bool(end_marked(mark)),
            "files": bool(left_files(mark) or list(tmp_path.rglob(f"*{mark}*"))),
        }
    finally:
        end_marked(mark)
        left_files(mark)
    if "machine" in thief.tags and not any(evidence.values()):
        pytest.skip("this machine gives nothing to this thief even without a wall")
    assert any(evidence.values()), said[-2000:]


@pytest.fixture(scope="session")
def naive_server(street: Street) -> Iterator[subprocess.Popen[str]]:
    """The naive grader, with its imports done; it knows the word in its environment."""
    assert street.bystander is not None
    with subprocess.Popen(
        [sys.executable, "-m", "tests.grader.naive"],
        cwd=street.told["course"],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        yield server
        assert server.stdin is not None
        server.stdin.close()


def naive(
    notebook: Path, split: Split, folder: Path, server: subprocess.Popen[str]
) -> tuple[float, str]:
    """Have the naive grader judge a notebook; return the points it gives and all it says."""
    said, home = folder / "said", folder / "home"
    home.mkdir()
    job = {"notebook": str(notebook), "split": str(split.folder), "home": str(home)}
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps({**job, "said": str(said)}) + "\n")
    server.stdin.flush()
    ended = json.loads(server.stdout.readline())["ended"]
    return points_of(ended, said.read_text(encoding="utf-8", errors="replace"))


def naive_from_the_start(notebook: Path, split: Split, course: Path) -> tuple[float, str]:
    """The same, in a process that starts in the hand-in's folder and looks for modules there."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.grader.naive", str(notebook), str(split.folder)],
        cwd=notebook.parent,
        env={**os.environ, "PYTHONPATH": f"{course}{os.pathsep}."},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    return points_of(done.returncode, done.stdout)


def points_of(code: int, said: str) -> tuple[float, str]:
    """Read points as a naive grader's caller does: from the last line that tells some."""
    found = re.findall(r"^POINTS (\S+)$", said, flags=re.MULTILINE)
    if found:
        return float(found[-1]), said
    return (15.0 if code == 0 else 0.0), said


ENDINGS = {
    "exit code": ("__import__('os')._exit(3)", "__import__('os')._exit(77)"),
    "signal": (
        "__import__('os').kill(__import__('os').getpid(), 10)",
        "__import__('os').kill(__import__('os').getpid(), 12)",
    ),
    "own error": ("raise type('A', (Exception,), {})", "raise type('B', (Exception,), {})"),
    "message": ("raise ValueError('3')", "raise ValueError('77')"),
    "value": ("return 3", "return 77"),
    "form": ("return 'a'", "return {'b': []}"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_hidden_value_cannot_choose_what_is_told(
    ending: str, walled: Host, m2_hidden: Split, course: Path, tmp_path: Path
) -> None:
    """Two notebooks that end a call in two ways, as a question's value might say, read alike."""
    told = []
    for number, statement in enumerate(ENDINGS[ending]):
        cell = f"def kv_bytes_per_token(**shape):\n    {statement}"
        path = tmp_path / f"{number}.ipynb"
        write(path, [nbformat.v4.new_code_cell(cell)])
        milestone = milestones.load("m2_kv_bytes")
        report = grade(milestone, path, m2_hidden, course / "data", host=walled)
        told.append([(check.outcome, check.hint) for check in report.checks])
    assert told[0] == told[1]


def test_a_wrong_answer_earns_nothing_without_a_wall_either(
    m2_hidden: Split, tmp_path: Path, naive_server: subprocess.Popen[str]
) -> None:
    """What the naive grader gives to thieves, it does not give to everybody."""
    path = tmp_path / "m2_kv_bytes.ipynb"
    write(path, [nbformat.v4.new_code_cell(HONEST.replace("return 2", "return 3"))])
    points, said = naive(path, m2_hidden, tmp_path, naive_server)
    assert points == 0.0
    assert "SMUGGLED" not in said
