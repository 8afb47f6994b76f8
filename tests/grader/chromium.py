"""Chromium for tests that open pages, where the machine has it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Playwright

MISSING = "needs Chromium, Debian's package chromium, to open pages in"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str | None:
    """Return where Chromium is; None where it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def launched(playwright: Playwright) -> Iterator[Browser]:
    """Start Chromium; skips the test where there is none."""
    found = chromium()
    if found is None:
        pytest.skip(MISSING)
    browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
    yield browser
    browser.close()
