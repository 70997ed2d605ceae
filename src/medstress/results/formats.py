"""Write numbers and foreign text in the same way everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

NONE = "–"
"""Written for a missing value."""

MINUS = "−"

_UNWRITABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
_NEWLINE = re.compile("\r\n?")


def clean(text: str) -> str:
    r"""Replace what an HTML file cannot hold: control characters and lone surrogates.

    >>> clean("a\x00b\r\nc")
    'a�b\nc'
    """
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", _NEWLINE.sub("\n", text))


def writable(value: Any) -> Any:
    """Clean a value for a template; applied to all values, so templates need not do it."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return clean(value)
    return NONE if value is None else value


def undirected(text: str) -> str:
    r"""Clean a text, and replace characters that change the writing direction.

    In running text, a plot or a source file an override would reverse the text after it.

    >>> undirected("a\u202eb")
    'a�b'
    """
    return _DIRECTION.sub("\N{REPLACEMENT CHARACTER}", clean(text))


def shorten(text: str, limit: int) -> str:
    """Cut `text` to one line of at most `limit` characters.

    Characters that change the writing direction become U+FFFD, because the result is put into
    running text.

    >>> shorten("entity substitution", 12)
    'entity subs…'
    """
    line = " ".join(undirected(text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def decimal(value: float | None, digits: int = 3) -> str:
    """Write a number with `digits` decimals, without the zero before the point.

    >>> decimal(0.4512), decimal(1.0), decimal(-0.02), decimal(None)
    ('.451', '1.000', '−.020', '–')
    """
    if value is None or value != value:
        return NONE
    text = f"{abs(value):,.{digits}f}".removeprefix("0")
    zero = not text.strip(".0")
    return MINUS + text if value < 0 and not zero else text


def percent(value: float | None, digits: int = 1) -> str:
    """Write a share in per cent, as the papers print success rates.

    >>> percent(0.135), percent(-0.02), percent(None)
    ('13.5', '−2.0', '–')
    """
    if value is None:
        return NONE
    text = f"{abs(100 * value):.{digits}f}"
    return MINUS + text if value < 0 and text.strip("0.") else text


def count(value: float | None) -> str:
    """Write a count, with a comma between thousands; a mean or median keeps its decimals.

    >>> count(12345), count(2.5), count(None)
    ('12,345', '2.50', '–')
    """
    if value is None or value != value:
        return NONE
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def probability(value: float | None) -> str:
    """Write a p-value; below .001 as `< .001`.

    >>> probability(0.0321), probability(2e-9)
    ('.032', '< .001')
    """
    return "< .001" if value is not None and value < 0.001 else decimal(value)


def interval(estimate: Mapping[str, Any]) -> str:
    """Write the interval of an estimate.

    >>> interval({"value": .5, "n": 8, "low": .2, "high": .8, "method": "wilson"})
    '[.200, .800]'
    """
    low, high = estimate.get("low"), estimate.get("high")
    return NONE if low is None or high is None else f"[{decimal(low)}, {decimal(high)}]"


def listed(names: Sequence[str]) -> str:
    """Join names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def as_text(value: Any) -> str:
    """Write any JSON value in one line; text is not changed.

    >>> as_text("a"), as_text(None), as_text({"n": -20.0})
    ('a', '–', '{"n": -20.0}')
    """
    if value is None:
        return NONE
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def pretty(value: Any) -> str:
    """Write any JSON value over several lines, in the order given."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)
