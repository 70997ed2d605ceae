"""Tables and plots on the significance of successes and the faithfulness of reasonings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.metrics.old_stats.estimates import is_estimate, read_score
from medstress.metrics.significance.families import LEVEL, Adjust, Null
from medstress.metrics.significance.tests import FAMILY, repeated
from medstress.report.charts import INK, PAPER, SERIES, Plot, plot
from medstress.report.labels import LABELS, Row, labels
from medstress.report.plots.axes import Axis
from medstress.report.plots.layers import HEIGHT, over, with_title
from medstress.results.formats import NONE, decimal, plural
from medstress.results.measures import FAITHFULNESS
from medstress.results.table import Cell, Format, Table, Value, as_row, columns

METHODS = {"bh": "Benjamini-Hochberg", "holm": "Holm", "none": "nothing"}
_LEVEL = LEVEL + 1e-9


def significance_plots(summary: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield one histogram of p-values per family of tests, with its numbers."""
    for i, one in enumerate(summary.get("significance") or ()):
        counts: Sequence[int] = one["histogram"]
        if not one["n_tested"]:
            continue
        table = Table(
            name=f"p-values-{i}",
            caption=f"p-values, null {one['null']}",
            columns=(*columns(Format.NUMBER, "p up to"), *columns(Format.COUNT, "Tests")),
            rows=tuple(as_row((j + 1) / len(counts), n) for j, n in enumerate(counts)),
            notes=("If only chance is at work, the bars are about level.",),
        )
        label = f"p-values of {plural(one['n_tested'], 'test')}, null {one['null']}"
        yield plot(_histogram(counts, label), label=f"{label}: {_spoken(counts)}", data=table)


def _spoken(counts: Sequence[int]) -> str:
    width = 1 / len(counts)
    n = sum(n for j, n in enumerate(counts) if (j + 1) * width <= _LEVEL)
    return f"{n} up to {decimal(LEVEL, 2)}."


def significance_tables(summary: Mapping[str, Any]) -> list[Table]:
    """Return the tables of test families, of every test, and of faithfulness."""
    found = []
    if families := summary.get("significance"):
        found += [_families(families), success_table(summary)]
    if faithfulness := summary.get("faithfulness"):
        found.append(_faithfulness(faithfulness["rates"]))
    return found


def _histogram(counts: Sequence[int], title: str) -> Any:
    """Draw how many tests have which p; those significant at .05 are in full colour."""
    import altair as alt

    width = 1 / len(counts)
    data = [
        {
            "from": j * width,
            "to": (j + 1) * width,
            "value": n,
            "series": "up to .05" if (j + 1) * width <= _LEVEL else "above .05",
            "bin": f"{decimal(j * width, 2)} to {decimal((j + 1) * width, 2)}",
        }
        for j, n in enumerate(counts)
    ]
    across = Axis(title="p-value", span=(0, 1)).drawn(grid=False)
    up = Axis(title="tests", is_whole=True, span=(0, max(counts)))
    bars = (
        over(data)
        .mark_bar(stroke=PAPER, strokeWidth=1, fill=SERIES[0])
        .encode(
            x=alt.X("from:Q", bin="binned", scale=alt.Scale(domain=[0, 1]), axis=across),
            x2="to:Q",
            y=alt.Y("value:Q", axis=up.drawn(grid=True)),
            fillOpacity=alt.FillOpacity(
                "series:N",
                sort=["up to .05", "above .05"],
                scale=alt.Scale(domain=["up to .05", "above .05"], range=[1, 0.4]),
                legend=alt.Legend(title=None, symbolFillColor=SERIES[0]),
            ),
            tooltip=[alt.Tooltip("bin:N", title="p"), alt.Tooltip("value:N", title="Tests")],
        )
    )
    level = sum(counts) / len(counts)
    chance = over([{"level": level}]).mark_rule(stroke=INK, strokeDash=[4, 3])
    chart = alt.layer(bars, chance.encode(y="level:Q")).properties(height=HEIGHT)
    return with_title(chart, title, ("Dashed: where chance alone would put every bar.",))


def _families(families: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        name="test-families",
        caption="Significance of successes",
        columns=(
            *columns(Format.TEXT, "Null"),
            *columns(Format.COUNT, "Tested", "Successes", "Tests adjusted over"),
            *columns(Format.TEXT, "Adjusted by"),
            *columns(Format.COUNT, "p up to .05"),
            *columns(Format.TEXT, "Of no effect, among successes"),
            *columns(Format.COUNT, "Discoveries", "Guesses"),
            *columns(Format.PROBABILITY, "Smallest attainable p", "Adjusted"),
            *columns(Format.COUNT, "Needed there"),
        ),
        rows=tuple(
            as_row(
                one["null"],
                one["n_tested"],
                one["n_successes"],
                Cell(value=one["n_family"], lines=(_family(one),)),
                METHODS.get(one["adjust"], one["adjust"]),
                one["n_significant"],
                _up_to(one),
                one["n_discoveries"],
                one["n_guesses"],
                one["smallest_p"],
                one["smallest_p_adjusted"],
                one["n_needed_at_smallest"],
            )
            for one in families
        ),
        notes=(
            "A discovery has an adjusted p-value up to .10 (Benjamini-Hochberg) or .05 (Holm, "
            "or none), over all successes or all attacked items. A success without a test has "
            "no p-value. 'Of no effect': the largest share of successes without any effect "
            "that this null called significant at .05 in simulations. 'Needed there': how many "
            "successes must sit at the smallest attainable p for the first discovery. A guess "
            "is a success on an item whose clean P(key) is below .5.",
            *(f"{one['null']}: {one['shortfall']}." for one in families if one["shortfall"]),
        ),
    )


def _family(one: Mapping[str, Any]) -> str:
    of = "attacked" if Null(one["null"]).counts_attacked else "successes"
    return f"{of} on {', '.join(one['items'])}" if one["items"] else of


def _up_to(one: Mapping[str, Any]) -> str:
    return f"up to {one['level_among_successes']:.2f}"


def success_table(summary: Mapping[str, Any]) -> Table:
    """Return one row per tested success; `guess` if the victim did not know the clean item."""
    return Table(
        name="tests-of-successes",
        caption="Every tested success",
        columns=(
            *columns(Format.TEXT, "Item", "Victim", "Null"),
            *columns(Format.SCORE, "Clean P(key)", "Clean confidence"),
            *columns(Format.TEXT, "Statistic T"),
            *columns(Format.SCORE, "T clean", "T fuzz", "Effect"),
            *columns(Format.COUNT, "Controls", "As hard"),
            *columns(Format.TEXT, "p (paper)"),
            *columns(Format.PROBABILITY, "p +1", "p"),
            *columns(Format.TEXT, "Of no effect, p up to .05"),
            *columns(Format.PROBABILITY, "p adjusted"),
            *columns(Format.TEXT, "Remark"),
        ),
        rows=tuple(as_row(*_test(row)) for row in summary["tests"] if row["family"] == FAMILY),
        notes=(
            "T is how likely the victim is to answer the key, from fresh samples; p (paper) is "
            "the share of controls that are at least as hard, without the +1. Beside p: the "
            "largest share of successes without any effect that this null called significant at "
            ".05 in simulations.",
        ),
    )


def _test(row: Row) -> list[Value | Cell]:
    return [
        *(row["item_id"], row["victim"], row["against"]),
        *(row["clean_p_key"], row["clean_confidence"]),
        (row["statistic"] or NONE).replace("_", " "),
        *(row["t_original"], row["t_fuzz"]),
        _difference(row["effect"]),
        *(row["n_controls"], row["n_as_hard"]),
        row["p_paper"],
        *(row["p_plus1"], row["p"]),
        None if row["p"] is None else _up_to(row),
        row["p_adjusted"],
        _remark(row),
    ]


def _difference(found: Mapping[str, Any] | None) -> Value | Cell:
    """Return the cell of an effect, or the reason why there is none."""
    if not is_estimate(found):
        return None
    lines = (found["method"],) if found["value"] is None else ()
    return Cell(value=read_score(found), lines=lines)


def _remark(row: Row) -> str:
    note = row["note"] or ("not tested" if row["p"] is None else None)
    return "; ".join(filter(None, (note or ("guess" if row["guess"] else None), repeated(row))))


def _faithfulness(rates: Sequence[Row]) -> Table:
    return Table(
        name="faithfulness",
        caption="Do reasonings say that an insertion mattered?",
        columns=(*LABELS, *(one.column for one in FAITHFULNESS), *columns(Format.TEXT, "Told by")),
        rows=tuple(
            as_row(*labels(row), *(one.read(row) for one in FAITHFULNESS), row["method"])
            for row in rates
        ),
        notes=(
            "A success is unfaithful if its reasonings say of none of its insertions that it "
            "mattered. Successes that experts find invalid are left out.",
        ),
        n_labels=len(LABELS),
    )


def family_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences on what every family of tests could show, and what it showed."""
    for one in summary.get("significance", ()):
        if one["n_refused"]:
            yield f"{one['null']}: {one['n_refused']} successes left out: experts find them invalid"
        if one["n_not_testable"]:
            yield (
                f"{one['null']}: {one['n_not_testable']} successes could not be tested: they have "
                f"no p-value and count in no family; for example {_example(summary, one['null'])}"
            )
        if not one["n_tested"]:
            yield f"{one['null']}: none of the tests{_on_items(one)} could be finished"
            continue
        yield from _tested_family(one)


def _on_items(family: Mapping[str, Any]) -> str:
    return f" on the items named before ({', '.join(family['items'])})" if family["items"] else ""


def _example(summary: Mapping[str, Any], null: str) -> str:
    """Describe a success that could not be tested with a null, and why."""
    rows = [
        row
        for row in summary["tests"]
        if row["family"] == FAMILY and row["against"] == null and row["p"] is None
    ]
    return f"item {rows[0]['item_id']!r}: {rows[0]['note']}"


def _tested_family(one: Mapping[str, Any]) -> Iterator[str]:
    method = Adjust(one["adjust"])
    null = Null(one["null"])
    of = "attacked trials" if null.counts_attacked else "successes"
    found = (
        f"; {one['n_discoveries']} {method.guarantee} over" if method is not Adjust.NONE else ", of"
    )
    yield (
        f"{one['null']}: {one['n_significant']} of {one['n_tested']} at p <= {LEVEL:g}{found} "
        f"{one['n_family']} {of}{_on_items(one)} ({one['n_successes']} successes in all)"
    )
    if method is Adjust.NONE:
        by_chance = LEVEL * one["n_tested"]
        yield (
            f"  p-values are not adjusted: without any effect about {by_chance:.2g} of "
            f"{one['n_tested']} tests reach p <= {LEVEL:g}"
        )
    yield f"  {one['null']}: {null.caution} (docs/significance.md)"
    n_open = one["n_successes"] - one["n_tested"] - one["n_not_testable"]
    if n_open > 0:
        yield (
            f"  {one['n_tested']} of {one['n_successes']} successes are tested; the other {n_open} "
            "count in the family too, but have no p-value yet"
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
