"""Whether the built site keeps to itself: loads nothing from elsewhere, is searched as files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from site_pages import ROOT, lay_out

LOADS = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?"
    r"(?:src|href|srcset|data|poster)=[\"']?((?:https?:)?//[^\"'\s>]+)",
    re.IGNORECASE,
)
"""What a page loads by itself; links that a reader may follow are not meant."""
STYLES = re.compile(r"(?:@import\s+[\"']?|url\([\"']?)((?:https?:)?//[^\"')\s]+)")
ARTICLE = re.compile(r"<article.*?</article>", re.DOTALL)
CODE = re.compile(r"<pre.*?</pre>|<code.*?</code>", re.DOTALL)
MARKUP = re.compile(r"\n *(?:[*-]|\d+\.) |\| ?-{3}|\*\*\S|`|\]\(")
"""Markdown that nobody should see: GitHub reads some lists and tables that MkDocs does not."""
OUTSIDE = re.compile(r"\]\((https?://[^)\s]+)\)")
"""A link that leaves the site."""
GUARDED = (401, 403, 405, 429)
"""What servers say to programs of pages that browsers see."""
STATUS = "status"
"""How the reason begins where a server answered."""
SECONDS = 20
"""For one address."""
SOUGHT = "clinicians"
"""A word of the page on reviews."""


def built(out: Path) -> Path:
    """Build the site with every warning an error, and return its folder.

    Raises:
        ValueError: it cannot be built; the message is what the builder says.
    """
    lay_out()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "--site-dir", str(out)],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    if "No module named mkdocs" in done.stderr:
        raise ValueError("mkdocs is missing; install it with: pip install 'medstress[docs]'")
    if done.returncode:
        raise ValueError(" ".join(f"{done.stdout}{done.stderr}"[-1200:].split()))
    return out


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Return what pages and styles name to be loaded from another host."""
    return [
        f"{path.relative_to(site)}: {match}"
        for ending, pattern in (("html", LOADS), ("html", STYLES), ("css", STYLES))
        for path in sorted(site.rglob(f"*.{ending}"))
        for match in pattern.findall(path.read_text("utf-8"))
    ]


def dead_links() -> tuple[list[str], int, int]:
    """Follow the links of the pages to other sites, each once.

    Returns:
        What leads nowhere, with the page and the reason, how many links a server answered, and how
        many there are.
    """
    found: dict[str, str] = {}
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for address in OUTSIDE.findall(path.read_text("utf-8")):
            found.setdefault(address, path.relative_to(ROOT).as_posix())
    told = {url: dead(url) for url in found}
    gone = [f"{found[url]}: {url}: {why}" for url, why in told.items() if why]
    n_answered = sum(why is None or why.startswith(STATUS) for why in told.values())
    return gone, n_answered, len(found)


def dead(address: str) -> str | None:
    """Return why an address leads nowhere; None where a page is, also one not for programs."""
    request = Request(address, headers={"User-Agent": "Mozilla/5.0"})  # some refuse urllib's own
    try:
        with urlopen(request, timeout=SECONDS):
            return None
    except HTTPError as error:
        return None if error.code in GUARDED else f"{STATUS} {error.code}"
    except OSError as error:
        return str(error)


def left_as_markdown(site: Path) -> list[str]:
    """Return lists, tables, links and the like that the builder did not read."""
    return [
        f"{path.relative_to(site)}: {match[0].strip()} in {text[match.start() :][:60].strip()!r}"
        for path in sorted(site.rglob("*.html"))
        for article in ARTICLE.findall(path.read_text("utf-8"))
        for text in [CODE.sub("", article)]
        for match in MARKUP.finditer(text)
    ]


def asked_in_a_browser(site: Path) -> tuple[list[str], int]:
    """Open every page from its file and search once.

    Returns:
        The addresses beyond the folder that were asked for, and how many pages the search finds.
    """
    from chromium import chromium

    asked: list[str] = []
    with chromium() as browser:
        page = browser.new_context().new_page()
        page.on("request", lambda one: asked.append(one.url))
        for path in sorted(site.rglob("*.html")):
            if path.name != "404.html":  # a server's page, whose addresses begin at its root
                page.goto(path.as_uri())
        page.goto((site / "index.html").as_uri())
        page.fill("input[name=query]", SOUGHT)
        page.wait_for_selector(".md-search-result__item", timeout=20_000)
        n_found = page.locator(".md-search-result__item").count()
    return sorted(set(_beyond(asked, site))), n_found


def _beyond(asked: list[str], site: Path) -> Iterator[str]:
    yield from (url for url in asked if not url.startswith((site.as_uri(), "data:", "blob:")))
