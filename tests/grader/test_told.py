"""A diagnosis reads the same in its order on a terminal, on a page, in JSON and when kept."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from grader.html.feedback import report_page
from grader.present import as_json, print_report
from grader.report import MilestoneReport, Outcome, Report
from grader.results import Results
from grader.told import told
from milestones.diagnosis import Breakdown, Diagnosis, Part
from tests.grader.pages import M1, check, diagnosed, report

LABELS = ("asked", "came back", "equals", "think about")


def failing(diagnosis: Diagnosis) -> MilestoneReport:
    return report(M1, replace(check(Outcome.FAILED, hint="All in one."), diagnosis=diagnosis))


def printed(diagnosis: Diagnosis, *, encoding: str = "utf-8", width: int = 90) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    console = Console(file=stream, width=width, color_system=None, legacy_windows=False)
    print_report(Report("public", True, (failing(diagnosis),)), console)
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_a_terminal_tells_what_was_asked_what_came_back_what_it_equals_and_a_thought() -> None:
    text = printed(diagnosed())
    places = [text.index(f"{label}  ") for label in LABELS]
    assert places == sorted(places)
    for part in ("f(plain)", "8 bytes plain.", "twice plain", "Is it plain?", "Look first plain."):
        assert part in text
    assert "All in one." not in text  # told in parts


def test_a_part_that_says_nothing_has_no_line() -> None:
    text = printed(Diagnosis(came_back="8 bytes.", think="Why?"))
    assert "came back" in text
    assert "asked" not in text
    assert "equals" not in text


def test_one_sentence_alone_has_no_label() -> None:
    text = printed(Diagnosis(came_back="`f` is not written yet."))
    assert "`f` is not written yet." in text
    assert "came back" not in text


def test_slices_are_bars_in_characters_that_the_terminal_has() -> None:
    wide, plain = printed(diagnosed()), printed(diagnosed(), encoding="ascii")
    assert "█" * 14 + " 70%" in wide
    assert "#" * 14 + " 70%" in plain
    assert "27% too low" in plain
    assert "Also cut by GPU" in plain


def test_a_slice_without_error_has_no_bar() -> None:
    parts = (Part("cause", "a", 9, 1.0), Part("cause", "b", 1, 0.0))
    text = printed(Diagnosis(came_back="x.", breakdown=Breakdown("Why", "plans", parts)))
    (line,) = (line for line in text.splitlines() if " b " in line)
    assert "█" not in line
    assert "0%" in line


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    for line in printed(diagnosed("a long word of it " * 9), width=width).splitlines():
        assert len(line) <= width


def test_a_page_tells_them_in_the_same_order_with_a_picture_for_each_slice() -> None:
    page = report_page(Report("public", True, (failing(diagnosed()),)), {})
    places = [page.index(f"<dt>{label}</dt>") for label in LABELS]
    assert places == sorted(places)
    assert page.count('<svg class="slice"') == 6
    assert 'aria-label="70% of the error, 12% of the count"' in page
    assert "All in one." not in page


def test_counts_alone_have_no_mark_to_compare_with() -> None:
    parts = (Part("cause", "a", 3, 0.75), Part("cause", "b", 1, 0.25))
    cut = Breakdown("Why plans do not hold", "plans", parts)
    page = report_page(
        Report("public", True, (failing(Diagnosis(came_back="x.", think="y.", breakdown=cut)),)), {}
    )
    assert 'aria-label="75%"' in page
    assert "the mark its share" not in page


def test_json_has_the_parts_and_the_hint_stays_a_string() -> None:
    content = json.loads(as_json(Report("public", True, (failing(diagnosed()),))))
    (found,) = content["milestones"][0]["checks"]
    assert found["hint"] == "All in one."
    assert found["diagnosis"]["asked"] == "f(plain)"
    assert list(found["diagnosis"]) == ["asked", "came_back", "equals", "think", "breakdown"]
    assert found["diagnosis"]["breakdown"]["parts"][0]["share"] == 0.7
    passed = json.loads(as_json(Report("public", True, (report(M1),))))
    assert passed["milestones"][0]["checks"][0]["diagnosis"] is None


def test_a_result_that_is_kept_keeps_its_diagnosis(tmp_path: Path) -> None:
    whole = failing(diagnosed())
    results = Results(tmp_path, {})
    assert results.of(M1, "0", lambda: whole) == whole
    assert results.of(M1, "0", lambda: report(M1)) == whole  # read, not graded again


def test_a_diagnosis_prints_by_itself() -> None:
    text = io.StringIO()
    Console(file=text, width=80).print(told(diagnosed(), "red"))
    assert "think about" in text.getvalue()
