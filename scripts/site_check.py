"""Whether the built site keeps to itself: loads nothing from elsewhere, is searched as files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from chromium import chromium
from site_pages import ROOT

LOADS = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?"
    r"(?:src|href|srcset|data|poster)=[\"']?((?:https?:)?//[^\"'\s>]+)",
    re.IGNORECASE,
)
"""What a page loads by itself; links that a reader may follow are not meant."""
STYLES = re.compile(r"(?:@import\s+[\"']?|url\([\"']?)((?:https?:)?//[^\"')\s]+)")
SOUGHT = "clinicians"
"""A word of the page on reviews."""


def check(site: Path) -> str:
    """Look at a built site, `make docs`; return what was seen.

    Raises:
        ValueError: it loads something from elsewhere, or its search finds nothing.
    """
    named = [
        f"{path.relative_to(site)}: {match}"
        for ending, pattern in (("html", LOADS), ("html", STYLES), ("css", STYLES))
        for path in sorted(site.rglob(f"*.{ending}"))
        for match in pattern.findall(path.read_text("utf-8"))
    ]
    asked: list[str] = []
    pages = [path for path in sorted(site.rglob("*.html")) if path.name != "404.html"]
    with chromium() as browser:
        page = browser.new_context().new_page()
        page.on("request", lambda one: asked.append(one.url))
        for path in pages:
            page.goto(path.as_uri())
        page.goto((site / "index.html").as_uri())
        page.fill("input[name=query]", SOUGHT)
        page.wait_for_selector(".md-search-result__item", timeout=20_000)
        n_found = page.locator(".md-search-result__item").count()
    named += [url for url in asked if not url.startswith((site.as_uri(), "data:", "blob:"))]
    if named:
        raise ValueError(f"the site loads from elsewhere: {', '.join(named[:5])}")
    return f"{len(pages)} pages, nothing from elsewhere; the search finds {n_found} pages"


def built() -> Path:
    """Build the site with every warning an error, and return its folder.

    Raises:
        ValueError: it cannot be built; the message is what the builder says.
    """
    done = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, check=False, text=True)
    if done.returncode:
        raise ValueError(" ".join(f"{done.stdout}{done.stderr}"[-1200:].split()))
    return ROOT / "build" / "site"


if __name__ == "__main__":
    try:
        print(check(built()))
    except ValueError as failed:
        sys.exit(f"FAILED: {failed}")
