"""Pages of results: a person writes the words, a benchmark the tables and numbers between marks.

A page is a Markdown file. `fill` puts what was measured between `<!-- name -->` and
`<!-- /name -->` and leaves the rest as it is; the other functions write what stands there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medstress.papers.claims.verdicts import Finding
from medstress.results.formats import NONE, decimal
from medstress.stats.estimates import Estimate

_MARKED = re.compile(r"(<!-- (?P<name>[^/>][^>]*) -->)(?P<old>.*?)(<!-- /(?P=name) -->)", re.DOTALL)
_RIGHT, _LEFT = "---:", "---"


def fill(page: str, parts: Mapping[str, str]) -> str:
    r"""Put each part between the marks of its name.

    Raises:
        ValueError: the page does not have exactly one pair of marks for each part.

    >>> fill("# A\n\n<!-- sizes -->\nold\n<!-- /sizes -->\n", {"sizes": "new\n"})
    '# A\n\n<!-- sizes -->\nnew\n<!-- /sizes -->\n'
    """
    marks = [each["name"] for each in _MARKED.finditer(page)]
    if sorted(marks) != sorted(parts):
        raise ValueError(
            f"expected a page with one pair of marks <!-- NAME --> and <!-- /NAME --> for each of "
            f"{', '.join(sorted(parts))}; got them for {', '.join(sorted(marks)) or 'none'}"
        )
    return _MARKED.sub(lambda each: f"{each[1]}\n{parts[each['name']].strip()}\n{each[4]}", page)


def blocks(*parts: str) -> str:
    r"""Paragraphs, tables and the like under one another; empty ones are left out.

    >>> blocks("a", "", "b\n")
    'a\n\nb'
    """
    return "\n\n".join(part.strip() for part in parts if part.strip())


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], *, drop_empty: bool = False) -> str:
    """A Markdown table of values as `shown` writes them; columns of numbers to the right.

    Args:
        heads: one for each column.
        rows: the body.
        drop_empty: leave out columns in which no row has a value.

    >>> print(table(["what", "n", "not measured"], [["a", 1200, None]], drop_empty=True))
    | what | n |
    | --- | ---: |
    | a | 1,200 |
    """
    rows = list(rows)
    columns = [[row[i] for row in rows] for i in range(len(heads))]
    kept = [
        i
        for i, column in enumerate(columns)
        if not drop_empty or any(value is not None for value in column)
    ]
    lines = [
        [heads[i] for i in kept],
        [_RIGHT if all(map(_is_number, columns[i])) else _LEFT for i in kept],
        *([shown(row[i]) for i in kept] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def listed(points: Iterable[str]) -> str:
    """A list, a point a line."""
    return "\n".join(f"* {point}" for point in points)


def shown(value: Any) -> str:
    """A value: text as it is, a number, several of them, or an estimate with its interval.

    An estimate is an `Estimate` or a mapping with `value`, `low` and `high`, as results have it.

    >>> shown({"value": 0.5, "low": 0.4, "high": "0.61"}), shown([1.0, 2048]), shown(None)
    ('.500 [.400, .610]', '1.0, 2,048', '–')
    """
    if value is None:
        return NONE
    if isinstance(value, Estimate):
        value = value.as_json()
    if isinstance(value, Mapping):
        number, low, high = (_number(value[key]) for key in ("value", "low", "high"))
        ends = "" if low is None else f" [{decimal(low)}, {decimal(high)}]"
        return decimal(number) + ends
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value)) or NONE
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def verdicts(found: Mapping[str, Sequence[str]]) -> str:
    """How often each claim was judged how.

    Args:
        found: the verdicts of each claim; what is none of the three stands at the end, as it is.

    >>> print(verdicts({"a": ["supported", "supported"], "b": ["not run"]}))
    | claim | supported | undecided | contradicted |  |
    | --- | ---: | ---: | ---: | --- |
    | a | 2 | – | – | – |
    | b | – | – | – | not run |
    """
    heads = [each.value for each in (Finding.SUPPORTED, Finding.UNDECIDED, Finding.CONTRADICTED)]
    rows = []
    for claim, each in found.items():
        n = Counter(each)
        others = [f"{told} ({n[told]})" if n[told] > 1 else told for told in n if told not in heads]
        rows.append([claim, *(n[head] or None for head in heads), "; ".join(others) or None])
    return table(["claim", *heads, ""], rows)


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, int | float)


def _number(value: Any) -> float | None:
    return None if value in (None, "") else float(value)
