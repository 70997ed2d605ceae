"""The page of a room: one document for the local server and for a file that is sent to people."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_TEMPLATES = files("medstress.report.review") / "templates"


def room_page(public: Mapping[str, Any], *, is_served: bool) -> str:
    """Return the page as HTML that loads nothing; texts are in it as data, never as markup.

    Script and style are allowed by their hashes alone, and only a served page may send anything,
    to the address it came from.

    Args:
        public: see `medstress.report.review.room.Room.public`.
        is_served: False for a file: its page keeps answers in the browser and gives them as a file.
    """
    script = (_TEMPLATES / "room.js").read_text("utf-8")
    style = (_TEMPLATES / "room.css").read_text("utf-8")
    allowed = "'self'" if is_served else "'none'"
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash_of(script)}'",
            f"style-src '{_hash_of(style)}'",
            f"connect-src {allowed}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    pages = Environment(
        loader=PackageLoader("medstress.report.review"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return pages.get_template("room.html").render(
        policy=policy,
        script=Markup(script),
        style=Markup(style),
        data=Markup(_as_data({**public, "served": is_served})),
        mode=public["mode"],
        is_served=is_served,
        n_cases=len(public["pairs"] or public["cases"]),
    )


def _hash_of(text: str) -> str:
    """Return what a Content-Security-Policy calls a script or style that stands in the page."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _as_data(value: Any) -> str:
    """Return JSON that can stand in a script element: ASCII without angle brackets."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
