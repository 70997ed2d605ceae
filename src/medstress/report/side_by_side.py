"""Several runs on one page: the verdict of each, what the comparison says, and their pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any

from medstress.analyses.compare import Comparison
from medstress.report.first_screen import first_screen
from medstress.report.old_tables import as_old
from medstress.report.page import page
from medstress.report.section import Source
from medstress.results.formats import as_text, plural, shorten
from medstress.results.table import Table

_LONGEST = 80
"""Characters of the name of a run."""


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
        against = run.against_first
        sides = f"{mark(i)} ({titles[i]}) against {mark(0)} ({titles[0]})"
        rows.append(
            {
                "mark": mark(i),
                "folder": run.folder,
                "name": titles[i],
                "first": first_screen(Source(run.summary, (), run.manifest)),
                "against": None if against is None else f"{sides}: {_said(against)}",
                "tables": _tables(against, i) if isinstance(against, Comparison) else (),
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


def mark(i: int) -> str:
    """Return A, B, ..., Z, A2, B2, ...

    >>> mark(0), mark(25), mark(26)
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


def _said(against: Comparison | str) -> str:
    """Say what a comparison with the first run shows, or why there is none."""
    if isinstance(against, str):
        return f"no comparison: {against.rstrip('.')}."
    first = next(row for row in against.deciding if row.verdict == against.verdict)
    return " ".join(dict.fromkeys((against.sentence, first.sentence)))


def _tables(comparison: Comparison, i: int) -> list[Table]:
    tables = map(as_old, comparison.tables())
    return [replace(table, name=f"{table.name}-{i}") for table in tables]
