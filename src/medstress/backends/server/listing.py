"""Reads a server's list of models, page by page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from medstress.backends.server.errors import ServerTrouble
from medstress.backends.server.known_keys import cleaned

_MOST_PAGES = 50
_MOST_NAMES = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The models that a server lists."""

    names: tuple[str, ...] = ()
    """Their names, in its order."""
    is_whole: bool = False
    """Whether these are all, so that another name is unknown."""


def read_listing(get: Callable[[str], bytes]) -> Listing:
    """Read the whole list.

    Pages are asked for as OpenAI's and Anthropic's lists are: `has_more`, then the last id. Other
    marks of a further page, such as a link, are not followed: the list then counts as a part.

    Args:
        get: returns the body at a path below the base address.

    Raises:
        ServerTrouble: the first page did not come.
    """
    path, names = "/models", dict[str, None]()
    for number in range(_MOST_PAGES):
        try:
            page = _read(get(path))
        except ServerTrouble:
            if number == 0:
                raise
            break
        new = [name for name in _names(page) if name not in names]
        names |= dict.fromkeys(new)
        if not _has_more(page):
            return Listing(names=tuple(names), is_whole=bool(names))
        last = page.get("last_id") or (new[-1] if new else None)
        if not new or page.get("has_more") is not True or not isinstance(last, str):
            break
        if len(names) > _MOST_NAMES:
            break
        path = f"/models?after={quote(last, safe='')}&after_id={quote(last, safe='')}"
    return Listing(names=tuple(names))


def read_one(get: Callable[[str], bytes], model: str) -> str | None:
    """Return the name under which the server describes one model; None if it describes none.

    Some servers know aliases that they do not list.
    """
    try:
        page = _read(get(f"/models/{quote(model, safe='')}"))
    except ServerTrouble:
        return None
    name = page.get("id")
    return name if isinstance(name, str) else None


def _read(body: bytes) -> dict[str, Any]:
    """Return a page; some servers send the rows alone, and what is no list has none."""
    try:
        page = orjson.loads(body)
        return cleaned(page if isinstance(page, dict) else {"data": page})
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return {}


def _names(page: dict[str, Any]) -> list[str]:
    found = (page[key] for key in ("data", "models") if isinstance(page.get(key), list))
    rows: list[Any] = next(found, [])
    named = [row.get("id") or row.get("name") if isinstance(row, dict) else row for row in rows]
    return [name for name in named if isinstance(name, str) and name]


def _has_more(page: dict[str, Any]) -> bool:
    marks = ("has_more", "next", "next_page", "nextPageToken", "next_page_token")
    return any(page.get(mark) for mark in marks)
