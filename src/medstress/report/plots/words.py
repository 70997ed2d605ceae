"""What the marks of a chart say: names in words, labels that fit, and which rows are drawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from medstress.metrics.old_stats.estimates import Estimate, is_estimate, read_score, read_share
from medstress.report.labels import FACTORS, Row, short_labels
from medstress.results.formats import NONE, as_text, count, decimal, percent, undirected
from medstress.results.names import Names

T = TypeVar("T")

MOST_ROWS = 40
"""Rows of a chart with one line each."""
MOST_LINES = 12
"""Lines of a chart of curves; more cannot be told apart."""
MOST_PANELS = 8
"""Charts of one kind on a page."""
LINE = 24
"""Characters of a line of an axis label: so wide that a chart of 390 pixels has room for marks."""
LONGEST = 66
"""Characters of the longest label on an axis."""
IN_LEGEND = 40
"""Characters of the longest label in a legend below a chart of curves; it stays on one line."""
BESIDE_NAMES = 28
"""The same where names at the left leave less room."""
TITLE_LINE = 40
"""Characters of a line of a title."""


def names_in(summary: Mapping[str, Any]) -> Names:
    """Return the names of a summary; none if it has none."""
    return Names(**(summary.get("names") or {}))


def _row_in_words(row: Row, names: Names) -> dict[str, Any]:
    """Return a row with names in place of the keys of attack, data set, group and victim."""
    return {**row, **{name: names.of(name, row[name]) for name in FACTORS if _has(row, name)}}


def labelled(rows: Sequence[Row], names: Names, factors: Iterable[str] = FACTORS) -> list[str]:
    """Label rows in words by what they differ in; no two labels are alike."""
    return unique(short_labels([_row_in_words(row, names) for row in rows], factors))


def place_words(row: Row, names: Names, *factors: str) -> str:
    """Return some of a row's names in one line, such as data set, group and victim."""
    return " · ".join(names.of(name, row[name]) for name in factors if _has(row, name))


def arm_of(row: Row) -> dict[str, str]:
    """Return the keys of the arm that a mark belongs to, by which a page finds its cases."""
    return {name: as_text(row[name]) for name in FACTORS if _has(row, name)}


def _has(row: Row, name: str) -> bool:
    return row.get(name) is not None


def unique(texts: Iterable[str]) -> list[str]:
    """Number the texts that stand there already.

    >>> unique(["a", "b", "a"])
    ['a', 'b', 'a #2']
    """
    found, seen = [], Counter[str]()
    for text in texts:
        seen[text] += 1
        found.append(text if seen[text] == 1 else f"{text} #{seen[text]}")
    return found


def middle(text: str, limit: int) -> str:
    """Bring a text to one line of at most `limit` characters; what is too much goes from its middle.

    >>> middle("entity substitution", 12)
    'entity…ution'
    """  # noqa: E501 - one sentence
    line = " ".join(undirected(text).split())
    if len(line) <= limit:
        return line
    tail = (limit - 1) // 2
    return f"{line[: limit - 1 - tail].rstrip()}…{line[len(line) - tail :].lstrip()}"


def wrapped(text: str, width: int = LINE, limit: int = LONGEST) -> str:
    """Break a label between words, and inside a word only where it is longer than a line.

    >>> wrapped("near names · drugs · llama", 14)
    'near names ·\\ndrugs · llama'
    """
    lines: list[str] = []
    # A dot between names ends a line and begins none.
    for word in middle(text, limit).replace(" · ", "\N{NO-BREAK SPACE}· ").split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines += _pieces(word, width)
    return "\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")


def _pieces(word: str, width: int) -> list[str]:
    """Break a word longer than a line, after a mark such as a slash where there is one.

    >>> _pieces("organisation/models/rule-7b", 16)
    ['organisation/', 'models/rule-7b']
    """
    found = []
    while len(word) > width:
        ends = [i for i in range(width // 2, width + 1) if not word[i - 1].isalnum()]
        end = ends[-1] if ends else width
        found.append(word[:end])
        word = word[end:]
    return [*found, word]


def on_axis(texts: Iterable[str]) -> list[str]:
    """Wrap labels of an axis; no two are alike."""
    return unique(map(wrapped, texts))


def in_legend(texts: Iterable[str], limit: int = IN_LEGEND) -> list[str]:
    """Shorten labels of a legend; no two are alike."""
    return unique(middle(text, limit) for text in texts)


def most_important(
    rows: Sequence[T], limit: int, weight: Callable[[T], float], noun: str = ""
) -> tuple[list[T], tuple[str, ...]]:
    """Return the rows to draw, in their order, and a sentence if some are left out.

    Args:
        rows: all rows.
        limit: how many may be drawn.
        weight: how important a row is.
        noun: what the rows are, for the sentence.

    >>> most_important([3, 9, 5], 2, float, "names")
    ([9, 5], ('2 of 3 names shown; all are in the table.',))
    """
    if len(rows) <= limit:
        return list(rows), ()
    order = sorted(range(len(rows)), key=lambda i: (-weight(rows[i]), i))[:limit]
    what = f" {noun}" if noun else ""
    said = f"{count(limit)} of {count(len(rows))}{what} shown; all are in the table."
    return [rows[i] for i in sorted(order)], (said,)


def first_panels(
    panels: Mapping[Any, T], weight: Callable[[T], float]
) -> tuple[dict[Any, T], tuple[str, ...]]:
    """Return the panels to draw, in their order, and a sentence if some are left out."""
    if len(panels) <= MOST_PANELS:
        return dict(panels), ()
    kept = sorted(panels, key=lambda key: -weight(panels[key]))[:MOST_PANELS]
    said = (
        f"{MOST_PANELS} of {count(len(panels))} such charts are drawn; "
        "medstress summary --json has the numbers of all."
    )
    return {key: panels[key] for key in panels if key in set(kept)}, (said,)


def read(found: Any) -> Estimate | None:
    """Read a share of a summary; None where there is none, or where it is unknown."""
    estimate = read_share(found) if is_estimate(found) else None
    return estimate if estimate is not None and estimate.value is not None else None


def read_number(found: Any) -> Estimate | None:
    """Read an estimate that is no share; None where there is none, or where it is unknown."""
    estimate = read_score(found) if is_estimate(found) else None
    return estimate if estimate is not None and estimate.value is not None else None


def harm(found: Any) -> float:
    """Return how sure a rate is to be high: the lower end of its interval; unknown is least."""
    estimate = read(found)
    if estimate is None or estimate.value is None:
        return -1.0
    return estimate.value if estimate.low is None else estimate.low


def mark(estimate: Estimate, row: Row, *, is_share: bool = True, **fields: Any) -> dict[str, Any]:
    """Return the datum of a mark: the estimate, how a tooltip says it, and the keys of its arm.

    Args:
        estimate: with a value.
        row: has the keys of the arm.
        is_share: written in per cent, with the counts behind it.
        fields: more fields of the datum.
    """
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None:
        raise ValueError("what is unknown has no mark")
    write = (lambda x: f"{percent(x)} %") if is_share else decimal
    ends = "none" if low is None or high is None else f"{write(low)} to {write(high)}"
    counted = estimate.hits is not None and is_share
    return {
        **fields,
        "value": value,
        "low": value if low is None else low,
        "high": value if high is None else high,
        "numerator": count(estimate.hits) if counted else NONE,
        "denominator": count(estimate.n),
        "said": write(value),
        "interval": ends,
        "method": as_text(estimate.method or None),
        **arm_of(row),
    }
