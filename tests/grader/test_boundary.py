"""A walled room shows a notebook nothing of the machine, and takes nothing from one to the next."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from grader import seccomp
from grader.errors import BadInputError
from grader.host import Host
from grader.limits import Limits
from grader.linux import task_clock
from grader.notebook import Cell
from grader.places import Places
from grader.room import Room, open_room
from grader.view import refuse_to_show
from milestones.spec import Call

WarmHost = pytest.importorskip("grader.warm", reason="needs Linux").WarmHost

ROOT = Path(__file__).parents[2]
PLACES = Places(ROOT / "data", ROOT / "data" / "public_split" / "questions")


@pytest.fixture(scope="module")
def as_a_user(walled: Host) -> Iterator[Host]:
    """Rooms as an ordinary user gets them, who must enter a user namespace first."""
    assert walled.walled
    with TemporaryDirectory() as scratch, contextlib.closing(WarmHost(Path(scratch), ())) as host:
        yield host


@pytest.fixture(params=["as found", "as a user"])
def room(request: pytest.FixtureRequest, walled: Host) -> Iterator[Room]:
    way = walled if request.param == "as found" else request.getfixturevalue("as_a_user")
    with open_room(PLACES, Limits(), host=way) as opened:
        yield opened


def found(room: Room, source: str) -> Any:
    """What a cell leaves in `found`."""
    assert room.run_cell(Cell(0, source)) is None
    call = Call(id="found", function="found", args={}, returns="json", variable=True)
    answer = room.ask(call)
    assert answer.problem is None, answer.problem
    return answer.value


@pytest.mark.parametrize("space", ["user", "mnt", "pid", "net", "ipc", "uts"])
def test_a_notebook_has_namespaces_of_its_own(space: str, room: Room) -> None:
    inside = found(room, f"import os\nfound = os.readlink('/proc/self/ns/{space}')")
    assert inside.startswith(f"{space}:[")
    assert inside != str(Path(f"/proc/self/ns/{space}").readlink())


def test_a_notebook_sees_no_process_but_its_own(room: Room) -> None:
    cell = "import os\nfound = sorted(int(n) for n in os.listdir('/proc') if n.isdigit())"
    assert found(room, cell) == [1, 2]


def test_a_notebook_has_no_right_and_can_gain_none(room: Room) -> None:
    cell = (
        "found = {line.split(':')[0]: line.split()[1] for line in open('/proc/self/status')"
        " if line.startswith(('Cap', 'NoNewPrivs', 'Seccomp:'))}"
    )
    status = found(room, cell)
    assert {int(status[name], 16) for name in status if name.startswith("Cap")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == ("2" if seccomp.known_machine() else "0")


def test_a_notebook_sees_only_libraries_and_the_public_data(room: Room, walled: Host) -> None:
    cell = (
        "import os\nfound = {}\n"
        "for folder, _, names in os.walk('/'):\n"
        "    if not folder.startswith(('/proc', '/dev')):\n"
        "        found.setdefault('/'.join(folder.split('/')[:3]), []).extend(names)"
    )
    # the walk lists too many names for one answer, so the cell keeps the tops of the trees
    tops = set(found(room, f"{cell}\nfound = sorted(found)"))
    shown = {"/".join(Path(path).parts[:3]).replace("//", "/") for path in walled.shown}
    allowed = {"/", "/course", "/course/data", "/course/notebooks", "/home/student", "/var/tmp"}
    allowed |= {"/tmp", "/run", "/home", "/var", "/tmp/ipython"}
    allowed |= {str(part) for path in walled.shown for part in Path(path).parents}
    beyond = {
        top
        for top in tops - allowed - shown
        if not top.startswith(("/usr/", "/etc", *(f"{path}/" for path in walled.shown)))
    }
    assert beyond == set()


def test_a_notebook_sees_no_part_of_this_repository_but_the_public_data(room: Room) -> None:
    inside = found(
        room,
        f"import os\nfound = os.listdir({str(ROOT)!r}) if os.path.isdir({str(ROOT)!r}) else []",
    )
    assert set(inside) <= {".venv"}, "where the interpreter lies in the repository, it alone"


def test_the_public_data_cannot_be_changed(room: Room) -> None:
    for act in ("open('../data/train.csv', 'a')", "__import__('os').remove('../data/train.csv')"):
        error = room.run_cell(Cell(0, act))
        assert error is not None
        assert error.startswith(("PermissionError", "OSError: [Errno 30] Read-only file system"))


@pytest.mark.parametrize(
    "folder", ["/usr", "/etc", "/course", "/", "/bin", str(Path(os.__file__).parent)]
)
def test_what_a_notebook_writes_outside_its_folders_is_gone_with_it(
    folder: str, walled: Host
) -> None:
    for _ in range(2):  # the second room would find what the first one left
        with open_room(PLACES, Limits(), host=walled) as room:
            cell = (
                f"import os\npath = os.path.join({folder!r}, 'left')\n"
                "assert not os.path.exists(path)\n"
                "try: open(path, 'w').close()\nexcept OSError: pass"
            )
            assert room.run_cell(Cell(0, cell)) is None
    assert not (Path(folder) / "left").exists()


@pytest.mark.parametrize(
    ("limits", "cell", "sentence"),
    [
        (
            Limits(disk_bytes=20 * 2**20),
            "open('a', 'wb').write(bytes(15_000_000))\nopen('b', 'wb').write(bytes(15_000_000))",
            "No space left on device",
        ),
        (
            Limits(disk_files=200),
            "for i in range(300): open(f'{i}', 'w').close()",
            "No space left on device",
        ),
        (Limits(open_files=64), "kept = [open('/dev/null') for _ in range(99)]", "Too many open"),
    ],
    ids=["disk", "files", "open-files"],
)
def test_what_a_notebook_uses_is_bounded(
    limits: Limits, cell: str, sentence: str, walled: Host
) -> None:
    with open_room(PLACES, limits, host=walled) as room:
        assert sentence in str(room.run_cell(Cell(0, cell)))


# Each line is a trace that one notebook could leave for the next one in the same warm process.
TRACES = {
    "environment": ("os.environ['LEFT'] = '1'", "dict(os.environ)"),
    "modules": ("sys.modules['left'] = os", "sorted(sys.modules)"),
    "path": ("sys.path.insert(0, '/tmp')", "sys.path"),
    "folder": ("os.chdir('/tmp')", "os.getcwd()"),
    "files": ("open('left', 'w')", "[sorted(os.listdir(d)) for d in ('.', '/tmp', '/dev/shm')]"),
    "home": (
        "os.makedirs(os.path.expanduser('~/.config'))",
        "sorted(os.listdir(os.path.expanduser('~')))",
    ),
    "builtins": ("import builtins; builtins.left = 1", "sorted(dir(__import__('builtins')))"),
    "random": ("random.random()", "random.random()"),
    "numpy-random": ("np.random.rand(9)", "float(np.random.rand())"),
    "numpy-errors": ("np.seterr(all='raise')", "np.geterr()"),
    "numpy-printing": ("np.set_printoptions(precision=1)", "str(np.get_printoptions())"),
    "pandas-options": (
        "pd.set_option('display.max_rows', 3)",
        "pd.get_option('display.max_rows')",
    ),
    "pandas-functions": ("pd.read_csv = None", "pd.read_csv is None"),
    "matplotlib": (
        "import matplotlib as m; m.rcParams['lines.linewidth'] = 9",
        "__import__('matplotlib').rcParams['lines.linewidth']",
    ),
    "backend": (
        "import matplotlib; matplotlib.use('svg')",
        "__import__('matplotlib').get_backend()",
    ),
    "warnings": ("warnings.simplefilter('error')", "str(warnings.filters)"),
    "threads": (
        "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
        "threading.active_count()",
    ),
    "thread-pools": (
        "from concurrent.futures import ThreadPoolExecutor as Pool\n"
        "kept = Pool(2); kept.submit(abs, 1)",
        "len(os.listdir('/proc/self/task'))",
    ),
    "processes": (
        "import subprocess; kept = subprocess.Popen(['sleep', '99'])",
        "sum(name.isdigit() for name in os.listdir('/proc'))",
    ),
    "open-files": ("kept = open('/dev/zero')", "sorted(os.listdir('/proc/self/fd'))"),
    "limits": ("resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
               "resource.getrlimit(resource.RLIMIT_NOFILE)"),
    "recursion": ("sys.setrecursionlimit(50_000)", "sys.getrecursionlimit()"),
    "collector": ("gc.disable()", "gc.isenabled()"),
    "signals": (
        "signal.signal(signal.SIGUSR1, signal.SIG_IGN)",
        "str(signal.getsignal(signal.SIGUSR1))",
    ),
    "locale": ("locale.setlocale(locale.LC_ALL, 'C.UTF-8')", "locale.setlocale(locale.LC_ALL)"),
    "umask": ("os.umask(0o077)", "os.umask(0o022)"),
    "decimal": (
        "decimal.getcontext().prec = 3",
        "str(decimal.getcontext().prec)",
    ),
    "priority": ("os.nice(5)", "os.nice(0)"),
    "ipython": (
        "get_ipython().input_transformers_post.append(list)",
        "len(get_ipython().input_transformers_post)",
    ),
    "namespace": ("left = 1", "'left' in globals()"),
    "hooks": ("sys.settrace(lambda *a: None)", "str(sys.gettrace())"),
    "import-hooks": ("sys.meta_path.append(sys.meta_path[0])", "len(sys.meta_path)"),
    "exit": ("import atexit; atexit.register(print)", "__import__('atexit')._ncallbacks()"),
    "openmp": (
        "import threadpoolctl; threadpoolctl.threadpool_limits(7)",
        "[p['num_threads'] for p in __import__('threadpoolctl').threadpool_info()]",
    ),
}  # fmt: skip
IMPORTS = (
    "import decimal, gc, locale, os, random, resource, signal, sys, threading, time, warnings\n"
    "import numpy as np, pandas as pd\n"
)


@pytest.mark.parametrize("trace", TRACES)
def test_no_notebook_leaves_a_trace_for_the_next(trace: str, walled: Host) -> None:
    leave, look = TRACES[trace]
    seen = []
    for cell in (IMPORTS, f"{IMPORTS}{leave}", IMPORTS):
        with open_room(PLACES, Limits(), host=walled) as room:
            assert room.run_cell(Cell(0, cell)) is None
            seen.append(found(room, f"found = {look}"))
    before, within, after = seen
    assert within != before, "the trace must be one that can be found"
    assert after == before


def test_the_kernels_switches_cannot_be_turned(room: Room) -> None:
    for switch in ("kernel/core_pattern", "kernel/hostname", "vm/drop_caches"):
        cell = f"open('/proc/sys/{switch}', 'w').write('1')"
        error = str(room.run_cell(Cell(0, cell)))
        assert error.startswith(("PermissionError", "OSError: [Errno 30]")), error


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_of_system_calls_ends_in_a_decision_whatever_is_called(machine: str) -> None:
    code = seccomp.program(machine)
    steps = [struct.unpack_from("<HBBI", code, at) for at in range(0, len(code), 8)]
    for place, (kind, if_true, if_false, _) in enumerate(steps):
        if kind & 0x07 == 0x05:  # a jump
            assert place + 1 + max(if_true, if_false) < len(steps)
    assert steps[-1][0] == 0x06  # a return
    assert len(set(seccomp.DENIED.values())) == len(seccomp.DENIED)


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("ptrace", "0, 0, 0, 0"),
        ("unshare", "0x10000000"),
        ("keyctl", "0, -3, 0"),
        ("bpf", "0, 0, 0"),
        ("io_uring_setup", "1, 0"),
        ("mount", "0, 0, 0, 0, 0"),
    ],
)
def test_a_denied_system_call_fails_and_ends_nothing(call: str, arguments: str, room: Room) -> None:
    if not seccomp.known_machine():
        pytest.skip("no filter for this machine's system calls")
    number = seccomp.DENIED[call][0 if os.uname().machine == "x86_64" else 1]
    cell = (
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"found = [libc.syscall({number}, {arguments}), ctypes.get_errno()]"
    )
    assert found(room, cell) == [-1, errno.EPERM]


@pytest.mark.parametrize("family", ["AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG"])
def test_only_families_that_the_network_namespace_bounds_have_sockets(
    family: str, room: Room
) -> None:
    cell = f"import socket\nsocket.socket(socket.{family}, socket.SOCK_RAW)"
    assert str(room.run_cell(Cell(0, cell))).startswith("PermissionError")


def test_a_secret_inside_a_shown_folder_is_refused(tmp_path: Path) -> None:
    refuse_to_show([tmp_path / "split"], ["/usr"])
    with pytest.raises(BadInputError, match="lies inside"):
        refuse_to_show([tmp_path / "split"], ["/usr", str(tmp_path)])
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "split")
    with pytest.raises(BadInputError, match="lies inside"):
        refuse_to_show([link], [str(tmp_path / "split")])


def test_a_warm_process_that_was_killed_is_started_again(walled: Host) -> None:
    assert walled.walled
    with (
        TemporaryDirectory() as scratch,
        contextlib.closing(WarmHost(Path(scratch), ())) as host,
        open_room(PLACES, Limits(), host=host) as before,
    ):
        host._zygote._process.kill()
        with open_room(PLACES, Limits(), host=host) as after:
            assert found(after, "found = 7") == 7
        assert found(before, "found = 8") == 8, "a room outlives the process it was forked from"


def test_a_room_counts_the_cpu_of_children_that_nobody_waits_for(room: Room) -> None:
    cell = (
        "import os, signal, time\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "for _ in range(20):\n"
        "    if os.fork() == 0:\n"
        "        end = time.process_time() + 0.1\n"
        "        while time.process_time() < end: pass\n"
        "        os._exit(0)\n"
        "    try: os.wait()\n    except ChildProcessError: pass"
    )
    if (clock := task_clock()) is None:
        pytest.skip("this kernel gives no clock of a family's CPU time")
    os.close(clock)
    assert room.run_cell(Cell(0, cell)) is None
    assert room._body.cpu_s() >= 2.0  # twenty children of a tenth each


def test_memory_in_sockets_is_bounded_by_their_number(room: Room) -> None:
    cell = (
        "import socket, time\nkept = []\n"
        "for _ in range(200): kept += socket.socketpair()\ntime.sleep(5)"
    )
    assert "at 256 sockets" in str(room.run_cell(Cell(0, cell)))


def test_python_that_is_reached_over_a_link_has_its_libraries(walled: Host, tmp_path: Path) -> None:
    assert walled.walled
    link = tmp_path / "by-a-link"
    link.symlink_to(ROOT)
    python = link / Path(sys.executable).relative_to(ROOT)
    if not python.exists():
        pytest.skip("this interpreter does not lie in the repository")
    look = (
        "from grader.warm import open_warm\n"
        "with open_warm() as host: print(host.walled, sorted(host.shown))"
    )
    run = subprocess.run(
        [str(python), "-c", look], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.stdout.startswith("True"), run.stderr
    assert str(link) in run.stdout


def test_a_room_ends_with_its_keeper(room: Room) -> None:
    assert found(room, "found = 1") == 1
    first = room._body._first  # type: ignore[attr-defined]
    keeper = first.parent()
    keeper.kill()
    _, alive = psutil.wait_procs([first], timeout=10)
    assert not alive
