"""Several runs on one page: the verdict of each, what the comparison says, and their pictures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any

from medstress.comparison.compare import Comparison
from medstress.comparison.tables import comparison_table
from medstress.report.first_screen import first_screen
from medstress.report.labels import FACTORS, label_text
from medstress.report.page import page
from medstress.report.section import Source
from medstress.results.formats import as_text, plural, shorten
from medstress.results.names import Names

_LONGEST = 80
"""Characters of the name of a run."""
_ONLY = "Only A / only B"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One of the runs."""

    folder: str
    """Where it lies, as the user named it."""
    summary: Mapping[str, Any]
    """As `summary --json`."""
    manifest: Mapping[str, Any]
    """Its manifest."""
    against_first: Comparison | str | None
    """The comparison with the first run, or why there is none; None for the first run."""


def render_side_by_side(runs: Sequence[Beside]) -> str:
    """Render runs as one HTML page that loads no other resource: one row for each run.

    Args:
        runs: at least two.
    """
    titles = _titles(runs)
    rows: list[dict[str, Any]] = []
    for i, run in enumerate(runs):
        found = run.against_first
        sides = f"{_mark(i)} ({titles[i]}) against {_mark(0)} ({titles[0]})"
        rows.append(
            {
                "mark": _mark(i),
                "folder": run.folder,
                "name": titles[i],
                "first": first_screen(Source(run.summary, (), run.manifest)),
                "against": None if found is None else f"{sides}: {_said(found, run, i)}",
                "table": _table(found, i) if isinstance(found, Comparison) else None,
            }
        )
    drawn = any(row["first"].picture for row in rows)
    return page(
        "beside.html",
        styles=(),
        scripts=("charts.js",) if drawn else (),
        title=plural(len(rows), "run"),
        runs=rows,
        keys="{}",
    )


def _mark(i: int) -> str:
    """Return A, B, ..., Z, A2, B2, ...

    >>> _mark(0), _mark(25), _mark(26)
    ('A', 'Z', 'A2')
    """
    turn, letter = divmod(i, len(ascii_uppercase))
    return ascii_uppercase[letter] + (str(turn + 1) if turn else "")


def _titles(runs: Sequence[Beside]) -> list[str]:
    """Return the name of each run; where several have one name, their folders as well."""
    names = [shorten(as_text(run.summary["experiment"]["name"]), _LONGEST) for run in runs]
    return [
        name if names.count(name) == 1 else f"{name}, {_end(str(run.folder))}"
        for name, run in zip(names, runs, strict=True)
    ]


def _end(folder: str) -> str:
    """Shorten a path; folders of runs differ at their ends."""
    return shorten(folder[::-1], _LONGEST)[::-1]


def _said(found: Comparison | str, run: Beside, i: int) -> str:
    """Say in a sentence what a comparison with the first run shows, or why there is none."""
    if isinstance(found, str):
        return f"no comparison: {_of_b(found, i)}."
    rows = found.deciding_rows
    n = Counter(row.verdict for row in rows)[found.verdict]
    deciding = next((row for row in rows if row.verdict == found.verdict), None)
    if deciding is None or not deciding.sentence:
        return f"{found.verdict}."
    if len(rows) == 1:
        return f"{_of_b(deciding.sentence, i)}."
    names = Names(**(run.summary.get("names") or {}))
    place = label_text(names.of(factor, getattr(deciding.b, factor)) for factor in FACTORS)
    return (
        f"{found.verdict} ({n} of {plural(len(rows), 'deciding row')}). First of these, "
        f"{place}: {_of_b(deciding.sentence, i)}."
    )


def _of_b(text: str, i: int) -> str:
    """Give B of a comparison the letter that it has on the page.

    Only where the words of a comparison name it: a model may be called B as well.

    >>> _of_b("A and B differ in more than one thing: victim ('B' in A, 'x' in B)", 2)
    "A and C differ in more than one thing: victim ('B' in A, 'x' in C)"
    """
    return _B.sub(_mark(i), text.rstrip("."))


_B = re.compile(
    r"\bB\b(?= is (?:better|worse|no worse)\b| has )"
    r"|(?<=\bA and )B\b|(?<=\bin )B\b|(?<=\bunder )B\b|(?<=\bof )B\b"
)
"""B where it stands for a run."""


def _table(found: Comparison, i: int) -> Any:
    table = comparison_table(found)
    headings = {
        "B": _mark(i),
        "B minus A": f"{_mark(i)} minus A",
        _ONLY: f"Only A / only {_mark(i)}",
    }
    return replace(
        table,
        name=f"comparison-{i}",
        caption=f"{_mark(i)} against {_mark(0)}, on the same items and seeds",
        columns=tuple(
            replace(column, heading=headings.get(column.heading, column.heading))
            for column in table.columns
        ),
    )
