"""HTML pages in a real browser: quiet, still, narrow enough, usable by keyboard and by ear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, Page

from grader.classroom import Reason
from grader.html import feedback_page
from grader.report import Outcome
from tests.grader.fuzz import in_the_suite
from tests.grader.pages import (
    HOSTILE,
    M1,
    M2,
    M3,
    PLAIN,
    RUN,
    capacity,
    check,
    feedback,
    graded,
    overview,
    report,
)

PAGES = {"feedback": feedback, "class": overview, "capacity": capacity}
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1_280, "height": 900}
EVERYTHING = " ".join(HOSTILE.values())
READABLE = "document.querySelectorAll('details').forEach(each => each.open = true)"
TOUCH_ALL = """document.querySelectorAll('*').forEach(each => {
    ['mouseover', 'focus', 'load', 'error'].forEach(kind => each.dispatchEvent(new Event(kind)))
})"""
# The right edges of what sticks out of the window and cannot be scrolled to in a region of its own.
STICKS_OUT = """() => [...document.querySelectorAll('body *')].filter(each =>
    each.getBoundingClientRect().right > innerWidth + 1 && each.checkVisibility()
    && !each.closest('.wide, pre, .skip')).map(each => each.outerHTML.slice(0, 80))"""
CUT_OFF = """() => [...document.querySelectorAll('body *')].filter(each =>
    each.scrollWidth > each.clientWidth + 1 && each.clientWidth && !each.closest('.vh, svg')
    && getComputedStyle(each).overflowX == 'hidden').map(each => each.outerHTML.slice(0, 80))"""


class Opened:
    """A page in the browser, and what it did while it was opened."""

    def __init__(self, browser: Browser, file: Path, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": DESK, **options})
        self.page: Page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Any]:
    """Open a page made of HTML."""
    contexts: list[BrowserContext] = []

    def open_page(html: str, **options: Any) -> Opened:
        file = tmp_path / f"page{len(contexts)}.html"
        file.write_text(html, encoding="utf-8")
        found = Opened(browser, file, **options)
        contexts.append(found.context)
        return found

    yield open_page
    for context in contexts:
        context.close()


def hostile(kind: str) -> str:
    return PAGES[kind](EVERYTHING, EVERYTHING)


def test_the_marker_of_these_tests_is_seen_where_a_script_does_run(opened: Any) -> None:
    found = opened(f"<!doctype html>{HOSTILE['script']}<script>console.log('said')</script>")
    assert found.page.evaluate("window.pwned") == 1
    assert found.said == ["said"]
    found = opened("<!doctype html><link rel=icon href=data:,><img src=x.png>")
    assert len(found.asked) > 1


@pytest.mark.parametrize("kind", sorted(PAGES))
def test_nothing_of_a_strangers_runs_or_is_fetched(kind: str, opened: Any) -> None:
    found = opened(hostile(kind))
    page = found.page
    page.evaluate(READABLE)
    page.evaluate(TOUCH_ALL)
    assert page.evaluate("window.pwned") is None
    assert found.said == []
    assert found.asked == [page.url]
    assert page.title() != ""


def test_the_policy_stops_what_would_get_past_the_escaping(opened: Any) -> None:
    found = opened(feedback().replace("</main>", f"{HOSTILE['script']}</main>"))
    assert found.page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in said for said in found.said)
    assert RUN in found.page.content()


@pytest.mark.parametrize("kind", sorted(PAGES))
@pytest.mark.parametrize("text", ["plain", "hostile"])
@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
def test_a_page_never_scrolls_sideways(
    kind: str, text: str, viewport: dict[str, int], opened: Any
) -> None:
    html = hostile(kind) if text == "hostile" else PAGES[kind](PLAIN, "ann")
    page = opened(html, viewport=viewport).page
    for _ in range(2):  # as it is opened, and with all that can be opened
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        assert page.evaluate(STICKS_OUT) == []
        assert page.evaluate(CUT_OFF) == []
        page.evaluate(READABLE)


def test_a_bonus_beside_the_longest_ending_fits_on_a_phone(opened: Any) -> None:
    core = replace(check(Outcome.FAILED), points_max=12.5)
    rung = replace(check(Outcome.FAILED, name="second"), points_max=12.5, bonus=True)
    found = [graded("ann", report(M1, core))]
    for slug, reason in ((M2, Reason.UNREADABLE), (M3, Reason.ENDED)):
        whole = replace(report(slug, core, rung), unreadable="It is a page.")
        found.append(graded("ann", whole, reason))
    page = opened(feedback_page("ann", found, {}, split_id="s", public=False), viewport=PHONE).page
    assert page.locator(".summary .badge").count() == 2
    assert "0 of 12.5 bonus" in page.locator(".summary").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


@pytest.mark.parametrize("kind", sorted(PAGES))
@pytest.mark.parametrize(
    ("viewport", "scheme"),
    in_the_suite([(PHONE, "light"), (PHONE, "dark"), (DESK, "light"), (DESK, "dark")]),
    ids=lambda value: value if isinstance(value, str) else f"{value['width']}",
)
def test_an_accessibility_checker_finds_nothing(
    kind: str, scheme: str, viewport: dict[str, int], opened: Any
) -> None:
    # The checker is a script: it gets past the page's policy, which the page itself never can.
    page = opened(
        PAGES[kind](PLAIN, "ann"), viewport=viewport, color_scheme=scheme, bypass_csp=True
    ).page
    page.evaluate(READABLE)
    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("axe.run().then(found => found)")
    told = [(v["id"], v["nodes"][0]["html"][:160]) for v in found["violations"]]
    assert told == []
    assert len(found["passes"]) > 10


def test_the_accessibility_tree_tells_what_the_page_shows(opened: Any) -> None:
    tree = opened(feedback()).page.locator("body").aria_snapshot()
    for told in (
        '- heading "Feedback for ann" [level=1]',
        "- main:",
        '- navigation "Milestones":',
        '- heading "Profile the runs" [level=2]',
        '- heading "Checks" [level=3]',
        '- img "0.0500, inside the bar of at most 0.062"',
        '- rowheader "Profile the runs"',
    ):
        assert told in tree
    assert "✗" not in tree  # a symbol is for the eye; its word is read aloud


def test_details_open_by_keyboard_and_the_skip_link_leads_to_the_results(opened: Any) -> None:
    page = opened(feedback()).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.localName") == "summary":
            break
    before = page.evaluate("document.activeElement.parentElement.open")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.parentElement.open") is not before


@pytest.mark.parametrize("kind", sorted(PAGES))
def test_on_paper_everything_is_there_and_dark_on_white(kind: str, opened: Any) -> None:
    page = opened(PAGES[kind](PLAIN, "ann"), color_scheme="dark").page
    closed = page.locator("details:not([open]) > :not(summary)")
    assert closed.count() > 0
    assert not closed.last.is_visible()
    page.emulate_media(media="print", color_scheme="dark")
    assert closed.last.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_checks_and_code_are_side_by_side_on_a_desk_and_stacked_on_a_phone(opened: Any) -> None:
    for viewport, beside in ((DESK, True), (PHONE, False)):
        page = opened(feedback(), viewport=viewport).page
        checks = page.locator(".checks").first.bounding_box()
        cells = page.locator(".cells").first.bounding_box()
        assert checks is not None
        assert cells is not None
        assert (cells["x"] > checks["x"] + checks["width"]) is beside
        assert (cells["y"] >= checks["y"] + checks["height"]) is not beside
