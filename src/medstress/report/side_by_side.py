"""Several runs on one page: the verdict of each, what the comparison says, and their pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any

from medstress.comparison.compare import Comparison
from medstress.comparison.tables import comparison_table
from medstress.report.first_screen import first_screen
from medstress.report.labels import label_text
from medstress.report.page import page
from medstress.report.section import Source
from medstress.results.formats import plural


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
    rows = []
    for i, run in enumerate(runs):
        found = run.against_first
        rows.append(
            {
                "mark": _mark(i),
                "folder": run.folder,
                "name": run.summary["experiment"]["name"],
                "first": first_screen(Source(run.summary, (), run.manifest)),
                "against": None if found is None else _said(found, i),
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


def _said(found: Comparison | str, i: int) -> str:
    """Say in a sentence what a comparison with the first run shows, or why there is none."""
    sides = f"{_mark(i)} against {_mark(0)}"
    if isinstance(found, str):
        return f"{sides}: no comparison. {found}"
    primary = found.primary_rows
    n = Counter(row.verdict for row in primary)[found.verdict]
    deciding = next((row for row in primary if row.verdict == found.verdict), None)
    if deciding is None or not deciding.sentence:
        return f"{sides}: {found.verdict}."
    if len(primary) == 1:
        return f"{sides}: {deciding.sentence}."
    arm = deciding.b
    place = label_text((arm.attack, arm.dataset, arm.group, arm.victim))
    return (
        f"{sides}: {found.verdict} ({n} of {plural(len(primary), 'primary row')}). First of these, "
        f"{place}: {deciding.sentence}."
    )


def _table(found: Comparison, i: int) -> Any:
    table = comparison_table(found)
    caption = f"{_mark(i)} against {_mark(0)}, on the same items and seeds"
    return replace(table, name=f"comparison-{i}", caption=caption)
