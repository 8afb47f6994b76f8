"""HTML pages: text of strangers stays text, nothing is fetched or run, and all can be read."""

from __future__ import annotations

import base64
import gc
import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from weakref import ref
from xml.etree.ElementTree import Element

import html5lib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import milestones
from grader import html
from grader.classroom import Graded, Reason
from grader.html import feedback_page, palette, report_page
from grader.html.reasons import REASONS
from grader.html.scale import Scale
from grader.html.tokens import tokens
from grader.html.visible import breakable, ticked, visible
from grader.judge import Mistake
from grader.notebook import read_notebook
from grader.report import CellError, MilestoneReport, Outcome, Report, Stop
from milestones.figures import at_least, at_most
from tests.grader.pages import (
    HOSTILE,
    M1,
    M2,
    M6,
    M7,
    PLAIN,
    capacity,
    check,
    class_page,
    feedback,
    graded,
    notebook,
    one_of_each,
    overview,
    report,
)

PAGES = {"feedback": feedback, "class": overview, "capacity": capacity}
Page = Callable[[str, str], str]
COLOURS = {"c", "s", "m", "k", "f"}


@pytest.fixture(params=sorted(PAGES))
def page(request: pytest.FixtureRequest) -> Page:
    return PAGES[request.param]


def parsed(text: str) -> Element:
    parser = html5lib.HTMLParser(namespaceHTMLElements=False, strict=True)
    root = parser.parse(text)
    assert isinstance(root, Element)
    return root


def local(element: Element) -> str:
    """The name of an element; an SVG's is in a namespace of its own."""
    return str(element.tag).rpartition("}")[2]


def skeleton(text: str) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """Every element with its attributes, without the colours of code and the marks of hints."""
    found = []
    for element in parsed(text).iter():
        if not isinstance(element.tag, str):  # a comment: none is ours
            found.append(("comment", ()))
            continue
        attributes = dict(element.attrib)
        if element.tag == "span" and attributes.get("class") in COLOURS:
            continue
        if element.tag == "wbr" and not attributes:  # where the line of a call may end
            continue
        if str(attributes.get("href", "")).startswith("feedback/"):
            attributes["href"] = "feedback/"
        found.append((element.tag, tuple(sorted((str(k), str(v)) for k, v in attributes.items()))))
    return found


def shown(text: str) -> str:
    """The text of a page, without its style."""
    body = parsed(text).find("body")
    assert body is not None
    return " ".join("".join(body.itertext()).split())


# ---------------------------------------------------------------- strangers' text


@pytest.mark.parametrize("what", sorted(HOSTILE))
def test_no_element_and_no_attribute_comes_from_a_strangers_text(page: Page, what: str) -> None:
    assert skeleton(page(HOSTILE[what], HOSTILE[what])) == skeleton(page(PLAIN, "ann"))


TEXT = st.text(st.characters(exclude_characters="`"), max_size=60) | st.lists(
    st.sampled_from(["<", ">", '"', "'", "&", "</", "--", "=", "\0", "\u202e", "script", " ", "/"])
).map("".join)


@settings(max_examples=40, deadline=None)
@given(text=TEXT.filter(lambda text: text.strip()), name=TEXT.filter(lambda text: text.strip()))
def test_whatever_the_text_the_elements_stay_the_same(text: str, name: str) -> None:
    assert skeleton(feedback(text, name)) == skeleton(feedback(PLAIN, "ann"))


@pytest.mark.parametrize("what", ["bidi", "controls", "surrogates"])
def test_what_cannot_be_seen_is_spelled_out(page: Page, what: str) -> None:
    text = page(HOSTILE[what], HOSTILE[what])
    text.encode("utf-8")  # no surrogate
    hidden = {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert hidden <= {"\n"}
    for char in HOSTILE[what]:
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert f"⟨U+{ord(char):04X}⟩" in text


def test_a_pile_of_marks_is_cut_and_a_name_with_marks_is_not() -> None:
    assert visible(HOSTILE["marks"]) == "a" + "\u0301" * 6 + "⟨494 more marks⟩"
    for name in ("Łukasz", "Nguyễn", "e\u0301", "שָׁלוֹם", "می\u200cخواهم", "👩\u200d💻", "O'Brien"):
        assert visible(name) == name


@pytest.mark.parametrize(
    "code", ["x" * 2_000_000, "x\n" * 200_000, "'" * 1_000_000, '"""' + "\\" * 999_999, "(" * 10**6]
)
def test_a_huge_cell_is_cut_with_a_note(code: str) -> None:
    text = feedback_page(
        "ann", [graded("ann", report(M1))], {M1: notebook(code)}, split_id="s", public=True
    )
    assert len(text) < 100_000
    assert re.search(r"⟨[\d,]+ more (characters|lines)⟩", shown(text))


def test_a_notebook_of_many_cells_that_all_raise_is_cut_with_notes() -> None:
    book = {M1: notebook(*["x = 1"] * 5_000)}
    raised = replace(report(M1), cells=tuple(CellError(i, "E: x") for i in range(5_000)))
    text = feedback_page("ann", [graded("ann", raised)], book, split_id="s", public=True)
    assert "4800 more cells are not shown" in text
    assert "5000 cells raised an error" in shown(text)
    assert "and 4960 more" in shown(text)
    assert len(text) < 200_000


@given(st.text() | st.text("\"'\\#rbf\n x1."))
@settings(max_examples=300, deadline=None)
def test_the_tokens_of_any_code_are_the_code(code: str) -> None:
    assert "".join(text for _, text in tokens(code)) == code


def test_code_is_coloured_as_python_reads_it() -> None:
    code = "def f(a):  # 'no'\n    return rb'# no' if a else \"\"\"x\n'y'\"\"\" + 1_0.5e-3"
    assert [pair for pair in tokens(code) if pair[0] not in ("space", "other")] == [
        ("keyword", "def"),
        ("name", "f"),
        ("name", "a"),
        ("comment", "# 'no'"),
        ("keyword", "return"),
        ("string", "rb'# no'"),
        ("keyword", "if"),
        ("name", "a"),
        ("keyword", "else"),
        ("string", '"""x\n\'y\'"""'),
        ("number", "1_0.5e-3"),
    ]


def test_backticks_mark_code_and_a_lone_one_is_only_that() -> None:
    assert ticked("use `a<b` now") == "use <code>a&lt;b</code> now"
    assert ticked("a ` b") == "a ` b"
    assert breakable(ticked("f(<a>, g(1))")) == "f(<wbr>&lt;a&gt;, g(<wbr>1))"
    assert ticked("`a` ` b") == "<code>a</code> ` b"


# ---------------------------------------------------------------- self-contained


def test_a_page_runs_nothing_and_leads_nowhere(page: Page) -> None:
    text = page(PLAIN, "ann")
    root = parsed(text)
    assert "://" not in text
    assert not [e for e in root.iter() if local(e) in ("script", "link", "img", "iframe", "form")]
    for element in root.iter():
        assert not [name for name in element.attrib if str(name).startswith(("on", "style", "src"))]
        address = str(element.attrib.get("href", "#"))
        assert address.startswith(("#", "feedback/")), address


def test_the_policy_allows_this_style_and_nothing_else(page: Page) -> None:
    root = parsed(page(PLAIN, "ann"))
    head = root.find("head")
    assert head is not None
    policy = head.find("meta[@http-equiv='Content-Security-Policy']")
    style = head.findtext("style")
    assert policy is not None
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.attrib["content"].split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]


# ---------------------------------------------------------------- what a student reads


def test_every_outcome_is_told_by_word_and_symbol() -> None:
    text = shown(feedback())
    for told in ("✓ passed", "✗ failed", "… waits", "◐ partly", "! not graded"):
        assert told in text


def test_what_is_broken_is_in_no_sum_and_costs_nothing() -> None:
    hand_ins = [graded("ann", report(M1)), graded("ann", report(M7, check(Outcome.BROKEN)))]
    text = shown(feedback_page("ann", hand_ins, {}, split_id="s", public=False))
    assert "2 of 2 points ! 2 more not graded" in text
    assert "2 of 4 points" not in text
    assert "not your fault and costs no points" not in text  # its reason says GRADED: only BROKEN
    hand_ins[1] = replace(hand_ins[1], reason=Reason.BROKEN)
    text = shown(feedback_page("ann", hand_ins, {}, split_id="s", public=False))
    assert "not your fault and costs no points" in text


def test_every_ending_is_explained() -> None:
    assert set(REASONS) == set(Reason) - {Reason.GRADED}
    text = shown(feedback())
    for hand_in in one_of_each():
        if hand_in.reason is not Reason.GRADED:
            assert REASONS[hand_in.reason].meaning in text


def test_what_is_for_the_instructor_alone_is_in_no_feedback() -> None:
    text = feedback()
    assert "secret note" not in text
    assert "one_too_many" not in text
    assert "secret note" in overview()
    assert "one_too_many" in overview()


def test_a_figure_stands_beside_its_bar_in_words_and_in_a_picture() -> None:
    root = parsed(feedback())
    bullets = [e for e in root.iter() if local(e) == "svg" and e.attrib["class"] == "bullet"]
    labels = [str(e.attrib["aria-label"]) for e in bullets]
    assert labels == [
        "0.0500, inside the bar of at most 0.062",
        "0.0700, outside the bar of at most 0.062",
        "-3.0000, outside the bar of at least 0.97",
    ]
    assert "0.0500 bar: at most 0.062" in shown(feedback())


@pytest.mark.parametrize("bar", [0.062, 0.08, 0.09])
def test_the_green_field_of_an_error_is_what_passes_and_the_yellow_one_earns_half(
    bar: float,
) -> None:
    scale = Scale.of(bar)
    for figure in (0.0, bar / 2, bar, bar * 1.001, bar * 1.249, bar * 1.251, bar * 9):
        share = at_most(figure, bar, "x").share
        place = scale.at(figure) * 2.5
        assert (share == 1.0) == scale.inside(figure) == (place <= 1 + 1e-9)
        assert (share >= 0.5) == (place <= 1.25)


@pytest.mark.parametrize("bar", [0.8, 0.95, 0.97])
def test_the_green_field_of_a_score_is_what_passes_and_the_yellow_one_earns_half(
    bar: float,
) -> None:
    scale = Scale.of(bar)
    for figure in (1.0, (1 + bar) / 2, bar, bar - 1e-4, 1 - 1.249 * (1 - bar), bar - 1, -50.0):
        share = at_least(figure, bar, "x").share
        place = scale.at(figure) * 2.5
        assert (share == 1.0) == scale.inside(figure) == (place <= 1 + 1e-9)
        assert (share >= 0.5) == (place <= 1.25)


def test_a_cost_ratio_is_at_best_1() -> None:
    scale = Scale.of(1.15)
    assert scale.words == "at most 1.15"
    assert (scale.at(1.0), scale.inside(1.15), scale.inside(1.16)) == (0.0, True, False)


def test_a_cell_stands_with_what_it_raised_and_is_open() -> None:
    text = feedback("boom")
    root = parsed(text)
    cell = next(e for e in root.iter("details") if e.attrib.get("id") == f"{M1}-cell-1")
    assert "open" in cell.attrib
    assert "Raised: X: boom" in " ".join("".join(cell.itertext()).split())
    assert "Cell 9: boom" in shown(text)  # no such code cell: told all the same


def test_the_cells_of_the_blank_notebook_are_apart_from_the_students_own() -> None:
    blank = report(M1)
    given_cell = _blank_cell()
    book = {M1: notebook(given_cell, "mine = 1")}
    root = parsed(feedback_page("ann", [graded("ann", blank)], book, split_id="s", public=True))
    (apart,) = [e for e in root.iter("details") if "given" in str(e.attrib.get("class"))]
    assert [e.attrib["id"] for e in apart.iter("details") if "id" in e.attrib] == [f"{M1}-cell-0"]


def _blank_cell() -> str:
    path = Path(milestones.__file__).parent / M1 / "blank.ipynb"
    return read_notebook(path).cells[0].source


def test_grader_check_writes_the_same_page_for_whoever_ran_it() -> None:
    text = shown(report_page(Report("s", True, (report(M1), report(M2))), {M1: notebook("x = 1")}))
    assert "Your notebooks" in text
    assert "4 of 4 points" in text
    assert "the public split" in text


def test_the_same_reports_give_the_same_page(page: Page) -> None:
    assert page(PLAIN, "ann") == page(PLAIN, "ann")


# ---------------------------------------------------------------- what an instructor reads


class ReadAnew(Sequence[Graded]):
    """A class whose reports are made when they are looked at, as those on a disk are."""

    def __init__(self, hand_ins: Sequence[Graded]) -> None:
        self._hand_ins = hand_ins
        self.read: list[ref[MilestoneReport]] = []

    def __len__(self) -> int:
        return len(self._hand_ins)

    def __getitem__(self, number: Any) -> Any:
        one = self._hand_ins[number]
        report = replace(one.report)
        self.read.append(ref(report))
        return replace(one, report=report)


def test_the_page_of_a_class_holds_no_report_while_it_is_written() -> None:
    hand_ins = ReadAnew([*one_of_each(student="ann"), *one_of_each(student="bob")])
    parts = html.class_page(hand_ins, split_id="s")
    begun = next(parts)
    gc.collect()
    assert len(hand_ins.read) >= len(hand_ins)
    assert [one() for one in hand_ins.read] == [None] * len(hand_ins.read)
    assert begun + "".join(parts) == class_page(list(hand_ins), split_id="s")


def test_the_class_page_names_what_needs_a_look_and_who_made_which_mistake() -> None:
    mistakes = {M1: [Mistake("one_too_many", ("first",), "Seven, not eight.", {})]}
    text = shown(class_page(one_of_each(), split_id="s", mistakes=mistakes))
    assert "secret note plain" in text
    assert "Seven, not eight." in text
    assert "They were not looked for" in text
    quiet = shown(class_page([graded("ann", report(M1))], split_id="s", copies=[]))
    assert "every notebook that was handed in ran to its end" in quiet
    assert "No answer equals that of a known mistake" in quiet
    assert "None were found" in quiet


def test_a_long_list_of_names_is_cut_with_a_count() -> None:
    lost = [
        replace(graded(f"student {i:04}", report(M1, check(Outcome.FAILED))), reason=Reason.MISSING)
        for i in range(500)
    ]
    text = shown(class_page(lost, split_id="s"))
    assert "and 440 more" in text
    assert text.count("student 0499") == 1  # in the table of all


def test_a_class_of_nobody_is_a_page_all_the_same() -> None:
    assert "0 of 0" in shown(class_page([], split_id="s"))


def test_a_class_of_a_thousand_stays_a_page_of_less_than_3_mb() -> None:
    hand_ins = [
        replace(one, hand_in=replace(one.hand_in, student=f"Student, Number {i:04}"))
        for i in range(1_000)
        for one in one_of_each("a sentence that tells what happened there")
    ]
    text = class_page(hand_ins, split_id="s", stem=lambda name: name)
    assert len(text.encode()) < 3_000_000
    assert text.count('<th scope="row"><a href="feedback/') == 1_000


def test_a_students_name_in_an_address_is_only_a_name() -> None:
    hand_ins = [graded(name, report(M1)) for name in ("javascript:x", "../up", "a/b?c#d", 'q"q')]
    root = parsed(class_page(hand_ins, split_id="s", stem=lambda name: name))
    found = [str(e.attrib["href"]) for e in root.iter("a") if "feedback" in str(e.attrib["href"])]
    assert found == [
        "feedback/javascript%3Ax.html",
        "feedback/..%2Fup.html",
        "feedback/a%2Fb%3Fc%23d.html",
        "feedback/q%22q.html",
    ]


# ---------------------------------------------------------------- for every reader


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
def test_every_colour_can_be_told_from_its_ground(colours: dict[str, str]) -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    for pairs, least in ((palette.READ, 4.5), (palette.SEEN, 3.0)):
        for mark, ground in pairs:
            found = contrast(colours[mark], colours[ground])
            assert found >= least, f"{mark} on {ground}: {found:.2f}"


def test_every_colour_of_the_style_is_one_of_the_palette() -> None:
    style = parsed(feedback()).findtext("head/style") or ""
    assert set(palette.LIGHT) == set(palette.DARK)
    assert set(re.findall(r"var\(--([a-z0-9-]+)\)", style)) <= set(palette.LIGHT)
    outside = style[len(palette.as_css()) :]
    assert not re.search(r"#[0-9a-f]{3,8}\b|rgb|hsl", outside)


def headings(root: Element) -> Iterator[int]:
    for element in root.iter():
        if isinstance(element.tag, str) and re.fullmatch("h[1-6]", element.tag):
            yield int(element.tag[1])


def test_a_page_has_the_structure_that_a_screen_reader_walks(page: Page) -> None:
    root = parsed(page(PLAIN, "ann"))
    assert root.attrib["lang"] == "en"
    assert root.findtext("head/title")
    levels = list(headings(root))
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert [len(list(root.iter(tag))) for tag in ("main", "nav")] == [1, 1]
    ids = Counter(str(e.attrib["id"]) for e in root.iter() if "id" in e.attrib)
    assert max(ids.values()) == 1, "every id is one of its kind"
    for element in root.iter():
        assert str(element.attrib.get("aria-labelledby", "main")) in ids
        if element.tag == "a":
            address = str(element.attrib["href"])
            assert address.startswith("feedback/") or address[1:] in ids, address
        if local(element) == "svg" and element.attrib.get("aria-hidden") != "true":
            assert element.attrib["role"] == "img"
            assert element.attrib["aria-label"]
        if element.tag == "th":
            assert element.attrib["scope"] in ("row", "col")
        if element.tag == "details":
            assert element[0].tag == "summary"


def test_every_cell_that_was_stopped_is_told_where_the_page_shows_no_cells() -> None:
    whys = {2: "was stopped after 120 CPU seconds", 5: "was stopped at 4 GiB of memory"}
    cells = tuple(
        CellError(cell, f"{why} in cell {cell}", stopped=True) for cell, why in whys.items()
    )
    stop = Stop(cells[0].error, by_bound=True)
    hand_in = graded("ann", replace(report(M6), cells=cells, stop=stop), Reason.LIMIT)
    page = feedback_page("ann", [hand_in], {}, split_id="s", public=True)
    assert all(f"cell {cell} {why}" in page for cell, why in whys.items())


def test_links_lead_to_cells_that_raised() -> None:
    hand_in = graded("ann", replace(report(M6), cells=(CellError(1, "boom"),)))
    root = parsed(
        feedback_page("ann", [hand_in], {M6: notebook("x", "y")}, split_id="s", public=True)
    )
    assert f"#{M6}-cell-1" in [str(e.attrib["href"]) for e in root.iter("a")]
