"""The significance of successes as a table and as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medstress.metrics.significance import LEVEL, Adjust, Null
from medstress.metrics.success_tests import FAMILY, repeated
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
    "if no effect",
    "p flipped",
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
        if one["n_not_testable"]:
            yield (
                f"{one['null']}: {one['n_not_testable']} successes could not be tested: they have "
                f"no p-value and count in no family; such as {_example(summary, one['null'])}"
            )
        if not one["n_tested"]:
            label = f" of a {one['label']} family ({named(one)})" if one["label"] else ""
            yield f"{one['null']}: none of the tests{label} could be finished"
            continue
        yield from _tested_family(one)


def named(family: Mapping[str, Any]) -> str:
    """The items or trials that make a fixed family.

    >>> named({"items": ["abel", "bert"], "trials": None})
    'abel, bert'
    """
    return ", ".join(family["items"] or family["trials"])


def _example(summary: Mapping[str, Any], null: str) -> str:
    """A success that could not be tested with a null, and why."""
    rows = [
        row
        for row in summary["tests"]
        if row["family"] == FAMILY and row["against"] == null and row["p"] is None
    ]
    return f"item {rows[0]['item_id']!r}: {rows[0]['note']}"


def _tested_family(one: Mapping[str, Any]) -> Iterator[str]:
    method = Adjust(one["adjust"])
    of = "attacked trials" if one["family"] == "attacked" else "successes"
    label = f" of a {one['label']} family ({named(one)})" if one["label"] else ""
    found = f"; {one['n_discoveries']} {method.told} over" if method is not Adjust.NONE else ", of"
    yield (
        f"{one['null']}: {one['n_significant']} of {one['n_tested']} at p <= {LEVEL:g}{found} "
        f"{one['n_family']} {of}{label} ({one['n_successes']} successes in all)"
    )
    if method is Adjust.NONE:
        by_chance = LEVEL * one["n_tested"]
        yield (
            f"  p-values are not adjusted: without any effect about {by_chance:.2g} of "
            f"{one['n_tested']} tests reach p <= {LEVEL:g}"
        )
    if caution := Null(one["null"]).caution:
        yield f"  {one['null']}: {caution} (docs/significance.md)"
    n_open = one["n_successes"] - one["n_tested"] - one["n_not_testable"]
    if n_open > 0:
        yield (
            f"  {one['n_tested']} of {one['n_successes']} successes are tested; the family counts "
            f"the other {n_open} too, and they have no p-value yet"
        )
    yield (
        f"  smallest attainable p {one['smallest_p']:.3g}, adjusted "
        f"{one['smallest_p_adjusted']:.3g}; {one['n_needed_at_smallest']} successes must sit "
        "there for the first discovery"
    )
    if one["shortfall"]:
        yield f"  {one['shortfall']}"
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
        _rejects(row),
        _among_flipped(row),
        _number(row["p_adjusted"]),
        _remark(row),
    )


def _rejects(row: Mapping[str, Any]) -> str:
    """Beside p: how many successes without effect this null called significant at most."""
    if row["p"] is None:
        return ""
    return f"up to {row['level_among_successes']:.2f} at .05"


def _among_flipped(row: Mapping[str, Any]) -> str:
    """p among the loops that erred, and how many these are."""
    if row["p_flipped"] is None or row["against"] == Null.FLIPPED:
        return ""
    return f"{_number(row['p_flipped'])} of {row['n_flipped']}"


def _remark(row: Mapping[str, Any]) -> str:
    if row["refused"]:
        return "not valid (experts): left out"
    if row["p"] is None:
        return "not tested"
    return "; ".join(filter(None, ("guess" if row["guess"] else None, repeated(row))))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _text(value: Any) -> str:
    return "" if value is None else str(value)
