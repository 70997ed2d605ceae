"""Numbers and foreign text, written in the same way by every renderer."""

from __future__ import annotations

import re

from medstress.analyses.shown import Column, Entry, Form, Label
from medstress.stats.estimate import Estimate

NONE = "–"
"""Written for a value that is not there."""
MINUS = "−"
SMALLEST_P = 0.001
_UNWRITABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)
_GENERAL = 1_000
"""From here on a plain number is written whole, with commas."""


def clean(text: str) -> str:
    r"""Replace what a file or a terminal cannot show, and what reverses the text after it.

    >>> clean("a\x1b[2Jb\r\nc")
    'a�[2Jb\nc'
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", lines)


def one_line(text: str) -> str:
    """Return a cleaned text in one line."""
    return " ".join(clean(text).split())


def number(value: float | None, form: Form) -> str:
    """Write a number in the form of its column.

    >>> number(0.4512, "share"), number(-0.0001, "score"), number(0.135, "percent")
    ('.451', '.000', '13.5')
    >>> number(0.0, "p"), number(12_345, "count"), number(2.5, "count"), number(None, "share")
    ('< .001', '12,345', '2.50', '–')
    """
    if value is None or value != value:
        return NONE
    if form == "p" and value < SMALLEST_P:
        return f"< {SMALLEST_P}".replace("0.", ".")
    size = abs(value)
    if form == "count":
        text = f"{size:,.0f}" if float(value).is_integer() else f"{size:,.2f}"
    elif form == "percent":
        text = f"{100 * size:.1f}"
    elif form == "number" or form == "text":
        text = f"{size:,.0f}" if size >= _GENERAL else f"{size:.4g}"
    else:
        text = f"{size:,.3f}"
    text = text.removeprefix("0") if text.startswith("0.") and form != "percent" else text
    return MINUS + text if value < 0 and text.strip(".0") else text


def interval(estimate: Estimate, form: Form) -> str:
    """Write an interval; empty without one."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{number(estimate.low, form)}, {number(estimate.high, form)}]"


def parts(entry: Entry, column: Column) -> tuple[str, tuple[str, ...]]:
    """Return the text of an entry, and its smaller lines: counts, interval, remarks."""
    value, form = entry.value, column.form
    small: list[str] = []
    if isinstance(value, Estimate):
        text = number(value.value, form)
        if value.hits is not None and value.n and form in ("share", "percent"):
            small.append(f"{value.hits:,}/{value.n:,}")
        elif value.value is not None:
            small.append(f"n = {value.n:,}")
        small.append(interval(value, form))
    elif isinstance(value, Label):
        text = one_line(value.words)
    elif isinstance(value, str):
        text = one_line(value)
    else:
        text = number(value, form)
    return text + one_line(entry.mark), tuple(filter(None, (*small, *map(one_line, entry.lines))))


def sort_value(entry: Entry) -> float | None:
    """Return the number by which a row is sorted; None for text and missing values."""
    value = entry.value.value if isinstance(entry.value, Estimate) else entry.value
    is_number = isinstance(value, int | float) and value == value
    return value if is_number else None  # type: ignore[return-value]
