"""The figures and tables of one's own paper: only what the run has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from medstress.figures import (
    accuracy,
    attempts,
    budget,
    passages,
    regimes,
    scores,
    slices,
    tables,
    transfer,
)
from medstress.figures.outputs import Made, Skipped
from medstress.figures.rows import Rows

_FIGURES: tuple[Callable[[Rows, Sequence[str]], Made | None], ...] = (
    accuracy.accuracy,
    budget.budget,
    regimes.regimes,
    attempts.attempts,
    scores.scores,
    scores.training,
    transfer.transfer,
    slices.slices,
    passages.passages,
)
"""In the order of the index page; each returns None if the run has no such data."""
_TABLES: tuple[Callable[[Rows], Made | None], ...] = (tables.results, tables.controls)


def make_own(summary: Mapping[str, Any], formats: Sequence[str]) -> Iterator[Made | Skipped]:
    """Make the figures and tables that a run has data for.

    The same arguments give the same bytes.

    Args:
        summary: as `medstress summary --json`.
        formats: file formats of the figures: `pdf`, `svg`, `png`.
    """
    run = Rows(summary)
    if not run.attacks:
        reason = "the run has no finished trial of an attack"
        yield Skipped(name=tables.RESULTS, title="Results", reason=reason)
        return
    for figure in _FIGURES:
        if (made := figure(run, formats)) is not None:
            yield made
    for table in _TABLES:
        if (made := table(run)) is not None:
            yield made
