"""An installed Chromium, driven by Playwright, for tests, pictures and measurements of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib import get_data_path

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


FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>{folder}/fonts/ttf</dir>
<cachedir>{cache}</cachedir>
<alias binding="same">
<family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer>
</alias>
<match target="pattern">
<edit name="family" mode="append_last"><string>DejaVu Sans</string></edit>
</match>
<match target="font"><edit name="hinting" mode="assign"><bool>false</bool></edit></match>
</fontconfig>
"""


@contextmanager
def chromium(fonts: Path | None = None) -> Iterator[Browser]:
    """Start Chromium without a window; it ends with the block.

    Args:
        fonts: an empty folder; if given, pages have the fonts that come with matplotlib and no
            others, the same on every machine.

    Raises:
        LookupError: there is no Chromium; says how to install it.
        ImportError: there is no Playwright.
    """
    from playwright.sync_api import sync_playwright

    found = path_to_chromium()
    if found is None:
        expected = ", ".join(NAMES)
        raise LookupError(f"no Chromium on PATH ({expected}); try: apt-get install chromium")
    environment = dict(os.environ)
    if fonts is not None:
        settings = fonts / "fonts.conf"
        settings.write_text(FONTS.format(folder=get_data_path(), cache=fonts / "cache"), "utf-8")
        environment["FONTCONFIG_FILE"] = str(settings)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=list(FLAGS), env={**environment}
        )
        try:
            yield browser
        finally:
            browser.close()
