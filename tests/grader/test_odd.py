"""An odd but honest notebook earns exactly the points that its author deserves."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

import milestones
from grader.cold import COLD
from grader.grade import grade
from grader.host import Host
from grader.report import MilestoneReport, Outcome, exit_code
from grader.split import Split
from solutions.lesson import read_lesson
from tests.grader.odd import NAMES, read_odd

SLUG = "m2_kv_bytes"
IN_THE_COLD = (
    "asks_the_reader",
    "autoreload",
    "leaves_early",
    "module_reads_beside_itself",
    "tqdm_bars",
)


def passed(report: MilestoneReport) -> frozenset[str]:
    return frozenset(check.name for check in report.checks if check.outcome is Outcome.PASSED)


def assert_deserved(name: str, folder: Path, split: Split, course: Path, host: Host) -> None:
    odd = read_odd(name)
    report = grade(milestones.load(SLUG), odd.write(folder), split, course / "data", host=host)
    assert passed(report) == odd.passes
    assert {cell.cell: cell.error.partition(":")[0] for cell in report.cells} == odd.raises


@pytest.mark.parametrize("name", NAMES)
def test_an_odd_notebook_earns_what_it_gets_right(
    name: str, m2_split: Split, course: Path, walled: Host, tmp_path: Path
) -> None:
    assert_deserved(name, tmp_path, m2_split, course, walled)


@pytest.mark.parametrize("name", IN_THE_COLD)
def test_an_odd_notebook_earns_what_it_gets_right_without_a_wall_too(
    name: str, m2_split: Split, course: Path, tmp_path: Path
) -> None:
    assert_deserved(name, tmp_path, m2_split, course, COLD)


# ---------------------------------------------------------------- what is odd about the file

Content = dict[str, Any]
Change = Callable[[Content], None]


def solved() -> Content:
    """The solved notebook's functions and nothing else of it, as the JSON of nbformat 4.5."""
    cells = [
        nbformat.v4.new_code_cell(cell.source, id=f"cell-{number}")
        for number, cell in enumerate(read_lesson(SLUG))
        if cell.kind in ("given", "exercise")
    ]
    made: Content = json.loads(nbformat.writes(nbformat.v4.new_notebook(cells=cells)))
    return made


def as_bytes(content: Content) -> bytes:
    return json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8")


def no_ids(content: Content) -> None:
    for cell in content["cells"]:
        del cell["id"]


def minor(number: int) -> Change:
    def change(content: Content) -> None:
        content["nbformat_minor"] = number
        if number < 5:
            no_ids(content)

    return change


def version_3(content: Content) -> None:
    older = json.loads(nbformat.writes(nbformat.from_dict(copy.deepcopy(content)), version=3))
    content.clear()
    content.update(older)


def two_worksheets(content: Content) -> None:
    version_3(content)
    (sheet,) = content["worksheets"]
    content["worksheets"] = [
        {**sheet, "cells": sheet["cells"][:2]},
        {**sheet, "cells": sheet["cells"][2:]},
    ]


def same_ids(content: Content) -> None:
    for cell in content["cells"]:
        cell["id"] = "same"


def as_lines(content: Content) -> None:
    for cell in content["cells"]:
        cell["source"] = "".join(cell["source"]).splitlines(keepends=True)


def bare_cells(content: Content) -> None:
    """Leave what a program that writes notebooks by hand would: the type and the text."""
    content["cells"] = [
        {"cell_type": cell["cell_type"], "source": cell["source"]} for cell in content["cells"]
    ]
    del content["metadata"], content["nbformat"], content["nbformat_minor"]


def kernel(name: str, language: str) -> Change:
    def change(content: Content) -> None:
        spec = {"name": name, "language": language, "display_name": name}
        content["metadata"] = {"kernelspec": spec, "language_info": {"name": language}}

    return change


def other_cells_between(content: Content) -> None:
    picture = {"image/png": "iVBORw0KGgo="}
    content["cells"][1:1] = [
        {"cell_type": "raw", "id": "raw", "metadata": {}, "source": "1 / 0"},
        {
            "cell_type": "markdown",
            "id": "md",
            "metadata": {},
            "attachments": {"a.png": picture},
            "source": "![](attachment:a.png)",
        },
        {"cell_type": "code", "id": "bare", "metadata": {}},
        {"cell_type": "sql", "id": "sql", "metadata": {}, "source": "SELECT 1"},
    ]


def fifty_images(content: Content) -> None:
    pixels = "iVBORw0KGgo" + "A" * 400_000
    content["cells"][0]["outputs"] = [
        {"output_type": "display_data", "metadata": {}, "data": {"image/png": pixels}}
        for _ in range(50)
    ]


def one_long_line(content: Content) -> None:
    content["cells"][0]["outputs"] = [
        {"output_type": "stream", "name": "stdout", "text": "x" * 30_000_000}
    ]


def broken_outputs(content: Content) -> None:
    content["cells"][0]["outputs"] = [{"output_type": "no such type"}, 5]
    content["cells"][1]["outputs"] = None
    content["cells"][2]["execution_count"] = "forty-two"


def not_a_number(content: Content) -> None:
    content["metadata"]["widths"] = [float("nan"), float("inf")]


def hundred_thousand_lines(content: Content) -> None:
    content["cells"][1]["source"] = [
        *["# a note\n"] * 100_000,
        "".join(content["cells"][1]["source"]),
    ]


def windows_lines(content: Content) -> None:
    for cell in content["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", "\r\n")


def blanks_of_every_kind(content: Content) -> None:
    for cell in content["cells"]:
        cell["source"] = "\n\n\t\n" + "".join(cell["source"]) + "\n\n   \n"


CHANGES: dict[str, Change] = {
    "version 3, two worksheets": two_worksheets,
    "version 3": version_3,
    **{f"version 4.{number}": minor(number) for number in (0, 1, 2, 3, 4, 5, 9)},
    "no ids": no_ids,
    "the same id for all": same_ids,
    "text as lines": as_lines,
    "bare cells": bare_cells,
    "no such kernel": kernel("kv-course-env", "python"),
    "a kernel of another language": kernel("ir", "R"),
    "cells of other kinds between": other_cells_between,
    "fifty stored images": fifty_images,
    "30 MB of output in one line": one_long_line,
    "outputs no notebook has": broken_outputs,
    "NaN in the metadata": not_a_number,
    "100,000 lines in one cell": hundred_thousand_lines,
    "Windows line ends within cells": windows_lines,
    "blank lines around the code": blanks_of_every_kind,
}


@pytest.mark.parametrize("oddity", CHANGES)
def test_an_odd_file_earns_every_point(
    oddity: str, m2_split: Split, course: Path, walled: Host, tmp_path: Path
) -> None:
    content = solved()
    CHANGES[oddity](content)
    path = tmp_path / f"{SLUG}.ipynb"
    path.write_bytes(as_bytes(content))
    report = grade(milestones.load(SLUG), path, m2_split, course / "data", host=walled)
    assert (report.points, report.cells) == (report.points_max, ())


@pytest.mark.parametrize(
    ("encode", "name"),
    [
        (lambda raw: b"\xef\xbb\xbf" + raw, "with a byte order mark.ipynb"),
        (lambda raw: raw.replace(b"\n", b"\r\n"), "lines of Windows.ipynb"),
        (lambda raw: raw.replace(b"\n", b"\r"), "lines of an old Mac.ipynb"),
        (lambda raw: b"\n\n " + raw + b"\n\n", "blanks around.ipynb"),
        (lambda raw: raw, "Hausaufgabe für Łukasz (2) – 第二.ipynb"),
        (lambda raw: raw, "C:\\Users\\Student\\m2.ipynb"),
        (lambda raw: raw, " -rf & 'quoted' $HOME\n.ipynb"),
        (lambda raw: raw, "no ending"),
    ],
    ids=["bom", "crlf", "cr", "blanks", "non-ascii", "windows", "shell", "no-ending"],
)
def test_an_odd_name_or_line_end_earns_every_point(
    encode: Callable[[bytes], bytes],
    name: str,
    m2_split: Split,
    course: Path,
    walled: Host,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "Übung 2"
    folder.mkdir()
    (folder / name).write_bytes(encode(as_bytes(solved())))
    report = grade(milestones.load(SLUG), folder / name, m2_split, course / "data", host=walled)
    assert (report.points, report.cells) == (report.points_max, ())


@pytest.mark.parametrize(
    "cells",
    [[], [nbformat.v4.new_markdown_cell("# Later")], [nbformat.v4.new_code_cell("# nothing yet")]],
    ids=["no cell", "no code", "a comment"],
)
def test_an_empty_notebook_is_read_and_earns_nothing(
    cells: list[nbformat.NotebookNode],
    m2_split: Split,
    course: Path,
    walled: Host,
    tmp_path: Path,
) -> None:
    path = tmp_path / f"{SLUG}.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=cells)), encoding="utf-8")
    report = grade(milestones.load(SLUG), path, m2_split, course / "data", host=walled)
    assert report.unreadable is None
    assert {check.outcome for check in report.checks} <= {Outcome.FAILED, Outcome.SKIPPED}
    assert report.checks[0].hint == "`kv_bytes_per_token` is not defined."


@pytest.mark.parametrize(
    ("spoil", "what", "remedy"),
    [
        (lambda raw: raw.decode().encode("utf-16"), "it is UTF-16 text", "save it in UTF-8"),
        (
            lambda raw: raw.replace(b"{", b'{"kurs": "Gr\xf6\xdfe",', 1),
            "text in another encoding",
            "save it in UTF-8",
        ),
        (
            lambda raw: raw.replace(b"[", b"[\n<<<<<<< HEAD\n=======\n>>>>>>> theirs\n", 1),
            "merge-conflict markers",
            "choose one side",
        ),
        (lambda raw: raw[: len(raw) // 2], "broken or cut short", "put a good copy"),
        (lambda _raw: b"<html>Sign in</html>", "a web page", "download the notebook file itself"),
    ],
    ids=["utf-16", "latin-1", "conflict", "truncated", "html"],
)
def test_a_file_that_is_no_notebook_earns_nothing_and_exits_with_2(
    spoil: Callable[[bytes], bytes],
    what: str,
    remedy: str,
    m2_split: Split,
    course: Path,
    tmp_path: Path,
) -> None:
    path = tmp_path / f"{SLUG}.ipynb"
    path.write_bytes(spoil(as_bytes(solved())))
    report = grade(milestones.load(SLUG), path, m2_split, course / "data")
    assert report.unreadable is not None
    assert what in report.unreadable
    assert remedy in report.unreadable
    assert report.points == 0
    assert exit_code([report]) == 2
