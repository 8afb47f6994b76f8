"""JupyterLab in headless Chromium, with a course as a student has it after the README's steps."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.grader.chromium import MISSING, chromium, launched

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_MS = 120_000  # for a page or a kernel on a busy machine
RIGHT = "return 2 * n_layers * n_kv_heads * head_dim * kv_bits // 8"
NAMES = {"light": "check.png", "dark": "check-dark.png"}
SCHEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def what_is_missing() -> str:
    """Return what the machine lacks for JupyterLab in a browser; empty where it lacks nothing."""
    if chromium() is None:
        return MISSING
    if importlib.util.find_spec("jupyterlab") is None:
        return "needs JupyterLab (pip install -e '.[lab]')"
    return ""


@contextmanager
def lab(home: Path, slug: str, *, scheme: str = "light", height: int = 900) -> Iterator[Lab]:
    """Open a blank notebook in JupyterLab; `home` is an empty folder for all that it keeps."""
    course = home / "kv capacity"  # a space, as in many a folder of documents
    shutil.copytree(ROOT / "data", course / "data")
    (course / "notebooks").mkdir()
    shutil.copy(ROOT / "milestones" / slug / "blank.ipynb", course / "notebooks" / f"{slug}.ipynb")
    with (
        _server(home, course, SCHEMES[scheme]) as (address, token),
        sync_playwright() as playwright,
        launched(playwright) as browser,
    ):
        page = browser.new_page(viewport={"width": 1_180, "height": height})
        page.goto(f"{address}/lab/tree/notebooks/{slug}.ipynb?token={token}")
        yield Lab(page, course)


@contextmanager
def _server(home: Path, course: Path, theme: str) -> Iterator[tuple[str, str]]:
    """Start JupyterLab on a free port; yields its address and token."""
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    chosen = f'{{"theme": "{theme}"}}'
    (settings / "themes.jupyterlab-settings").write_text(chosen, encoding="utf-8")
    no_news = '{"checkForUpdates": false, "fetchNews": "false"}'
    (settings / "notification.jupyterlab-settings").write_text(no_news, encoding="utf-8")
    environment = {
        **os.environ,
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": str(ROOT),
    }
    log = home / "server.log"
    with log.open("w", encoding="utf-8") as stream:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
                *("--ip=127.0.0.1", "--port=0", f"--ServerApp.root_dir={course}"),
            ],
            env=environment,
            cwd=course,
            stdout=subprocess.DEVNULL,
            stderr=stream,
        )
    try:
        yield _address(log, server)
    finally:
        server.terminate()
        server.wait(timeout=60)


def _address(log: Path, server: subprocess.Popen[bytes]) -> tuple[str, str]:
    """Wait until the server has told its address and token."""
    told = re.compile(r"(http://127\.0\.0\.1:\d+)/lab\?token=(\w+)")
    while server.poll() is None:
        if found := told.search(log.read_text(encoding="utf-8")):
            return found[1], found[2]
        time.sleep(0.1)
    raise AssertionError(f"JupyterLab did not start: {log.read_text(encoding='utf-8')[-2_000:]}")


class Lab:
    """A notebook in JupyterLab, used as a person does: by clicks and keys."""

    def __init__(self, page: Page, course: Path) -> None:
        """Wait until the notebook is there and its kernel is idle."""
        self.page, self.course = page, course
        page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=PATIENCE_MS)
        self.wait_until_idle()

    def wait_until_idle(self) -> None:
        """Wait for the kernel."""
        idle = self.page.locator(".jp-StatusBar-Left", has_text=re.compile(r"Python 3.*\| Idle"))
        idle.wait_for(timeout=PATIENCE_MS)

    def cell_with(self, text: str) -> Any:
        """Return the code cell that holds a text."""
        return self.page.locator(".jp-CodeCell", has_text=text).first

    def replace_line(self, cell: Any, line: str, by: str) -> None:
        """Select a line of a cell and type another in its place."""
        cell.locator(".cm-line", has_text=line).click()
        self.page.keyboard.press("End")
        self.page.keyboard.press("Shift+Home")
        self.page.keyboard.type(by)

    def run_here(self) -> None:
        """Run the cell that is edited, and go on in a new one below."""
        self.page.keyboard.press("Alt+Enter")
        self.page.wait_for_timeout(200)

    def type(self, text: str) -> None:
        """Type into the cell that is edited."""
        self.page.keyboard.type(text)

    def result(self) -> Any:
        """Return the output of `%check`, once it is there."""
        shown = self.page.locator(".jp-OutputArea-output", has_text="points").last
        shown.wait_for(timeout=PATIENCE_MS)
        return shown


def solve_and_check(notebook: Lab) -> Any:
    """Type a solution into milestone 2, run it, load the grader and check; return the output."""
    given = notebook.cell_with("import matplotlib.pyplot")
    given.locator(".cm-content").click()
    notebook.page.keyboard.press("Shift+Enter")
    cell = notebook.cell_with("def kv_bytes_per_token")
    notebook.replace_line(cell, "raise NotImplementedError", RIGHT)
    notebook.run_here()
    notebook.type("%load_ext grader")
    notebook.run_here()
    notebook.type("%check")
    notebook.run_here()
    return notebook.result()


def main() -> None:
    """Write the README's picture and its dark twin: `python -m tests.grader.lab FOLDER`."""
    folder = Path(sys.argv[1])
    for scheme in SCHEMES:
        with (
            tempfile.TemporaryDirectory() as home,
            lab(Path(home), "m2_kv_bytes", scheme=scheme, height=800) as notebook,
        ):
            page = notebook.page
            page.keyboard.press("Control+b")  # the files at the side are no part of it
            solve_and_check(notebook)
            page.keyboard.press("Control+s")
            page.locator(".jp-CodeCell", has_text="%check").last.locator(".cm-content").click()
            page.keyboard.press("Control+Enter")
            notebook.wait_until_idle()
            notebook.result().get_by_text("2 of").click()
            notebook.cell_with("def kv_bytes_per_token").evaluate("e => e.scrollIntoView()")
            page.wait_for_timeout(1_500)
            picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
            few = picture.quantize(96, dither=Image.Dither.NONE)  # a third of the bytes
            few.save(
                folder / ("check.png" if scheme == "light" else "check-dark.png"), optimize=True
            )


if __name__ == "__main__":
    main()
