"""`%check` asks the live functions what a room would, and leaves the notebook as it was."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot

import milestones
from grader.errors import BadInputError
from grader.grade import grade
from grader.live.asking import StoppedError
from grader.live.place import VS_CODE, beside, milestone_of, notebook_file
from grader.live.show import Shown
from grader.notebook import read_notebook
from grader.report import Outcome
from grader.split import open_split
from solutions.render import solved_path
from tests.grader.fuzz import GRADED_IN_THE_SUITE
from tests.grader.livenotebook import LiveNotebook

RIGHT = (
    "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n"
    "    {before}\n"
    "    return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8"
)


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LiveNotebook:
    path = tmp_path / "m2_kv_bytes.ipynb"
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))
    return LiveNotebook(path)


def outcomes(notebook: LiveNotebook, named: str = "2") -> dict[str, Outcome]:
    return {check.name: check.outcome for check in notebook.check(named).report.checks}


@pytest.mark.parametrize("slug", GRADED_IN_THE_SUITE)
def test_a_solved_notebook_that_is_live_passes_what_it_passes_in_a_room(
    slug: str, course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", str(solved_path(slug)))
    monkeypatch.chdir(course / "notebooks")
    live = LiveNotebook(tmp_path / f"{slug}.ipynb")
    live.run(*(cell.source for cell in read_notebook(solved_path(slug)).cells))
    pyplot.close("all")
    report = live.check()
    assert {check.outcome for check in report.report.checks} == {Outcome.PASSED}
    assert report.notes == ()
    split = open_split(course / "data" / "public_split")
    room = grade(milestones.load(slug), solved_path(slug), split, course / "data")
    assert [(c.name, c.points, c.figure) for c in report.report.checks] == [
        (c.name, c.points, c.figure) for c in room.checks
    ]


# ---------------------------------------------------------------- what is left as it was

HELD = {
    "a global that is set anew": ("COUNT = 0", "global COUNT; COUNT += 1", "COUNT == 0"),
    "a global that is deleted": ("GONE = 1", "globals().pop('GONE', 0)", "GONE == 1"),
    "a global that is made": ("pass", "globals()['MADE'] = 1", "'MADE' not in globals()"),
    "a list": ("LOG = []", "LOG.append(n_layers)", "LOG == []"),
    "two names of one list": ("LOG = SAME = []", "LOG.append(1)", "LOG is SAME and LOG == []"),
    "a dict in a dict": ("CACHE = {'a': {}}", "CACHE['a'][n_layers] = 1", "CACHE == {'a': {}}"),
    "an array": ("import numpy\nA = numpy.zeros(2)", "A[0] += 1", "A.sum() == 0"),
    "a table": (
        "import pandas\nT = pandas.DataFrame({'a': [1]})",
        "T['b'] = n_layers; T.loc[0, 'a'] = 7",
        "list(T.columns) == ['a'] and T.a.sum() == 1",
    ),
    "a list that a helper changes": (
        "LOG = []\ndef note(x):\n    LOG.append(x)",
        "note(n_layers)",
        "LOG == []",
    ),
    "an attribute of a class": (
        "class Seen:\n    n = 0\n    names = []",
        "Seen.n += 1; Seen.names.append(1); Seen.more = 1",
        "Seen.n == 0 and Seen.names == [] and not hasattr(Seen, 'more')",
    ),
    "an object": (
        "class Box:\n    def __init__(self):\n        self.items = []\nBOX = Box()",
        "BOX.items.append(1)",
        "BOX.items == []",
    ),
    "an attribute of a function": (
        "pass",
        "kv_bytes_per_token.calls = getattr(kv_bytes_per_token, 'calls', 0) + 1",
        "not hasattr(kv_bytes_per_token, 'calls')",
    ),
    "what a closure keeps": (
        "def counter():\n    n = 0; kept = []\n    def count():\n        nonlocal n\n"
        "        n += 1; kept.append(n)\n        return n, kept\n    return count\n"
        "count = counter()",
        "count()",
        "count() == (1, [1])",
    ),
    "a method's global": (
        "N = []\nclass Tool:\n    def use(self):\n        N.append(1)",
        "Tool().use()",
        "N == []",
    ),
    "chance": (
        "import random, numpy\nrandom.seed(3); numpy.random.seed(3)",
        "random.random(); numpy.random.rand()",
        "(random.random(), numpy.random.rand()) == (0.23796462709189137, 0.5507979025745755)",
    ),
    "the working folder": ("import os\nWAS = os.getcwd()", "os.chdir('/')", "os.getcwd() == WAS"),
    "filters of warnings": (
        "import warnings\nN = len(warnings.filters)",
        "warnings.filterwarnings('ignore', 'a text of this test')",
        "len(warnings.filters) == N",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HELD)
def test_what_a_function_changes_is_as_it_was_afterwards(what: str, notebook: LiveNotebook) -> None:
    setup, before, holds = HELD[what]
    notebook.run(setup, RIGHT.format(before=before))
    names = set(notebook.shell.user_ns)
    assert outcomes(notebook)["known_shapes"] is Outcome.PASSED
    assert set(notebook.shell.user_ns) == names
    notebook.run(f"assert {holds}")
    # the setup and the change are real: without the check in between they would be seen
    notebook.run(setup, RIGHT.format(before=before), "kv_bytes_per_token(1, 1, 1, 8)")
    changed = notebook.shell.run_cell(f"assert {holds}")
    assert changed.error_in_exec is not None


def test_arguments_that_a_function_changes_reach_no_other_question(
    notebook: LiveNotebook,
) -> None:
    cells = [cell.source for cell in read_notebook(solved_path("m2_kv_bytes")).cells]
    functions = [cell for cell in cells if cell.startswith(("def ", "import "))]
    spoil = (
        "right = kv_bytes_from_config, kv_bytes_for_runs\n"
        "def kv_bytes_from_config(config, context_len, batch_size, kv_bits):\n"
        "    try:\n"
        "        return right[0](config, context_len, batch_size, kv_bits)\n"
        "    finally:\n"
        "        config.clear()\n"
        "def kv_bytes_for_runs(runs):\n"
        "    answer = right[1](runs)\n"
        "    for name in list(runs):\n"
        "        del runs[name]\n"
        "    return answer"
    )
    notebook.run("import numpy as np, pandas as pd", *functions)
    as_they_were = outcomes(notebook)
    notebook.run(spoil)
    assert outcomes(notebook) == outcomes(notebook) == as_they_were


def test_what_functions_print_is_kept_apart_and_shown(
    notebook: LiveNotebook, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook.run("from IPython.display import display, HTML")
    before = "print('seen', n_layers); display(HTML('drawn'))"
    notebook.run(RIGHT.format(before=before))
    capsys.readouterr()
    live = notebook.check("2")
    assert capsys.readouterr().out == ""
    assert live.printed.startswith("seen 80\n")
    shown = Shown(live)
    assert "seen 80" in shown.as_text()
    assert "seen 80" in shown.as_html()
    assert "drawn" not in shown.as_html()


def test_a_flood_of_printing_is_counted_and_cut(notebook: LiveNotebook) -> None:
    notebook.run(RIGHT.format(before="print('x' * 1_000_000)"))
    live = notebook.check("2")
    assert live.n_printed > 10_000_000
    assert len(live.printed) < 10_000


def test_figures_that_functions_open_are_closed(notebook: LiveNotebook) -> None:
    notebook.run("from matplotlib import pyplot\nkept = pyplot.figure()")
    notebook.run(RIGHT.format(before="pyplot.figure()"))
    outcomes(notebook)
    assert pyplot.get_fignums() == [notebook.shell.user_ns["kept"].number]
    pyplot.close("all")


def test_input_meets_the_end_of_the_file(notebook: LiveNotebook) -> None:
    notebook.run(RIGHT.format(before="input('layers? ')"))
    live = notebook.check("2")
    assert "EOFError" in live.report.checks[0].hint


def test_chance_is_the_students_own(notebook: LiveNotebook) -> None:
    notebook.run(RIGHT.format(before="pass"))
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    expected = random.Random(1).random(), np.random.RandomState(1).rand()
    outcomes(notebook)
    assert (random.random(), np.random.rand()) == expected  # noqa: NPY002


# ---------------------------------------------------------------- Ctrl-C


@pytest.mark.parametrize(
    "before",
    [
        "import signal; signal.raise_signal(signal.SIGINT)",
        "import signal\n    try:\n        signal.raise_signal(signal.SIGINT)\n"
        "    except BaseException:\n        pass",
        "raise KeyboardInterrupt",
    ],
    ids=["plain", "swallowed", "raised"],
)
def test_ctrl_c_stops_the_check_and_gives_everything_back(
    before: str, notebook: LiveNotebook
) -> None:
    notebook.run("LOG = []", RIGHT.format(before=f"LOG.append(1)\n    {before}"))
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(StoppedError, match="`kv_bytes_per_token` was being asked"):
        notebook.check("2")
    assert signal.getsignal(signal.SIGINT) is handler
    assert notebook.shell.user_ns["LOG"] == []


def test_a_function_that_exits_is_told_like_in_a_room(notebook: LiveNotebook) -> None:
    notebook.run(RIGHT.format(before="raise SystemExit(0)"))
    assert "SystemExit" in notebook.check("2").report.checks[0].hint


def test_a_slow_answer_misses_its_bound_on_cpu_time(
    notebook: LiveNotebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(0, 1_000_000, 3))  # every look at it, another three seconds have gone
    monkeypatch.setattr("grader.live.asking.time.process_time", lambda: float(next(clock)))
    notebook.run("def plan(workload):\n    return {'gpu': None, 'reason': 'none'}")
    checks = {check.name: check for check in notebook.check("7").report.checks}
    assert any("2 s" in check.hint or "CPU" in check.hint for check in checks.values())


# ---------------------------------------------------------------- which milestone


@pytest.mark.parametrize(
    ("named", "file", "defined", "slug"),
    [
        ("5", "m2_kv_bytes.ipynb", (), 4),
        ("m5_roofline", None, (), 4),
        ("", "m2_kv_bytes.ipynb", ("profile_runs", "linear_baseline_r2"), 1),
        ("", "m2_kv_bytes-Copy1.ipynb", (), 1),
        ("", "m2_kv_bytes (1).ipynb", (), 1),
        ("", "Untitled.ipynb", ("roofline_terms",), 4),
        ("", None, ("profile_runs", "linear_baseline_r2", "kv_bytes_per_token"), 0),
    ],
)
def test_the_milestone_is_the_one_named_else_the_notebooks_else_the_one_defined(
    named: str, file: str | None, defined: tuple[str, ...], slug: int
) -> None:
    path = None if file is None else Path(file)
    assert milestone_of(named, path, defined) == milestones.SLUGS[slug]


@pytest.mark.parametrize(
    ("named", "defined", "sentence"),
    [
        ("9", (), "there is no milestone '9'"),
        ("", (), "No function of any is defined here yet"),
        ("", ("profile_runs", "roofline_terms"), "milestones 1 and 5 are defined here"),
        ("", ("understanding",), "No function of any"),  # every milestone asks for that
    ],
)
def test_a_milestone_that_cannot_be_told_is_asked_for(
    named: str, defined: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(BadInputError, match=sentence):
        milestone_of(named, None, defined)


def test_the_notebook_is_the_one_that_the_front_end_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, lab = tmp_path / "in code.ipynb", tmp_path / "größe.ipynb"
    for path in (code, lab, tmp_path / "m2_kv_bytes.ipynb"):
        path.write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    session = {"JPY_SESSION_NAME": str(lab)}
    assert notebook_file({VS_CODE: str(code)}, session) == code
    assert notebook_file({}, session) == lab
    assert notebook_file({}, {"JPY_SESSION_NAME": str(tmp_path / "gone.ipynb")}) is None
    assert notebook_file({}, {"JPY_SESSION_NAME": "console-1"}) is None
    # nbconvert names none: the milestone's own file in the working folder is meant
    assert beside("m2_kv_bytes", {}, {}) == tmp_path / "m2_kv_bytes.ipynb"
    assert beside("m2_kv_bytes", {}, session) is None
    assert beside("m3_concurrency", {}, {}) is None
