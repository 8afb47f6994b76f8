"""What the tests of pages share: a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.grader.chromium import launched


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, where the machine has it."""
    with sync_playwright() as playwright, launched(playwright) as started:
        yield started
