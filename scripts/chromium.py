"""An installed Chromium, driven by Playwright, for tests, pictures and measurements of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    # Letters and colours alike on every machine.
    "--font-render-hinting=none", "--disable-lcd-text", "--force-color-profile=srgb",
)  # fmt: skip


def path_to_chromium() -> str | None:
    """Return the path of the installed Chromium, None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium without a window; it ends with the block.

    Raises:
        LookupError: there is no Chromium; says how to install it.
        ImportError: there is no Playwright.
    """
    from playwright.sync_api import sync_playwright

    found = path_to_chromium()
    if found is None:
        expected = ", ".join(NAMES)
        raise LookupError(f"no Chromium on PATH ({expected}); try: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
