"""What a notebook may do, every check ends in a clear outcome and never in a traceback of ours."""

from __future__ import annotations

import contextlib
import io
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest
from rich.console import Console

import milestones
from grader.cold import COLD
from grader.grade import grade
from grader.host import Host
from grader.limits import Limits
from grader.perform import _without
from grader.present import as_json, as_junit, print_milestone
from grader.report import MilestoneReport, Outcome, Report
from grader.room import MAX_TOLD
from grader.split import Split
from milestones.spec import Call, Result
from tests.conftest import WriteNotebook

RIGHT = """
def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):
    return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8
"""
FORGED = "answer = 1\nsys.modules['grader.ask'].pack = lambda *a:"
TIGHT = Limits(cell_cpu_s=5, call_cpu_s=5, memory_bytes=2**30, output_bytes=20 * 2**20)
# For what may hang in any way and is not asked in which.
SOON = replace(TIGHT, cell_cpu_s=1, call_cpu_s=1, idle_s=2, wall_per_cpu=3)


def run(
    path: Path, split: Split, course: Path, host: Host, limits: Limits = TIGHT
) -> MilestoneReport:
    return grade(milestones.load("m2_kv_bytes"), path, split, course / "data", limits, host=host)


def hints(report: MilestoneReport) -> str:
    return " ".join(check.hint for check in report.checks)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("import os\nos._exit(0)", "ended its process in cell 1. It ended with exit code 0"),
        ("import os\nos.kill(os.getpid(), 11)", "process in cell 1. It ended by SIGSEGV"),
        ("import os\nos.kill(os.getpid(), 9)", "process in cell 1. It ended by SIGKILL"),
    ],
    ids=["exit", "segfault", "kill"],
)
def test_a_notebook_that_ends_its_process_fails_with_the_reason(
    cell: str, reason: str, write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    report = run(write_notebook(RIGHT, cell), m2_split, course, host)
    assert {check.outcome for check in report.checks} <= {Outcome.FAILED, Outcome.SKIPPED}
    assert report.points == 0
    assert reason in report.checks[0].hint
    assert "Traceback" not in hints(report)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("while True:\n    pass", "was stopped after 5 CPU seconds"),
        (
            "hoard = []\nwhile True:\n    hoard.append(b'x' * 50_000_000)",
            "was stopped at 1 GiB of memory",
        ),
        ("while True:\n    print('x' * 10_000)", "was stopped after printing 21 MB"),
        (
            "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "import time\nwhile True: pass",
            "was stopped after 5 CPU seconds",
        ),
    ],
    ids=["hang", "memory", "output", "ignored-sigterm"],
)
def test_an_endless_cell_costs_what_it_defines_and_nothing_else(
    cell: str, reason: str, write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    lost = f"def cache_gb(**shape):\n    return 1.0\n{cell}"
    report = run(write_notebook(RIGHT, lost, "1 / 0", ENDLESS[2]), m2_split, course, host)
    by_name = {check.name: check for check in report.checks}
    passed = {name for name, check in by_name.items() if check.outcome is Outcome.PASSED}
    assert passed == {"known_shapes", "other_shapes", "llama_3_8b_128k_gb"}
    assert by_name["cache_gb"].hint == "`cache_gb` is not defined."
    assert [(error.cell, error.told) for error in report.cells] == [
        (1, reason),
        (2, "raised ZeroDivisionError: division by zero"),
    ]
    assert report.stop is not None
    assert report.stop.why == f"{reason} in cell 1"


def test_what_is_endless_in_cells_and_calls_is_left_out_together(
    write_notebook: WriteNotebook, m2_split: Split, course: Path
) -> None:
    limits = replace(TIGHT, cell_cpu_s=1, call_cpu_s=1)
    cells = (RIGHT, "while True: pass", ENDLESS[0], "while 1: pass", ENDLESS[2])
    report = run(write_notebook(*cells), m2_split, course, COLD, limits)
    passed = {check.name for check in report.checks if check.outcome is Outcome.PASSED}
    assert passed == {"known_shapes", "other_shapes", "llama_3_8b_128k_gb"}
    assert [error.cell for error in report.cells] == [1, 3]


def test_what_is_left_in_all_is_told_as_the_bound_and_is_no_fault_of_ours(
    write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    cells = (RIGHT, "while True: pass", "while True: pass")
    # A kernel that is started for it may take up to 1.5 s of them on a slow machine.
    limits = replace(TIGHT, cell_cpu_s=2, total_cpu_s=3.5)
    report = run(write_notebook(*cells), m2_split, course, host, limits)
    assert [error.told for error in report.cells] == [
        "was stopped after 2 CPU seconds",
        "was stopped after 3.5 CPU seconds in all",
    ]
    # Of the little that is left here, starting the second process takes nothing.
    limits = replace(TIGHT, cell_cpu_s=1, total_cpu_s=1.2)
    report = run(write_notebook(*cells[:2]), m2_split, course, host, limits)
    assert report.count(Outcome.BROKEN) == 0


def test_sockets_that_a_quick_cell_leaves_open_are_told_of_it(
    write_notebook: WriteNotebook, m2_split: Split, course: Path, walled: Host
) -> None:
    many = "import socket\nkept = [socket.socketpair() for _ in range(200)]"
    report = run(
        write_notebook(many, "import time; time.sleep(0.5)", RIGHT), m2_split, course, walled
    )
    assert [(e.cell, e.told) for e in report.cells] == [(0, "was stopped at 256 sockets")]
    assert report.points == 4


SECOND_RUN = "import numpy as np\nif np.random.get_state()[1][0] == 1:\n    "


def test_a_cell_that_is_endless_in_the_second_run_alone_is_told(
    write_notebook: WriteNotebook, m2_split: Split, course: Path
) -> None:
    twice = replace(milestones.load("m2_kv_bytes"), runs=2)
    path = write_notebook(RIGHT, SECOND_RUN + "while True: pass")
    limits = replace(TIGHT, cell_cpu_s=1)
    report = grade(twice, path, m2_split, course / "data", limits)
    (told,) = report.cells
    assert told.told == "was stopped after 1 CPU seconds, when run a second time"
    assert report.points == 4


def test_what_waits_for_another_run_is_held_to_its_bounds(
    write_notebook: WriteNotebook, m2_split: Split, course: Path
) -> None:
    hoard = "import threading, time\nhoard = []\ndef grow():\n    while len(hoard) < 40:\n"
    hoard += "        hoard.append(b'x' * 50_000_000)\n        time.sleep(0.02)"
    start = (
        SECOND_RUN.replace("== 1", "== 0") + "threading.Thread(target=grow, daemon=True).start()"
    )
    path = write_notebook(RIGHT, hoard, start, SECOND_RUN + "while True: pass")
    twice = replace(milestones.load("m2_kv_bytes"), runs=2)
    limits = replace(TIGHT, cell_cpu_s=8, memory_bytes=2**29)
    report = grade(twice, path, m2_split, course / "data", limits)
    assert report.stop is not None
    assert report.stop.why == "was stopped at 0.5 GiB of memory after its last cell"


@pytest.mark.parametrize(
    ("cell", "is_left_out"),
    [("import os; os._exit(3)", False), ("1 / 0", False), ("while 1: pass", True)],
)
def test_only_a_cell_that_a_bound_stopped_is_said_to_be_left_out(
    cell: str, is_left_out: bool, write_notebook: WriteNotebook, m2_split: Split, course: Path
) -> None:
    limits = replace(TIGHT, cell_cpu_s=1)
    report = run(write_notebook(RIGHT, cell), m2_split, course, COLD, limits)
    console = Console(file=io.StringIO(), width=400)
    print_milestone(report, console)
    assert isinstance(console.file, io.StringIO)
    assert ("was left out" in console.file.getvalue()) is is_left_out


ENDLESS = (
    "import time\ndef kv_bytes_for_runs(runs):\n    while True:\n        pass",
    "def cache_gb(**shape):\n    time.sleep(600)",
    "understanding = {'llama_3_8b_128k_gb': 17.2}",
)


def test_an_endless_function_costs_its_own_checks_and_no_other(
    write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    limits = replace(TIGHT, call_cpu_s=1, idle_s=1)
    report = run(write_notebook(RIGHT, *ENDLESS), m2_split, course, host, limits)
    by_name = {check.name: check for check in report.checks}
    passed = {name for name, check in by_name.items() if check.outcome is Outcome.PASSED}
    assert passed == {"known_shapes", "other_shapes", "llama_3_8b_128k_gb"}
    stopped = "was stopped after 1 CPU seconds while `kv_bytes_for_runs` was answering"
    assert stopped in by_name["every_run"].hint
    assert "seconds of doing nothing while `cache_gb`" in by_name["cache_gb"].hint
    assert by_name["plain_configs"].hint == "`kv_bytes_from_config` is not defined."
    assert report.stop is not None
    assert report.stop.why == stopped


@pytest.mark.parametrize("total_cpu_s", [3.5, 10.0])
def test_the_others_are_asked_within_the_bounds_in_all(
    total_cpu_s: float, write_notebook: WriteNotebook, m2_split: Split, course: Path
) -> None:
    # Of 3.5 s a start takes up to 1.5 on a slow machine and the burning 2; of 10 s there is
    # enough for both twice, and for the call that is stopped between.
    burn = "import time\nend = time.process_time() + 2\nwhile time.process_time() < end: pass"
    limits = replace(TIGHT, call_cpu_s=1, total_cpu_s=total_cpu_s)
    report = run(write_notebook(burn, ENDLESS[0], ENDLESS[2]), m2_split, course, COLD, limits)
    passed = [check.name for check in report.checks if check.outcome is Outcome.PASSED]
    assert passed == ([] if total_cpu_s < 4 else ["llama_3_8b_128k_gb"])
    assert "`kv_bytes_for_runs` was answering" in hints(report)
    assert "in cell" not in hints(report)


def test_what_calls_build_on_is_asked_again_with_them() -> None:
    calls = [
        Call("a", "new", {}, returns="kept"),
        Call("b", "full", {}),
        Call("c", "step", {"cache": Result("a")}, returns="kept"),
        Call("d", "slow", {}),
        Call("e", "step", {"cache": Result("c", 1)}),
        Call("f", "slow", {"last": Result("e")}),
        Call("g", "full", {}),
    ]
    unasked, put = _without(calls[3], calls)
    assert [call.id for call in unasked] == ["e", "g"]
    assert [call.id for call in put] == ["a", "c", "e", "g"]
    unasked, put = _without(calls[0], calls)
    assert [call.id for call in put] == ["b", "c", "d", "e", "f", "g"]
    assert unasked == put


def test_calls_that_are_each_within_their_bound_do_not_add_up_without_end(
    write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    burn = "end = time.process_time() + 1\n    while time.process_time() < end: pass"
    slow = "import time\n" + RIGHT.replace("    return", f"    {burn}\n    return")
    limits = Limits(cell_cpu_s=5, call_cpu_s=5, total_cpu_s=4)
    report = run(write_notebook(slow), m2_split, course, host, limits)
    assert "was stopped after 4 CPU seconds in all" in hints(report)


def test_a_notebook_that_sleeps_is_stopped_long_before_one_that_gets_no_processor(
    write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    limits = Limits(idle_s=1)
    report = run(
        write_notebook(RIGHT, "import time\ntime.sleep(600)"), m2_split, course, host, limits
    )
    assert report.stop is not None
    assert report.stop.why == "was stopped after 1 seconds of doing nothing in cell 1"
    busy = "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass"
    assert run(write_notebook(RIGHT, busy), m2_split, course, host, limits).cells == ()


def test_many_short_cells_do_not_add_up_without_end(
    write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    burn = "import time\nend = time.process_time() + 0.03\nwhile time.process_time() < end: pass"
    limits = Limits(total_cpu_s=3)
    report = run(write_notebook(*[burn] * 300), m2_split, course, host, limits)
    assert "was stopped after 3 CPU seconds in all in cell" in hints(report)


def test_what_a_room_says_is_kept_short(
    write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    cell = (
        "import sys\n"
        "sys.modules['grader.child'].describe = lambda error: 'x' * 1_000_000\nraise ValueError"
    )
    report = run(write_notebook(cell), m2_split, course, host)
    assert report.cells[0].error.startswith("xxx")
    assert len(report.cells[0].error) == MAX_TOLD


@pytest.mark.parametrize(
    "cell",
    [
        "exit()",
        "import sys\nsys.exit(3)",
        "raise KeyboardInterrupt",
        "1 / 0",
        "this is no python",
        "input('your name? ')",
        "int('x' * 100_000)",
    ],
)
def test_a_cell_that_raises_costs_only_what_it_would_have_defined(
    cell: str, write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    report = run(write_notebook(cell, RIGHT), m2_split, course, host)
    passed = [check.name for check in report.checks if check.outcome is Outcome.PASSED]
    assert passed == ["known_shapes", "other_shapes"]
    if cell != "exit()":  # IPython takes exit() as a wish to leave, not as an error
        assert [raised.cell for raised in report.cells] == [0]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("'327680'", "The text '327680'"),
        ("float('nan')", "nan where a finite number was expected"),
        ("float('inf')", "inf where a finite number was expected"),
        ("-1", "-1"),
        ("None", "None"),
        ("1j", "a complex number"),
        ("[1, 2]", "A list of 2"),
        ("{'bytes': 1}", "A dict with bytes"),
        ("True", "The truth value True"),
        ("10 ** 400", "a whole number of 1,329 bits"),
        ("[[]] * 300_000", "more than 200,000 values"),
        ("[10 ** 100] * 20_000", "MB of values"),
        ("object()", "an object"),
        ("lambda: 1", "a function"),
        ("iter([1])", "a list_iterator"),
        ("1 / 0", "raised ZeroDivisionError: division by zero"),
        ("exit()", "the notebook"),
        ("__import__('sys').exit('bye')", "raised SystemExit: bye"),
        ("(lambda f: f(f))(lambda f: f(f))", "raised RecursionError"),
        ("__import__('numpy').datetime64('2026-01-01')", "a datetime64"),
    ],
)
def test_a_wrong_kind_of_answer_is_named(
    value: str,
    reason: str,
    write_notebook: WriteNotebook,
    m2_split: Split,
    course: Path,
    any_host: Host,
) -> None:
    if value == "exit()":
        value, reason = "exit(7)", "raised"
    cell = f"def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n    return {value}"
    report = run(write_notebook(cell), m2_split, course, any_host)
    first = report.checks[0]
    assert first.outcome is Outcome.FAILED
    assert reason in first.hint
    assert first.points == 0


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("runs.n_layers[:10]", "shape (10,)"),
        ("runs.n_layers * float('nan')", "Off in 4,000 of 4,000"),
        ("runs.n_layers.astype(complex)", "complex"),
        ("runs.model", "where numbers were expected"),
        ("runs", "where numbers were expected"),
        ("runs.n_layers.astype(str)", "where numbers were expected"),
        ("5", "an int where an array was expected"),
        ("[[1], [2, 3]]", "a ragged list"),
    ],
)
def test_a_wrong_kind_of_array_is_named(
    value: str,
    reason: str,
    write_notebook: WriteNotebook,
    m2_split: Split,
    course: Path,
    any_host: Host,
) -> None:
    cell = f"def kv_bytes_for_runs(runs):\n    return {value}"
    report = run(write_notebook(cell), m2_split, course, any_host)
    check = next(check for check in report.checks if check.name == "every_run")
    assert check.outcome is Outcome.FAILED
    assert reason in check.hint


@pytest.mark.parametrize(
    "vandalism",
    [
        "sys.modules['grader.wire'].MAX_INT_BITS = 10**9\nanswer = 10**400",
        f"{FORGED} ('npy', b'PK\\x03\\x04' + bytes(60))",
        f"{FORGED} ('npy', b'\\x93NUMPY\\x01\\x00\\x10\\x00{{')",
        f"{FORGED} ('json', b'null')",
        f"{FORGED} ('json', b'{{}}')",
        f'{FORGED} (\'json\', b\'{{"raised": [], "message": ""}}\')',
        f'{FORGED} (\'json\', b\'{{"raised": ["ValueError"], "message": 5}}\')',
        f'{FORGED} (\'json\', b\'{{"raised": 7, "message": "x"}}\')',
        f"{FORGED} ('none', b'')",
        f"{FORGED} 5",
    ],
)
def test_a_forged_reply_is_no_answer_and_no_fault_of_ours(
    vandalism: str, write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    cells = (
        f"import sys\n{vandalism}",
        "def kv_bytes_per_token(**shape): return answer",
        "def kv_bytes_for_runs(runs): return answer",
        "def kv_bytes_from_config(**config): return answer",
    )
    report = run(write_notebook(*cells), m2_split, course, host)
    assert {check.outcome for check in report.checks} <= {Outcome.FAILED, Outcome.SKIPPED}


@pytest.mark.parametrize("text", ["\\ud800 lone", "\\x1b[2J cleared", "\\ufffe", "\\x00"])
def test_text_of_a_notebook_is_made_fit_for_every_report(
    text: str, write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    function = f"def kv_bytes_per_token(**shape): raise ValueError('{text}')"
    report = run(write_notebook(f"raise ValueError('{text}')", function), m2_split, course, host)
    whole = Report(m2_split.split_id, True, (report,))
    ElementTree.fromstring(as_junit(whole))
    for told in (as_json(whole), as_junit(whole), hints(report), report.cells[0].error):
        assert all(c.isprintable() or c == "\n" for c in told)
        told.encode("utf-8")


@pytest.mark.parametrize(
    "value",
    [
        "np.int64(right)",
        "np.array(right)",
        "float(right)",
        "np.float32(right)",
        "Decimal(right)",
        "Fraction(right)",
    ],
)
def test_a_right_number_counts_in_any_honest_type(
    value: str, write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    cells = (
        "import numpy as np\nfrom decimal import Decimal\nfrom fractions import Fraction",
        "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n"
        "    right = 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8\n"
        f"    return {value}",
    )
    report = run(write_notebook(*cells), m2_split, course, host)
    assert report.checks[0].outcome is Outcome.PASSED


def test_a_series_in_another_row_order_is_put_back_by_its_labels(
    write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    cell = (
        "def kv_bytes_for_runs(runs):\n"
        "    runs = runs.sample(frac=1, random_state=0)\n"
        "    return 2 * runs.n_layers * runs.n_kv_heads * runs.head_dim * runs.kv_bits // 8"
    )
    report = run(write_notebook(cell), m2_split, course, host)
    check = next(check for check in report.checks if check.name == "every_run")
    assert check.outcome is Outcome.PASSED


STOPPED, GARBLED = "was stopped after", "closed or garbled the grader's channel in cell 0"


@pytest.mark.parametrize(
    ("vandalism", "ending"),
    [
        ("import builtins\nbuiltins.len = lambda x: 0", STOPPED),
        ("import builtins\nbuiltins.isinstance = lambda *a: True", STOPPED),
        ("import builtins\nbuiltins.print = None\nbuiltins.open = None", ""),
        ("import json\njson.dumps = lambda *a, **k: '\"PASSED\"'", GARBLED),
        ("import sys\nsys.stdout.close()\nsys.stderr = None", ""),
        ("import numpy\nnumpy.save = lambda *a, **k: None", ""),
        ("import os\nos.close(0)\nos.close(1)\nos.close(2)", ""),
        ("import os\nos.chdir('/')", ""),
        (
            "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'PASSED' * 100)\n"
            "    except OSError: pass",
            GARBLED,
        ),
    ],
)
def test_redefined_builtins_and_libraries_break_only_the_notebook_that_did_it(
    vandalism: str,
    ending: str,
    write_notebook: WriteNotebook,
    m2_split: Split,
    course: Path,
    host: Host,
) -> None:
    wrong = "def kv_bytes_per_token(**shape):\n    return 1"
    report = run(write_notebook(vandalism, wrong), m2_split, course, host, SOON)
    assert {check.outcome for check in report.checks} <= {Outcome.FAILED, Outcome.SKIPPED}
    assert report.points == 0
    why = "" if report.stop is None else report.stop.why
    assert why.startswith(ending)
    assert bool(why) is bool(ending), "it is judged, and not cut off"


@pytest.mark.parametrize("detached", [False, True])
def test_nothing_is_left_running(
    detached: bool, write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    mark = f"left-by-{uuid.uuid4()}"
    cell = (
        "import os, subprocess, sys\n"
        f"sleep = [sys.executable, '-c', 'import time; time.sleep(600)', '{mark}']\n"
        f"child = subprocess.Popen(sleep, start_new_session={detached})\n"
        f"assert child.poll() is None\nif {detached}: os._exit(3)"
    )
    report = run(write_notebook(cell), m2_split, course, host)
    assert [error.error for error in report.cells] == (
        ["ended its process in cell 0 with exit code 3"] if detached else []
    )
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            assert mark not in process.cmdline() or process.status() == psutil.STATUS_ZOMBIE


def test_the_room_holds_the_public_data_but_no_truth(
    write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    cell = (
        "from pathlib import Path\n"
        "here = sorted(p.name for p in Path('../data').iterdir())\n"
        "assert 'train.csv' in here and 'public_split' not in here, here\n"
        "assert Path.cwd().name == 'notebooks' and not list(Path.cwd().iterdir())"
    )
    report = run(write_notebook(cell), m2_split, course, host)
    assert report.cells == ()


def test_cells_run_as_in_ipython(
    write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    cells = (
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
        "%%writefile shape.py\nKEYS_AND_VALUES = 2",
        "import asyncio\nfrom shape import KEYS_AND_VALUES\nawait asyncio.sleep(0)",
        "files = !ls\nassert 'shape.py' in list(files)\ndisplay(files)",
        RIGHT.replace("2 *", "KEYS_AND_VALUES *"),
    )
    report = run(write_notebook(*cells), m2_split, course, host, Limits())
    assert report.cells == ()
    assert report.checks[0].outcome is Outcome.PASSED


@dataclass(frozen=True)
class Told:
    """One progress report."""

    phrase: str
    done: int
    total: int


def test_progress_is_told_from_the_first_cell_to_the_judging(
    write_notebook: WriteNotebook, m2_split: Split, course: Path, host: Host
) -> None:
    told: list[Told] = []
    grade(
        milestones.load("m2_kv_bytes"),
        write_notebook(RIGHT),
        m2_split,
        course / "data",
        progress=lambda *step: told.append(Told(*step)),
        host=host,
    )
    assert told[0].phrase == "running cell 0"
    assert told[-1].phrase == "judging"
    assert told[-1].done == told[-1].total
    assert [step.done for step in told] == sorted(step.done for step in told)
