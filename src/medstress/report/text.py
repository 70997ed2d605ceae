"""Numbers and foreign text, written in the same way by every renderer; tables as Markdown and CSV.

`mark_changes` says what is different in a changed text.
"""

from __future__ import annotations

import csv
import io
import re
import string
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

from medstress.analyses.shown import Column, Entry, Form, Label, Table
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


# -- Markdown and CSV ------------------------------------------------------------------------------

_SPECIAL = re.compile(r"[\\`*_{\[|~#$&]|(?<=:)(?=//)|(?<=\bwww)(?=\.)")
_BEGINS_BLOCK = re.compile(r"(\d*)([.)>+-])")
_ENDS = ("", "_n", "_hits", "_low", "_high", "_worst_low", "_worst_high")
"""What an estimate's columns add to the name of its column."""


def escape(text: str) -> str:
    r"""Write text in one line and escape it for Markdown: no element, link or list.

    >>> print(escape("a|b < c, [x](y), https://z"))
    a\|b &lt; c, \[x](y), https:\//z
    """
    escaped = _inline(text)
    block = _BEGINS_BLOCK.match(escaped)
    return f"{block[1]}\\{escaped[block.end(1) :]}" if block else escaped


def _inline(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"\\{match[0]}", one_line(text)).replace("<", "&lt;")


def markdown_table(table: Table) -> str:
    """Write a table with its caption and notes."""

    def line(cells: list[str]) -> str:
        return f"| {' | '.join(cells)} |"

    rows = []
    for row in table.rows:
        cells = [parts(entry, column) for entry, column in zip(row, table.columns, strict=True)]
        rows.append(line([_inline(" ".join((text, *small))) for text, small in cells]))
    head = [
        line([_inline(column.heading) for column in table.columns]),
        line(["---" if column.form == "text" else "---:" for column in table.columns]),
    ]
    grid = "\n".join([*head, *rows])
    return "\n\n".join([f"**{escape(table.caption)}**", grid, *map(escape, table.notes)]) + "\n"


def csv_table(table: Table) -> str:
    """Write a table as CSV: keys instead of words, numbers unrounded, estimates in five columns, in
    seven where one has ends at worst."""
    parts = [_ends_of([row[i].value for row in table.rows]) for i in range(len(table.columns))]
    names = [
        f"{column.key or column.heading}{end}"
        for column, ends in zip(table.columns, parts, strict=True)
        for end in ends
    ]
    lines: list[list[object]] = [[clean(name) for name in names]]
    for row in table.rows:
        cells: list[object] = []
        for entry, ends in zip(row, parts, strict=True):
            value = entry.value
            if isinstance(value, Estimate):
                worst = value.worst or (None, None)
                numbers = [value.value, value.n, value.hits, value.low, value.high, *worst]
                cells += numbers[: len(ends)]
                continue
            plain = value.key if isinstance(value, Label) else value
            cells.append(clean(plain) if isinstance(plain, str) else plain)
            cells += [None] * (len(ends) - 1)
        lines.append(cells)
    return csv_text(lines)


def _ends_of(values: Sequence[object]) -> Sequence[str]:
    """Return what the columns of some values add to the name of their column."""
    estimates = [value for value in values if isinstance(value, Estimate)]
    if not estimates:
        return _ENDS[:1]
    return _ENDS if any(one.worst is not None for one in estimates) else _ENDS[:5]


def csv_text(lines: Iterable[Sequence[object]]) -> str:
    """Write lines as CSV; a text that a spreadsheet would evaluate gets an apostrophe in front."""
    from medstress.core.frames import neutral

    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([neutral(cell) for cell in line] for line in lines)
    return stream.getvalue()


# -- changes ---------------------------------------------------------------------------------------

_LARGEST_DIFF = 100_000_000
"""Limit of words before times words after; beyond it the whole stretch counts as changed."""
_PUNCTUATION = string.punctuation + "“”‘’…"
_CHUNK = re.compile(r"\s+|\S+")


SAME, REMOVED, ADDED = "same", "removed", "added"
Marked: TypeAlias = tuple[tuple[str, str], ...]
"""(`SAME`, `REMOVED` or `ADDED`, text) of every stretch of a text and its changed form."""


def mark_changes(before: str, after: str) -> Marked:
    """Compare two texts word by word.

    The removed and unchanged stretches give `before`; the added and unchanged ones give `after`.

    >>> [": ".join(one) for one in mark_changes("Give old aspirin.", "Give warfarin.")]
    ['same: Give ', 'removed: old aspirin', 'added: warfarin', 'same: .']
    """
    from rapidfuzz.distance import Indel

    old, new = _split(before), _split(after)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    was, now = old[start : len(old) - end], new[start : len(new) - end]
    pieces = [(SAME, "".join(old[:start]))]
    if len(was) * len(now) > _LARGEST_DIFF:
        pieces += [(REMOVED, "".join(was)), (ADDED, "".join(now))]
    else:
        for step in Indel.opcodes(was, now):
            removed = "".join(was[step.src_start : step.src_end])
            if step.tag == "equal":
                pieces.append((SAME, removed))
            else:
                added = "".join(now[step.dest_start : step.dest_end])
                pieces += [(REMOVED, removed), (ADDED, added)]
    pieces.append((SAME, "".join(old[len(old) - end :])))
    return tuple(_merge([(change, text) for change, text in pieces if text]))


@lru_cache(maxsize=64)
def _split(text: str) -> list[str]:
    """Return `_pieces` as a list; many texts are compared with one clean prompt."""
    return list(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    """Split into words, the white space between them and the punctuation around them."""
    for chunk in _CHUNK.findall(text):
        bare = chunk.lstrip(_PUNCTUATION)
        word = bare.rstrip(_PUNCTUATION)
        lead, trail = chunk[: len(chunk) - len(bare)], bare[len(word) :]
        yield from (piece for piece in (lead, word, trail) if piece)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many words at the start are equal."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _merge(pieces: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Join changes separated only by white space and punctuation into one removal and addition."""
    ends = (0, len(pieces) - 1)
    kept = [
        change == SAME and (i in ends or any(map(str.isalnum, text)))
        for i, (change, text) in enumerate(pieces)
    ]
    for same, group in groupby(zip(kept, pieces, strict=True), key=lambda one: one[0]):
        stretch = [piece for _, piece in group]
        for change in (SAME,) if same else (REMOVED, ADDED):
            text = "".join(text for kind, text in stretch if kind in (change, SAME))
            if text:
                yield change, text
