"""The planner's page in a real browser: seen, heard, typed at, and on a phone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.grader.serving import FAKE, NONE, RAISES, TOO_MANY, served
from tests.grader.test_browser import CUT_OFF, DESK, PHONE, STICKS_OUT

COURSE_STARTS_WITH = "qwen2.5-32b"
THE_CASE, TEN_TIMES = "4 × B200", "33 × B200"  # what the quick planner answers
DRAWN = "#cost .dot"
FOCUSED = "document.activeElement.id"
RING = "getComputedStyle(document.activeElement).outlineStyle"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(FAKE, id="a")])
    path = tmp_path_factory.mktemp("shown") / "m7_planner.ipynb"
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    with served(path) as found:
        yield found


class Shown:
    """The page in the browser, and what it asked for and complained about."""

    def __init__(self, browser: Browser, address: str, path: str = "/", **options: Any) -> None:
        self.context: BrowserContext = browser.new_context(**{"viewport": DESK, **options})
        self.page: Page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address + path)

    def drawn(self) -> Page:
        """Wait until the plan is there and every picture is drawn."""
        expect(self.page.locator("#answer")).to_have_attribute("aria-busy", "false")
        expect(self.page.locator("#cost-note")).not_to_contain_text("Asking")
        return self.page


@pytest.fixture
def show(browser: Browser, address: str) -> Iterator[Any]:
    """Open a page of the server."""
    opened: list[Shown] = []

    def open_page(path: str = "/", **options: Any) -> Shown:
        opened.append(Shown(browser, address, path, **options))
        return opened[-1]

    yield open_page
    for each in opened:
        each.context.close()


def set_load(page: Page, load: float) -> None:
    """Type a load as a person does, and leave the field."""
    page.locator("#f-requests_per_second").fill(f"{load:g}")
    page.keyboard.press("Tab")


# ---------------------------------------------------------------- what is shown


def test_the_page_opens_with_the_course_s_case_planned_and_drawn(show: Any, address: str) -> None:
    shown = show()
    page = shown.drawn()
    assert page.locator("#model").input_value() == COURSE_STARTS_WITH
    expect(page.locator("#fleet")).to_have_text(THE_CASE)
    expect(page.locator("#tiles")).to_contain_text("requests on each GPU")
    expect(page.locator("#limit")).to_contain_text("The load limits it")
    assert page.locator("#cost .line").count() >= 5
    assert page.locator("#fit .line").count() >= 4  # two GPUs have one memory
    assert page.locator("#sums .sign").all_inner_texts() == ["✓"] * 4
    assert shown.said == []
    assert {url.startswith(f"{address}/") or url == "data:," for url in shown.asked} == {True}


def test_what_is_the_planner_s_and_what_is_arithmetic_is_told_beside_each_heading(
    show: Any,
) -> None:
    page = show().drawn()
    by = {
        heading.inner_text().rsplit(" ", 1)[0].strip(): heading.locator(".by").inner_text()
        for heading in page.locator("#results :is(h2, h3)").all()
    }
    assert by == {
        "The plan": "plan()",
        "Does it add up?": "arithmetic",
        "Cost against requests per GPU": "plan()",
        "Requests against context": "arithmetic",
    }


def test_a_change_is_planned_by_itself_and_asks_what_the_form_says(show: Any) -> None:
    page = show().drawn()
    with page.expect_request("**/plan") as asked:
        page.locator("#f-kv_bits").select_option("8")
    workload = asked.value.post_data_json
    assert workload["kv_bits"] == 8
    assert [offer["gpu"] for offer in workload["gpus"]][:2] == ["L40S", "A100-80GB"]
    with page.expect_request("**/plan") as asked:
        page.locator("#offer-0").uncheck()
    assert len(asked.value.post_data_json["gpus"]) == 4
    with page.expect_request("**/plan") as asked:
        page.locator("#price-1").fill("0.5")
        page.keyboard.press("Tab")
    assert asked.value.post_data_json["gpus"][0]["usd_per_hour"] == 0.5


def test_a_picked_model_brings_its_shape_and_a_changed_shape_is_one_s_own(show: Any) -> None:
    page = show().drawn()
    with page.expect_request("**/plan") as asked:
        page.locator("#model").select_option("llama-3-70b")
    assert asked.value.post_data_json["model"]["n_layers"] == 80
    page.locator("#shape summary").click()
    with page.expect_request("**/plan") as asked:
        page.get_by_label("KV heads").fill("64")
        page.keyboard.press("Tab")
    assert asked.value.post_data_json["model"]["n_kv_heads"] == 64
    assert page.locator("#model").input_value() == "own"


def test_a_plan_that_asks_too_much_of_memory_does_not_add_up(show: Any) -> None:
    page = show().drawn()
    set_load(page, TOO_MANY)
    expect(page.locator("#sums .no").first).to_contain_text("Memory does not add up")


def test_an_exception_of_the_student_is_shown_with_its_cell_and_nothing_of_ours(show: Any) -> None:
    page = show().drawn()
    set_load(page, RAISES)
    box = page.locator("#trouble")
    expect(box).to_contain_text("plan raised KeyError: 'no_such_key', in cell 0, line 6")
    expect(page.locator("#fleet")).to_have_text("No plan")
    assert "Traceback" not in page.content()
    expect(page.locator("#holds")).to_be_hidden()
    set_load(page, 24)
    expect(page.locator("#fleet")).to_have_text(THE_CASE)
    expect(box).to_be_hidden()


def test_a_none_is_shown_with_its_reason(show: Any) -> None:
    page = show().drawn()
    set_load(page, NONE)
    expect(page.locator("#fleet")).to_have_text("Nothing on offer holds")
    expect(page.locator("#limit")).to_have_text("nothing holds")


def test_a_server_that_is_gone_is_told(show: Any) -> None:
    shown = show()
    page = shown.drawn()
    shown.context.set_offline(True)
    page.get_by_role("button", name="Plan").click()
    expect(page.locator("#trouble")).to_contain_text("The server does not answer")


def test_a_busy_server_is_asked_again(show: Any) -> None:
    page = show().drawn()
    refused: list[int] = []

    def busy_once(route: Any) -> None:
        if refused:
            route.continue_()
            return
        refused.append(1)
        route.fulfill(status=503, headers={"Retry-After": "0"}, json={"detail": "Not now: busy."})

    page.route("**/plan", busy_once)
    page.get_by_role("button", name="Plan").click()
    expect(page.locator("#fleet")).to_have_text(THE_CASE)
    assert refused == [1]


def test_a_file_name_that_is_markup_stays_text(browser: Browser, tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(FAKE, id="a")])
    path = tmp_path / "<img src=x onerror=window.pwned=1>.ipynb"
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    with served(path) as address:
        shown = Shown(browser, address)
        assert shown.drawn().evaluate("window.pwned") is None
        shown.context.close()


def test_text_of_the_planner_that_is_markup_stays_text(browser: Browser, tmp_path: Path) -> None:
    source = """
def plan(workload):
    raise ValueError("<img src=x onerror=window.pwned=1><script>window.pwned=1</script>`")
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="a")])
    path = tmp_path / "m7_planner.ipynb"
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    with served(path) as address:
        shown = Shown(browser, address)
        page = shown.page
        expect(page.locator("#trouble")).to_contain_text("<img src=x")
        assert page.evaluate("window.pwned") is None
        shown.context.close()


# ---------------------------------------------------------------- refusals


def test_a_wrong_field_is_marked_described_and_reached_by_its_link(show: Any) -> None:
    page = show().drawn()
    field = page.locator("#f-prompt_tokens")
    field.fill("-5")
    page.keyboard.press("Enter")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    told = page.locator(f"#{field.get_attribute('aria-describedby')}")
    expect(told).to_have_text(
        "got -5, expected a whole number from 1 to 10,000,000: tokens of one prompt"
    )
    page.locator("#model").focus()
    page.locator("#trouble a").click()
    expect(field).to_be_focused()
    field.fill("100")
    page.keyboard.press("Enter")
    expect(field).not_to_have_attribute("aria-invalid", "true")
    expect(page.locator("#trouble")).to_be_hidden()


def test_an_offer_without_a_price_and_a_shape_that_cannot_be_are_marked_where_they_are(
    show: Any,
) -> None:
    page = show().drawn()
    page.locator("#price-2").fill("")
    page.locator("#shape summary").click()
    page.get_by_label("KV heads").fill("7")
    page.locator("#shape summary").click()
    page.get_by_role("button", name="Plan").click()
    expect(page.locator("#price-2")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("KV heads")).to_be_visible()
    assert "7 does not divide n_heads = 40" in page.locator("#trouble").inner_text()
    assert "H100-80GB: USD per hour: it is empty, expected a number above 0" in (
        page.locator("#trouble").inner_text()
    )


def test_no_offer_at_all_is_told_at_the_offers(show: Any) -> None:
    page = show().drawn()
    for tick in page.locator("#offers input[type=checkbox]").all():
        tick.uncheck()
    expect(page.locator("#f-gpus")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#trouble")).to_contain_text("GPUs on offer: got a list of 0")


# ---------------------------------------------------------------- by keyboard, by ear, on a phone


def test_everything_can_be_done_by_keyboard_alone(show: Any) -> None:
    page = show().drawn()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(FOCUSED))
        assert page.evaluate(RING) == "solid", seen[-1]  # where one is can be seen
        if seen[-1] == "f-requests_per_second":
            break
    assert [name for name in seen if name in ("model", "f-weight_bits", "f-prompt_tokens")] == [
        "model", "f-weight_bits", "f-prompt_tokens",
    ]  # fmt: skip
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type("240")
    page.keyboard.press("Enter")
    expect(page.locator("#fleet")).to_have_text(TEN_TIMES)
    while page.evaluate(FOCUSED) != "offer-4":
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.locator("#fleet")).not_to_contain_text("B200")
    while page.evaluate(FOCUSED) != "model":
        page.keyboard.press("Shift+Tab")
    page.keyboard.type("pythia-70m")
    page.keyboard.press("Tab")
    expect(page.locator("#model-note")).to_contain_text("6 layers")
    expect(page.locator("#fleet")).not_to_contain_text("57 ×")


def test_the_figures_of_both_pictures_open_by_keyboard_as_tables(show: Any) -> None:
    page = show().drawn()
    for summary in page.locator(".pictures summary").all():
        summary.focus()
        page.keyboard.press("Enter")
    cost, fit = page.locator("#cost-table"), page.locator("#fit-table")
    # The dearest answers are in the table alone: they would press the lines together.
    assert cost.locator("tbody tr").count() > page.locator(DRAWN).count() > 10
    assert fit.locator("tbody tr").count() == 5
    expect(fit).to_contain_text("Longest single request, tokens")


def test_a_screen_reader_hears_the_plan_its_limit_and_the_pictures(show: Any) -> None:
    page = show().drawn()
    status = page.get_by_role("status")
    expect(status).to_contain_text("4 B200, 0.57 dollars for a million tokens. The load limits it")
    tree = page.locator("body").aria_snapshot()
    for told in (
        '- heading "Capacity planner" [level=1]',
        '- form "The workload":',
        '- combobox "Model":',
        '- spinbutton "Prompt tokens":',
        'spinbutton "H200: USD per hour"',
        'img "Memory of one B200, 180 GB: weights: 32.8 GB',
        'img "Cost of a million tokens in USD against requests per GPU: L40S from',
        'img "Requests that fit on one GPU against context; at 6000 tokens: L40S 7, A100',
    ):
        assert told in tree
    assert "✓" not in tree


@pytest.mark.parametrize(
    ("load", "scheme", "viewport"),
    [
        (24, "light", PHONE),
        (24, "dark", DESK),
        (NONE, "dark", PHONE),
        (RAISES, "light", DESK),
        (RAISES, "dark", PHONE),
        (-1, "light", PHONE),
        (-1, "dark", DESK),
    ],
    ids=lambda value: str(value) if not isinstance(value, dict) else f"{value['width']}",
)
def test_an_accessibility_checker_finds_nothing(
    load: int, scheme: str, viewport: dict[str, int], show: Any
) -> None:
    # The checker is a script: it gets past the page's policy, which the page itself never can.
    shown = show(viewport=viewport, color_scheme=scheme, bypass_csp=True)
    page = shown.drawn()
    set_load(page, load)
    told = {24: THE_CASE, NONE: "Nothing on offer holds"}.get(load, "No plan")
    expect(page.locator("#fleet")).to_have_text(told)
    shown.drawn()
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("axe.run().then(found => found)")
    faults = [(v["id"], v["nodes"][0]["html"][:160]) for v in found["violations"]]
    assert faults == []
    assert len(found["passes"]) > 20


@pytest.mark.parametrize("viewport", [{"width": 320, "height": 600}, PHONE, DESK])
def test_the_page_never_scrolls_sideways(viewport: dict[str, int], show: Any) -> None:
    page = show(viewport=viewport).drawn()
    for _ in range(2):
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        assert page.evaluate(STICKS_OUT) == []
        assert page.evaluate(CUT_OFF) == []
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")


def test_on_a_phone_the_plan_is_a_tap_away_and_in_the_way_of_nothing(show: Any) -> None:
    page = show(viewport=PHONE).drawn()
    peek = page.locator("#peek")
    expect(peek).to_have_text(f"{THE_CASE}, 0.57 USD/M tokensSee the plan")
    for id_ in ("f-max_step_ms", "price-4", "offer-2"):  # what has the focus is not under it
        page.locator(f"#{id_}").focus()
        field, bar = page.locator(f"#{id_}").bounding_box(), peek.bounding_box()
        assert field is not None
        assert bar is not None
        assert field["y"] + field["height"] <= bar["y"]
    page.evaluate("scrollTo(0, 0)")
    peek.click()
    expect(page.locator("#fleet")).to_be_in_viewport()
    expect(peek).to_be_hidden()


def test_pictures_are_drawn_again_as_wide_as_the_window(show: Any) -> None:
    page = show().drawn()
    wide = page.locator("#cost svg").get_attribute("viewBox")
    page.set_viewport_size(PHONE)
    expect(page.locator("#cost svg")).not_to_have_attribute("viewBox", str(wide))


# ---------------------------------------------------------------- the interface's own page


def test_the_interface_s_page_needs_no_network_but_this_server(show: Any, address: str) -> None:
    shown = show("/docs")
    page = shown.page
    expect(page.locator(".opblock-summary-path", has_text="/plan")).to_be_visible()
    page.locator("#operations-planner-plan_plan_post .opblock-summary-control").click()
    expect(page.locator("#operations-planner-plan_plan_post")).to_contain_text("8.03")
    page.locator("#operations-planner-plan_plan_post .execute").click()
    expect(page.locator(".live-responses-table")).to_contain_text("requests_per_gpu")
    assert shown.said == []
    assert {url.startswith((f"{address}/", "data:")) for url in shown.asked} == {True}
