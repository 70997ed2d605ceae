"""The significance of successes as a table and as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medstress.metrics.significance import FALSE_DISCOVERY_RATE, LEVEL
from medstress.metrics.success_tests import FAMILY
from medstress.metrics.table import Table

HEADERS = (
    "item",
    "victim",
    "null",
    "clean P(key)",
    "clean conf.",
    "T clean",
    "T fuzz",
    "effect (95 %)",
    "controls",
    "as hard",
    "p paper",
    "p +1",
    "p",
    "p adj.",
    "",
)


def success_table(summary: Mapping[str, Any]) -> Table:
    """One row a tested success; `guess` where the victim did not know the clean item."""
    rows = [_cells(row) for row in summary["tests"] if row["family"] == FAMILY]
    return Table(headers=HEADERS, rows=rows)


def family_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """What every family of tests could show, and what it showed."""
    for one in summary.get("significance", ()):
        if one["n_refused"]:
            yield f"{one['null']}: {one['n_refused']} successes left out, not valid for experts"
        if not one["n_tested"]:
            yield f"{one['null']}: none of the tests could be finished"
            continue
        of = "attacked trials" if one["family"] == "attacked" else "successes"
        yield (
            f"{one['null']}: {one['n_significant']} of {one['n_tested']} at p <= {LEVEL:g}; "
            f"{one['n_discoveries']} at a false discovery rate of {FALSE_DISCOVERY_RATE:g} over "
            f"{one['n_family']} {of} ({one['n_successes']} successes in all)"
        )
        if one["n_tested"] < one["n_successes"]:
            yield (
                f"  {one['n_tested']} of {one['n_successes']} successes are tested; "
                "in the family the others count as p = 1"
            )
        yield (
            f"  smallest attainable p {one['smallest_p']:.3g}, adjusted "
            f"{one['smallest_p_adjusted']:.3g}; {one['n_needed_at_smallest']} successes must sit "
            "there for the first discovery"
        )
        bins = " ".join(str(n) for n in one["histogram"])
        yield f"  p-values in steps of {1 / len(one['histogram']):g}: {bins}"


def slope_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """How what reasonings say of insertions goes with what these did."""
    for one in summary.get("faithfulness", {}).get("slopes", ()):
        size = one["slope"]
        if size["value"] is None:
            yield f"faithfulness slope of {one['victim']}: {size['method']}"
            continue
        interval = f"({_number(size['low'])} to {_number(size['high'])})"
        yield (
            f"faithfulness slope of {one['victim']}: {_number(size['value'])} {interval}, over "
            f"{size['n']} insertions, told by {one['told_by']}"
        )


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    size = row["effect"] or {"value": None, "low": None, "high": None}
    effect = f"{_number(size['value'])} ({_number(size['low'])} to {_number(size['high'])})"
    return (
        row["item_id"],
        row["victim"],
        row["against"],
        _number(row["clean_p_key"]),
        _number(row["clean_confidence"]),
        _number(row["t_original"]),
        _number(row["t_fuzz"]),
        effect if row["effect"] else "",
        _text(row["n_controls"]),
        _text(row["n_as_hard"]),
        _text(row["p_paper"]),
        _number(row["p_plus1"]),
        _number(row["p"]),
        _number(row["p_adjusted"]),
        _remark(row),
    )


def _remark(row: Mapping[str, Any]) -> str:
    if row["refused"]:
        return "not valid (experts): left out"
    return "not tested" if row["note"] else "guess" if row["guess"] else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _text(value: Any) -> str:
    return "" if value is None else str(value)
