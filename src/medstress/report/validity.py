"""The rate of valid successes in the report; unknown validity is never shown as 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medstress.metrics.old_stats.estimates import read_score
from medstress.metrics.vouched import NOTHING_VOUCHES
from medstress.report.labels import Row, number
from medstress.results.formats import count, decimal
from medstress.results.table import Cell


def valid_cell(row: Row) -> Cell:
    """Return a cell with `asr_valid` and the labels behind it, or "unknown" with the bounds.

    If every success is refuted and none was cut off, no success is valid, and that is known.
    """
    unknown, censored = number(row, "n_validity_unknown"), number(row, "n_censored")
    notes = (f"{count(unknown)} unknown",) * bool(unknown)
    notes += (f"{count(censored)} censored",) * bool(censored)
    between = bounds_text(row.get("asr_valid_bounds"))
    bounds = (between,) * bool(between)
    valid = row.get("asr_valid")
    if not valid:
        if not number(row, "n_flipped"):
            possible = bounds * any(row.get("asr_valid_bounds") or ())
            return Cell(value="no success", lines=possible + notes)
        if not unknown and max(row.get("asr_valid_bounds") or (1,)) == 0:
            return Cell(value="none valid", lines=notes)
        why = str((row.get("validity") or {}).get("why") or NOTHING_VOUCHES)
        told = (why,) * (why != NOTHING_VOUCHES)
        return Cell(value="unknown", lines=told + bounds + notes)
    flipped = count(number(row, "n_flipped"))
    labels = f"review: {count(valid['n_labels'])} of {flipped} successes"
    lines = (labels, *_open(valid), *bounds, _wider(valid, row), *notes)
    return Cell(value=read_score(valid), lines=tuple(filter(None, lines)))


def _open(valid: Row) -> Iterator[str]:
    """Say how many successes nobody settled."""
    if n := (valid.get("n_disputed") or 0) + (valid.get("n_unlabelled") or 0):
        low, high = map(decimal, valid["settled_ends"])
        yield f"{count(n)} without a settled label: {low} to {high} with all invalid or all valid"


def _wider(valid: Row, row: Row) -> str:
    """Say why an interval may reach beyond bounds that assume nothing."""
    bounds = row.get("asr_valid_bounds")
    if not bounds or None in (valid["low"], valid["high"]):
        return ""
    is_within = bounds[0] <= valid["low"] and valid["high"] <= bounds[2]
    return "" if is_within else "the interval is for items like these, the bounds for these alone"


def bounds_text(bounds: Sequence[float] | None) -> str:
    """Describe the bounds of a rate.

    >>> bounds_text([0, 0.25, 0.25]), bounds_text([0.1, 0.25, 0.5]), bounds_text(None)
    ('between .000 and .250', 'between .100 and .250, .500 with censored', '')
    """
    if not bounds:
        return ""
    none, all_unknown, all_censored = map(decimal, bounds)
    more = "" if all_censored == all_unknown else f", {all_censored} with censored"
    return f"between {none} and {all_unknown}{more}"
