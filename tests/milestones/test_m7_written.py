"""The plan in words: what is a part, what is one's own, and which figures the words must name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from grader.gradebook.manual import read_rubric
from milestones.m7_planner import MILESTONE
from milestones.m7_planner.plans import KEYS
from milestones.m7_planner.written import (
    CHANGES,
    CHOSEN,
    FEWEST_DIFFERENT,
    FEWEST_WORDS,
    FIGURES,
    NAMED,
    document,
    headings,
    numbers_in,
    own_words,
    plan_in_words,
    template,
)
from milestones.spec import Answer, Answers, Call, Files, Verdict
from solutions.lesson import Reference, for_student, read_lesson

NOWHERE: Any = None  # this check reads no truth


@pytest.fixture(scope="module")
def solved() -> dict[str, Any]:
    return Reference(MILESTONE.slug).namespace


def answers(text: Any, figures: Any) -> Answers:
    given = {"text": ("written_plan", text), "written": ("capacity_plan", figures)}
    return Answers(
        {k: Answer(Call(k, name, {}, variable=True), value) for k, (name, value) in given.items()}
    )


def judged(text: Any, figures: Any) -> Verdict:
    truth: Files = NOWHERE
    return plan_in_words.judge(answers(text, figures), truth)


def test_the_solved_text_passes_and_the_template_does_not(solved: dict[str, Any]) -> None:
    text, figures = solved["written_plan"], solved["capacity_plan"]
    assert judged(text, figures).passed
    untouched = judged(template(), figures)
    assert untouched.share == 0
    assert all(heading in untouched.remark for heading in headings())


def test_a_student_starts_from_the_template() -> None:
    cells = [c for c in read_lesson(MILESTONE.slug) if c.kind == "exercise"]
    stub = next(for_student(cell) for cell in cells if cell.name == "written_plan")
    namespace: dict[str, Any] = {}
    exec(stub, namespace)
    assert namespace["written_plan"].strip() == template().strip()


@pytest.mark.parametrize("heading", headings())
def test_each_part_must_be_there_and_hold_words_of_ones_own(
    heading: str, solved: dict[str, Any]
) -> None:
    text, figures = solved["written_plan"], solved["capacity_plan"]
    parts = own_words(text)
    gone = judged(text.replace(f"### {heading}\n", ""), figures)
    assert "missing" in gone.remark
    assert heading in gone.remark
    empty = judged(text.replace(parts[heading], ""), figures)
    assert "not written yet" in empty.remark
    assert heading in empty.remark
    assert judged(text.replace(parts[heading], "Too few words."), figures).share == 0
    repeated = judged(text.replace(parts[heading], "cost " * 2 * FEWEST_WORDS), figures)
    assert heading in repeated.remark
    prompt = template().partition(f"### {heading}\n")[2].partition("###")[0].replace("> ", "")
    assert judged(text.replace(parts[heading], prompt), figures).share == 0


def test_headings_may_differ_in_level_case_and_order(solved: dict[str, Any]) -> None:
    text, figures = solved["written_plan"], solved["capacity_plan"]
    blocks = ["### " + block for block in text.split("### ")[1:]]
    assert judged("\n".join(reversed(blocks)), figures).passed
    changed = text
    for heading in headings():
        changed = changed.replace(f"### {heading}", f"#  {heading.upper()}:")
    assert judged(changed, figures).passed


def test_a_heading_of_ones_own_begins_no_part_of_the_template(solved: dict[str, Any]) -> None:
    text = solved["written_plan"].replace(
        own_words(solved["written_plan"])[CHOSEN],
        "#### In short\n" + own_words(solved["written_plan"])[CHOSEN],
    )
    assert judged(text, solved["capacity_plan"]).passed


def test_two_parts_with_the_same_words_are_one(solved: dict[str, Any]) -> None:
    text = solved["written_plan"]
    parts = own_words(text)
    sure, risks = "How sure it is", "What it does not cover"
    told = judged(text.replace(parts[risks], parts[sure]), solved["capacity_plan"])
    assert "two parts say the same" in told.remark


@pytest.mark.parametrize("key", [key for keys in NAMED.values() for key in keys])
def test_every_figure_that_the_words_must_name_is_looked_for(
    key: str, solved: dict[str, Any]
) -> None:
    figures = solved["capacity_plan"]
    other = "B300" if key == "gpu" else figures[key] * 3 + 1
    told = judged(solved["written_plan"], figures | {key: other})
    assert told.share == 0
    assert key in told.remark


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("28.80 USD", [28.8]),
        ("28,80 EUR", [28.8]),
        ("12,000 tokens", [12_000.0]),
        ("1,234,567.5", [1_234_567.5]),
        ("0.667", [0.667]),
        ("H200 and 8 of them", [200.0, 8.0]),
        ("version 1.2.3", []),
        ("none", []),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, values: list[float]) -> None:
    assert [number.value for number in numbers_in(text)] == values


@pytest.mark.parametrize(
    ("written", "figure", "means"),
    [
        ("35", 35.4, True),
        ("35.4", 35.38, True),
        ("34", 35.4, False),
        ("0.67", 0.667, True),
        ("0.7", 0.667, True),
        ("0.6", 0.667, False),
        ("40", 35.4, False),
        ("28.80", 28.8, True),
    ],
)
def test_a_number_means_what_it_was_rounded_from(written: str, figure: float, means: bool) -> None:
    (number,) = numbers_in(written)
    assert number.means(figure) is means


def test_a_count_is_named_exactly_and_a_measure_as_it_was_rounded(solved: dict[str, Any]) -> None:
    text, figures = solved["written_plan"], solved["capacity_plan"]
    precise = text.replace("about 35 ms for a step", "35.4 ms for a step")
    assert judged(precise, figures | {"decode_step_ms": 35}).share == 0
    assert judged(precise, figures | {"decode_step_ms": 35.2}).passed
    assert judged(text, figures | {"decode_step_ms": 35}).passed
    assert judged(text.replace("up to 61 requests", "60.9 requests"), figures).share == 0


@pytest.mark.parametrize("junk", [None, 3, True, [], {}, ["text"], 1.5], ids=repr)
def test_what_is_no_text_is_told_so(junk: Any, solved: dict[str, Any]) -> None:
    verdict = judged(junk, solved["capacity_plan"])
    assert verdict.share == 0
    assert verdict.remark == "`written_plan` is not a text."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#",
        "### ",
        ">" * 20_000,
        "9" * 400,
        "1,1" * 5_000,
        "\ud800",
        "### What is asked\n" * 999,
    ],
    ids=["empty", "hash", "heading", "quotes", "digits", "commas", "surrogate", "headings"],
)
def test_no_text_breaks_the_check_or_passes_it(text: str, solved: dict[str, Any]) -> None:
    assert judged(text, solved["capacity_plan"]).share == 0
    in_place = solved["written_plan"].replace(own_words(solved["written_plan"])[CHOSEN], text)
    assert judged(in_place, solved["capacity_plan"]).share == 0


def test_the_least_number_of_words_is_enough_and_one_less_is_not(solved: dict[str, Any]) -> None:
    text, figures = solved["written_plan"], solved["capacity_plan"]
    risks = own_words(text)["What it does not cover"]
    different = [chr(ord("a") + i) * 3 for i in range(FEWEST_DIFFERENT)]
    enough = different + ["and"] * (FEWEST_WORDS - len(different))
    assert judged(text.replace(risks, " ".join(enough)), figures).passed
    assert not judged(text.replace(risks, " ".join(enough[:-1])), figures).passed
    alike = different[:-2] + ["and"] * (FEWEST_WORDS - len(different) + 2)
    assert not judged(text.replace(risks, " ".join(alike)), figures).passed


# ---------------------------------------------------------------- for the person who marks it


def test_a_document_is_the_figures_beside_the_planners_and_then_the_text(
    solved: dict[str, Any],
) -> None:
    figures = solved["capacity_plan"]
    planned = Answer(Call("case/base", "plan", {}), {"n_gpus": 9})
    given = answers(solved["written_plan"], figures)
    told = document(Answers({**given.by_id, "case/base": planned}))
    assert told.startswith(FIGURES)
    assert told.rstrip().endswith(solved["written_plan"].strip())
    assert "| n_gpus | 8 | 9 |" in told
    assert "| gpu | H200 | - |" in told
    assert all(f"| {key} |" in told for key in (*KEYS, *NAMED[CHANGES]))


@pytest.mark.parametrize("text", [template(), "", "  \n", None, 3, template().replace("> ", "")])
def test_there_is_no_document_where_nothing_was_written(text: Any) -> None:
    assert document(answers(text, {})) == ""


@pytest.mark.parametrize("figures", [None, [], "text", {"gpu": {"a": 1}}, {"gpu": "x" * 999}])
def test_a_document_holds_whatever_the_figures_are(figures: Any) -> None:
    told = document(answers("We buy nothing at all.", figures))
    assert told.rstrip().endswith("We buy nothing at all.")
    assert max(map(len, told.splitlines())) < 200


@pytest.mark.parametrize("opened", ["<!--", "```", "<details>", "~~~", "<pre>", "<!DOCTYPE"])
def test_no_text_hides_the_figures_that_the_grader_sets_beside_it(opened: str) -> None:
    forged = f"We buy nothing.\n\n{FIGURES}\n\n| gpu | H200 | H200 |\n\n{opened}"
    told = document(answers(forged, {"gpu": "A100"}))
    assert told.index("| gpu | A100 | - |") < told.index("We buy nothing.")


@pytest.mark.parametrize(
    "live",
    [
        "<script>alert(1)</script>",
        "\\<img src=x onerror=alert(1)>",
        "![seen](https://example.org/seen.png)",
        "\\![seen](https://example.org/seen.png)",
        "[read](javascript:alert(1))",
        "[read][1]\n\n[1]: javascript:alert(1)",
        "<https://example.org>",
    ],
)
def test_nothing_in_a_document_is_live_in_the_browser_of_who_marks_it(live: str) -> None:
    for told in (
        document(answers(f"We buy nothing. {live}", {})),
        document(answers("We buy nothing.", {"gpu": live, "limited_by": live})),
    ):
        page = MarkdownIt("commonmark", {"html": True}).enable("table").render(told)
        assert not re.search(r"<(script|img|a)\b", page)


def test_a_figure_that_is_a_text_stays_in_its_cell_of_the_table() -> None:
    told = document(answers("We buy nothing.", {"gpu": "H200 | H200 |\n\n<!-- `"}))
    row = next(line for line in told.splitlines() if line.startswith("| gpu |"))
    assert row.count("|") == 4
    assert "<!--" not in told


def test_arithmetic_and_code_in_a_document_stay_as_they_were_written() -> None:
    text = "35 < 50 ms, and `gpus[0]` with a batch<=61: a **bold** step."
    assert document(answers(text, {})).rstrip().endswith(text)


def test_the_example_of_a_rubric_can_be_read(course: Path) -> None:
    rubric = read_rubric(course / "milestones" / MILESTONE.slug / "rubric.toml")
    assert sum(criterion.points_max for criterion in rubric) == 5
    assert not any(criterion.bonus for criterion in rubric)
