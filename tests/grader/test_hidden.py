"""On a hidden split nothing that a notebook saw can find its way into what its student reads."""

from __future__ import annotations

from pathlib import Path

import pytest

import milestones
from grader.grade import grade
from grader.host import Host
from grader.present import as_json, as_junit
from grader.report import MilestoneReport, Outcome, Report
from grader.split import Split
from grader.trouble import OWN_ERROR, known_error
from tests.conftest import WriteNotebook

SMUGGLE = "SMUGGLED"
ROW = f"seen = '{SMUGGLE}' + runs.iloc[0].to_json()"


def graded(path: Path, split: Split, course: Path, host: Host) -> MilestoneReport:
    return grade(milestones.load("m2_kv_bytes"), path, split, course / "data", host=host)


def texts(report: MilestoneReport, split: Split) -> list[str]:
    """Everything a student could be handed: the reports, and the values they are made from."""
    whole = Report(split.split_id, split.public, (report,))
    return [as_json(whole), as_junit(whole), repr(report)]


@pytest.mark.parametrize(
    "trick",
    [
        "raise ValueError(seen)",
        "raise type(seen, (Exception,), {})()",
        "raise type('ValueError: ' + seen, (ValueError,), {})()",
        "return seen",
        "return {seen: 1}",
        "return [seen]",
        "return type(seen, (), {})()",
        "print(seen); raise SystemExit(seen)",
        "import warnings; warnings.warn(seen)",
        "import os; os.write(2, seen.encode()); os._exit(3)",
        "import builtins; builtins.SMUGGLED = type(seen, (Exception,), {}); raise SMUGGLED",
        "raise NotImplementedError(seen)",
    ],
)
def test_no_report_repeats_what_a_notebook_saw(
    trick: str, write_notebook: WriteNotebook, m2_hidden: Split, course: Path, host: Host
) -> None:
    function = f"def kv_bytes_for_runs(runs):\n    {ROW}\n    {trick}"
    report = graded(write_notebook(function), m2_hidden, course, host)
    every_run = next(check for check in report.checks if check.name == "every_run")
    assert every_run.outcome is Outcome.FAILED
    for text in texts(report, m2_hidden):
        assert SMUGGLE not in text


@pytest.mark.parametrize(
    "cell",
    [
        f"raise ValueError('{SMUGGLE}')",
        f"raise type('{SMUGGLE}', (Exception,), {{}})()",
        SMUGGLE,
        f"import {SMUGGLE}",
    ],
)
def test_a_cell_that_raises_is_told_by_a_known_kind_of_error_alone(
    cell: str, write_notebook: WriteNotebook, m2_hidden: Split, course: Path, host: Host
) -> None:
    report = graded(write_notebook(cell), m2_hidden, course, host)
    (raised,) = report.cells
    assert raised.error in (known_error(raised.error), OWN_ERROR)
    for text in texts(report, m2_hidden):
        assert SMUGGLE not in text


def test_a_stop_is_told_in_the_graders_own_sentence(
    write_notebook: WriteNotebook, m2_hidden: Split, course: Path, host: Host
) -> None:
    report = graded(write_notebook("import os\nos._exit(3)"), m2_hidden, course, host)
    (stopped,) = report.cells
    assert stopped.error == "ended its process in cell 0 with exit code 3"


def test_a_wrong_answer_is_told_without_its_value_or_its_question(
    write_notebook: WriteNotebook, m2_hidden: Split, course: Path, host: Host
) -> None:
    function = "def kv_bytes_per_token(**shape):\n    return 987654321"
    report = graded(write_notebook(function), m2_hidden, course, host)
    for text in texts(report, m2_hidden):
        assert "987" not in text
        assert "n_layers=" not in text


def test_no_cell_can_read_a_question(
    write_notebook: WriteNotebook, m2_hidden: Split, course: Path, host: Host
) -> None:
    cells = (
        "from pathlib import Path",
        "assert not list(Path('..').resolve().rglob('questions*'))",
        "assert 'runs.csv' not in {p.name for p in Path('..').resolve().rglob('*')}",
    )
    assert graded(write_notebook(*cells), m2_hidden, course, host).cells == ()


def test_the_process_does_not_learn_where_the_split_lies(
    write_notebook: WriteNotebook, m2_hidden: Split, course: Path, host: Host
) -> None:
    where = m2_hidden.folder.parent.name  # the split's own name is too common a word
    cells = (
        "import os, sys\nfrom pathlib import Path",
        f"assert {where!r} not in ' '.join([*sys.argv, *sys.path, *os.environ.values()])",
        "line = Path('/proc/self/cmdline')\n"
        f"assert not line.exists() or {where!r} not in line.read_text()",
    )
    assert graded(write_notebook(*cells), m2_hidden, course, host).cells == ()
