"""JupyterLab in a real browser, as a student meets it; and its output on light and on dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import sync_playwright

from grader.live.show import Shown, Told
from tests.grader.chromium import launched
from tests.grader.lab import lab, solve_and_check, what_is_missing
from tests.grader.livenotebook import LiveNotebook

GROUNDS = {  # the page's own colours: JupyterLab's themes, VS Code's, Colab's
    "lab light": ("#ffffff", "#212121"),
    "lab dark": ("#111111", "#e0e0e0"),
    "code dark": ("#1f1f1f", "#cccccc"),
    "colab dark": ("#383838", "#d5d5d5"),
}


def test_a_student_types_a_solution_checks_it_and_sees_the_pass(tmp_path: Path) -> None:
    if missing := what_is_missing():
        pytest.skip(missing)
    with lab(tmp_path, "m2_kv_bytes", height=2_400) as notebook:
        shown = solve_and_check(notebook)
        text = shown.inner_text()
        assert "2 passed" in text
        assert "failed" not in text  # what is not written yet is no failure
        assert "to write" in text
        assert "kv_bytes_per_token was changed after the notebook was last saved" in text
        shown.get_by_text("2 of").click()
        assert shown.get_by_text("A token of Llama-3-70B costs 327,680 bytes").is_visible()

        notebook.page.keyboard.press("Control+s")
        notebook.page.locator(".jp-mod-current:not(.jp-mod-dirty)").wait_for()
        notebook.page.locator(".jp-CodeCell", has_text="%check").last.locator(".cm-content").click()
        notebook.run_here()
        notebook.wait_until_idle()
        again = notebook.result().inner_text()
        assert "2 passed" in again
        assert "last saved" not in again


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Outputs of every kind, as HTML."""
    path = tmp_path_factory.mktemp("live") / "m2_kv_bytes.ipynb"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JPY_SESSION_NAME", str(path))
        notebook = LiveNotebook(path)
        notebook.run(
            "FACTOR = 2\n"
            "def kv_bytes_per_token(n_layers, n_kv_heads, head_dim, kv_bits):\n"
            "    print('<b>bold</b>')\n"
            "    return FACTOR * n_layers * n_kv_heads * head_dim * kv_bits // 8\n"
            "def kv_bytes_for_runs(runs):\n"
            "    return runs['kv_bits'].to_numpy()"
        )
        notebook.save("def kv_bytes_per_token():\n    pass", "1 / 0")
        live = notebook.check(fresh=True)
    assert live.notes
    return {"report": Shown(live).as_html(), "told": Told("a `code` <b>").as_html()}


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("kind", ["report", "told"])
def test_the_output_reads_well_on_light_and_on_dark_and_runs_nothing(
    ground: str, kind: str, outputs: dict[str, str]
) -> None:
    paper, ink = GROUNDS[ground]
    html = outputs[kind]
    body = f"<body style='background:{paper};color:{ink};font:13px sans-serif'>{html}</body>"
    with sync_playwright() as playwright, launched(playwright) as browser:
        page = browser.new_page(viewport={"width": 700, "height": 900})
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.set_content(f"<!doctype html><html lang=en><title>x</title>{body}")
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth") <= 700
        assert page.locator("script, style, link, b").count() == 0  # and what was printed is text
        assert asked == []
        page.evaluate(AXE_SCRIPT)
        rules = ["color-contrast", "svg-img-alt", "list", "listitem", "summary-name"]
        found: dict[str, Any] = page.evaluate(
            "rules => axe.run(document.body, {runOnly: rules})", rules
        )
        assert [v["nodes"][0]["html"] for v in found["violations"]] == []
        assert found["passes"]
