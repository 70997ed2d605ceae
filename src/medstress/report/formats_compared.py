"""Formats compared (`[sensitivity]`) and components of variance: the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.metrics.variance import FACTORS
from medstress.results.formats import decimal
from medstress.results.measures import measure
from medstress.results.table import Cell, Format, Table, as_row, columns
from medstress.results.table import Row as TableRow
from medstress.stats.components import REST
from medstress.stats.estimates import read_score, read_share

Row = Mapping[str, Any]

_PLACE = ("victim", "dataset", "group")
_RATES = ("accuracy", "accuracy_after", "asr")


def sensitivity_tables(found: Row | None) -> list[Table]:
    """Return the tables of `[sensitivity]`: formats, differences, conclusions; empty without it."""
    if not found:
        return []
    return [_formats(found), _differences(found), _conclusions(found)]


def _formats(found: Row) -> Table:
    return Table(
        name="formats",
        caption="One model asked in several formats",
        columns=(
            *columns(Format.TEXT, "Attack", "Victim", "Data set", "Group", "Prompt", "Answers by"),
            *(measure(name).column for name in _RATES),
            *columns(Format.TEXT, "ASR net"),
        ),
        rows=tuple(_lines(found)),
        notes=(
            "Below each model the lowest and the highest value of its formats.",
            found["sentence"],
        ),
        n_labels=6,
    )


def _lines(found: Row) -> Iterator[TableRow]:
    for span in found["ranges"]:
        key = (*(span[name] for name in _PLACE), span["attack"])
        for each in found["formats"]:
            if (*(each[name] for name in _PLACE), each["attack"]) == key:
                yield as_row(
                    each["attack"],
                    *(each[name] for name in _PLACE),
                    each["prompt"],
                    each["answer_by"],
                    *(read_share(each[name]) for name in _RATES),
                    _nets({name: net["value"] for name, net in each["asr_net"].items()}),
                )
        yield as_row(
            span["attack"],
            *(span[name] for name in _PLACE),
            "lowest to highest",
            None,
            *(_ends(span[name]) for name in _RATES),
            "; ".join(f"{name} {_ends(ends)}" for name, ends in span["asr_net"].items()),
        )


def _nets(nets: Mapping[str, float | None]) -> str:
    return "; ".join(f"{name} {decimal(value)}" for name, value in nets.items())


def _ends(ends: Mapping[str, float] | None) -> str:
    return "" if ends is None else f"{decimal(ends['lowest'])} to {decimal(ends['highest'])}"


def _differences(found: Row) -> Table:
    return Table(
        name="format-differences",
        caption="Paired differences between formats, first minus second",
        columns=(
            *columns(Format.TEXT, "Measure", "Attack", "Data set", "Group", "First", "Second"),
            *columns(Format.SCORE, "Difference"),
            *columns(Format.PROBABILITY, "p", "p, adjusted"),
        ),
        rows=tuple(
            as_row(
                measure(each["metric"]).label,
                each["attack"],
                each["dataset"],
                each["group"],
                each["first"],
                each["second"],
                read_score(each["difference"]),
                each["p"],
                Cell(value=each["p_adjusted"], lines=(f"of {each['family_size']}",)),
            )
            for each in found["differences"]
        ),
        notes=(
            "Accuracy after is the primary comparison: it is over all items that both formats "
            "answered. ASR is over the items that are right in both, and secondary: conditioning "
            "on an outcome can reverse an order. p is Holm's within the measure.",
        ),
        n_labels=6,
    )


def _conclusions(found: Row) -> Table:
    return Table(
        name="format-conclusions",
        caption="Conclusions, format by format",
        columns=columns(
            Format.TEXT,
            *("Conclusion", "Attack", "Against", "Victim", "Data set", "Group"),
            *("Sign changes", "Verdict changes", "Verdicts"),
        ),
        rows=tuple(
            as_row(
                *(each[name] for name in ("conclusion", "attack", "against", *_PLACE)),
                "yes" if each["changes"] else "no",
                _change(each),
                "; ".join(f"{label}: {one['verdict']}" for label, one in each["by_format"].items()),
            )
            for each in found["conclusions"]
        ),
        notes=(
            "A verdict says whether the 95 % interval lies above or below 0, or holds it; of two "
            "attacks, of the ASR of the first minus that of the second.",
        ),
        n_labels=6,
    )


def _change(each: Row) -> str:
    if each["is_reversed"]:
        return "reversed"
    return "yes" if each["verdict_changes"] else "no"


def variance_table(rows: Sequence[Row] | None) -> Table | None:
    """Return the components of variance of every ASR; None if nothing could be told apart."""
    known = [row for row in rows or () if row["half_width"]]
    if not known:
        return None
    names = (*FACTORS, REST)
    return Table(
        name="variance",
        caption="Where the variance of ASR comes from, and what to buy next",
        columns=(
            *columns(Format.TEXT, "Attack", "Victim", "Data set", "Group"),
            *columns(Format.SCORE, *(name.capitalize() for name in names)),
            *columns(Format.SCORE, "Half-width", "Twice the items", "Twice the seeds"),
            *columns(Format.TEXT, "Next"),
        ),
        rows=tuple(
            as_row(
                row["attack"],
                *(row[name] for name in _PLACE),
                *(row["components"][name] for name in names),
                *(row["half_width"][name] for name in ("now", "twice_items", "twice_seeds")),
                row["advice"],
            )
            for row in known
        ),
        notes=(
            f"Components of the variance of one flip (0 or 1): {known[0]['method']}. Half-widths "
            "are of the normal 95 % interval of ASR over items, seeds and names like these.",
        ),
        n_labels=4,
    )
