"""What all pages share: templates that escape every value, and hashes for content policies."""

from __future__ import annotations

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256

from jinja2 import Environment, PackageLoader, StrictUndefined

from medstress.results import formats
from medstress.results.html import html_table


@lru_cache
def templates(package: str) -> Environment:
    """Return the templates of a package's folder `templates`.

    Values are escaped, and lose what HTML cannot hold; an undefined one is an error. Filters:
    `shorten`, `count`, `table`.
    """
    found = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=formats.writable,
    )
    found.filters["shorten"] = formats.shorten
    found.filters["count"] = formats.count
    found.filters["table"] = html_table
    return found


def source_hash(text: str) -> str:
    """Return what a Content-Security-Policy calls a script or style that stands in the page."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
