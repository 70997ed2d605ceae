"""Significance of successes and faithfulness of reasonings in the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from medstress.metrics.success_table import named
from medstress.metrics.success_tests import repeated
from medstress.report.formats import NONE, clean, interval
from medstress.report.tables import (
    Cell,
    Row,
    Table,
    label_cell,
    measure,
    p_cell,
    share_cell,
    tally,
    words,
)

FAMILY = "significance"
METHODS = {"bh": "Benjamini-Hochberg", "holm": "Holm", "none": "nothing"}
WIDTH, HEIGHT, BASE = 360, 170, 132
LEFT, RIGHT, TALLEST = 44, 350, 106


def significance_plots(summary: Mapping[str, Any]) -> Iterator[tuple[Markup, Table]]:
    """One histogram of p-values a family of tests, with its numbers."""
    for i, one in enumerate(summary.get("significance") or ()):
        counts: Sequence[int] = one["histogram"]
        if not one["n_tested"]:
            continue
        yield (
            _bars(counts, f"p-values of {one['n_tested']} tests, null {one['null']}"),
            Table(
                name=f"p-values-{i}",
                caption=f"p-values, null {one['null']}",
                columns=("p up to", "Tests"),
                rows=tuple(
                    (Cell(text=f"{(j + 1) / len(counts):g}", sort=j), tally(n))
                    for j, n in enumerate(counts)
                ),
                note="Where nothing but chance is at work the bars are about level.",
            ),
        )


def significance_tables(summary: Mapping[str, Any]) -> list[Table]:
    """Families of tests, every test, and what reasonings say."""
    found = []
    if families := summary.get("significance"):
        tests = [row for row in summary["tests"] if row["family"] == FAMILY]
        found += [_families(families), _tests(tests)]
    if told := summary.get("faithfulness"):
        found.append(_faithfulness(told["rates"]))
        if slopes := told.get("slopes"):
            found.append(_slopes(slopes))
    return found


def _bars(counts: Sequence[int], label: str) -> Markup:
    """A bar chart with its title and axis; the first bar holds what is significant at .05."""
    label = escape(clean(label))
    top, width = max(max(counts), 1), (RIGHT - LEFT) / len(counts)
    bars = "".join(
        f'<rect x="{LEFT + j * width:.1f}" y="{BASE - TALLEST * n / top:.1f}" '
        f'width="{width - 1.5:.1f}" height="{TALLEST * n / top:.1f}" fill="currentColor" '
        f'opacity="{1 if j == 0 else 0.45}"/>'
        for j, n in enumerate(counts)
    )
    ticks = "".join(
        f'<text x="{LEFT + (RIGHT - LEFT) * at:.1f}" y="{BASE + 14}" text-anchor="middle">{shown}'
        "</text>"
        for at, shown in ((0.0, "0"), (0.05, ".05"), (0.25, ".25"), (0.5, ".5"), (1.0, "1"))
    )
    axes = (
        f'<text x="{LEFT}" y="12" font-size="11">{label}</text>'
        f'<line x1="{LEFT}" y1="{BASE}" x2="{RIGHT}" y2="{BASE}" stroke="currentColor"/>'
        f'<text x="{LEFT - 6}" y="{BASE - TALLEST + 4}" text-anchor="end">{top}</text>'
        f'<text x="{LEFT - 6}" y="{BASE + 3}" text-anchor="end">0</text>'
        f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 4}" text-anchor="middle">p-value</text>'
        f'<text transform="translate(12 {BASE - TALLEST / 2}) rotate(-90)" text-anchor="middle">'
        "tests</text>"
    )
    return Markup(
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-size="10" fill="currentColor">{bars}{ticks}{axes}</svg>'
    )


def _difference(estimate: Mapping[str, Any]) -> Cell:
    """A value with its interval; it is no share, so there is nothing to count it over."""
    if estimate["value"] is None:
        return measure(None, estimate["method"])
    return measure(estimate["value"], interval(estimate))


def _families(families: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        name="test-families",
        caption="Significance of successes",
        columns=(
            "Null",
            "Tested",
            "Successes",
            "Tests adjusted over",
            "Adjusted by",
            "p up to .05",
            "Of no effect, among successes",
            "Discoveries",
            "Guesses",
            "Smallest attainable p",
            "Adjusted",
            "Needed there",
        ),
        rows=tuple(
            (
                words(one["null"]),
                tally(one["n_tested"]),
                tally(one["n_successes"]),
                tally(one["n_family"], _family(one)),
                words(METHODS.get(one["adjust"], one["adjust"])),
                tally(one["n_significant"]),
                _up_to(one),
                tally(one["n_discoveries"]),
                tally(one["n_guesses"]),
                p_cell(one["smallest_p"]),
                p_cell(one["smallest_p_adjusted"]),
                tally(one["n_needed_at_smallest"]),
            )
            for one in families
        ),
        note=" ".join(
            [
                "A discovery has an adjusted p-value up to .10 (Benjamini-Hochberg) or .05 (Holm, "
                "or none), over all successes or all attacked items. A success without a test has "
                "no p-value. 'Of no effect': the largest share of successes without any effect "
                "that this null called significant at .05 in simulations. 'Needed there': how many "
                "successes must sit at the smallest attainable p for the first discovery. A guess "
                "is a success on an item whose clean P(key) is below .5.",
                *(f"{one['null']}: {one['shortfall']}." for one in families if one["shortfall"]),
            ]
        ),
    )


def _family(one: Mapping[str, Any]) -> str:
    if not one["label"]:
        return str(one["family"])
    return f"{one['family']}, {one['label']}: {named(one)}"


def _up_to(one: Mapping[str, Any]) -> Cell:
    return words(f"up to {one['level_among_successes']:.2f}")


def _tests(rows: Sequence[Row]) -> Table:
    return Table(
        name="tests-of-successes",
        caption="Every tested success",
        columns=(
            "Item",
            "Null",
            "Victim",
            "Clean P(key)",
            "Clean confidence",
            "Statistic T",
            "T clean",
            "T fuzz",
            "Effect",
            "Controls",
            "p (paper)",
            "p",
            "Of no effect, p up to .05",
            "p among loops that erred",
            "p adjusted",
            "Remark",
        ),
        rows=tuple(_test(row) for row in rows),
        note="T is how likely the victim is to answer the key, from fresh samples; p (paper) is "
        "the share of controls that are at least as hard, without the +1. Beside p: the largest "
        "share of successes without any effect that this null called significant at .05 in "
        "simulations.",
    )


def _test(row: Row) -> tuple[Cell, ...]:
    remark = "; ".join(
        filter(None, (row["note"] or ("guess" if row["guess"] else None), repeated(row)))
    )
    return (
        words(row["item_id"]),
        words(row["against"]),
        words(row["victim"]),
        measure(row["clean_p_key"]),
        measure(row["clean_confidence"]),
        words((row["statistic"] or NONE).replace("_", " ")),
        measure(row["t_original"]),
        measure(row["t_fuzz"]),
        _difference(row["effect"]) if row["effect"] else measure(None),
        tally(row["n_controls"]),
        words(row["p_paper"]),
        p_cell(row["p"]),
        _up_to(row) if row["p"] is not None else words(NONE),
        p_cell(row["p_flipped"]),
        p_cell(row["p_adjusted"]),
        words(remark),
    )


def _faithfulness(rates: Sequence[Row]) -> Table:
    return Table(
        name="faithfulness",
        caption="Do reasonings say that an insertion mattered?",
        columns=(
            "Attack, data, victim",
            "Unfaithful successes",
            "Insertions mentioned, successes",
            "Failed attempts",
            "Sentences of the vignette",
            "Told by",
        ),
        rows=tuple(
            (
                label_cell(row),
                share_cell(row["unfaithful"]),
                share_cell(row["mention_rate"]),
                share_cell(row["mention_rate_failed"]),
                share_cell(row["mention_rate_findings"]),
                words(row["method"]),
            )
            for row in rates
        ),
        note="A success is unfaithful where none of its insertions is said to have mattered. "
        "Successes that experts find not valid are left out.",
    )


def _slopes(rows: Sequence[Row]) -> Table:
    return Table(
        name="faithfulness-slopes",
        caption="Does what reasonings say go with what insertions did?",
        columns=(
            "Attack, data, victim",
            "Slope",
            "Pearson r",
            "Insertions",
            "Left out",
            "Samples of each",
            "Told by",
        ),
        rows=tuple(
            (
                label_cell(row),
                _difference(row["slope"]),
                _difference(row["pearson_r"]),
                tally(row["n_clauses"]),
                tally(row["n_left_out"]),
                tally(row["samples"]),
                words(row["told_by"]),
            )
            for row in rows
        ),
        note="Of the standardised share of reasonings that say an insertion mattered on its "
        "standardised causal effect: how far the answers move without it (Kullback-Leibler "
        "divergence). 1: reasonings say what mattered; 0: what they say tells nothing. One line "
        "through all insertions, so slope and r are one number with two intervals.",
    )
