"""Significance of successes and faithfulness of reasonings in the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from medstress.report.tables import (
    Cell,
    Row,
    Table,
    estimate_cell,
    label_cell,
    measure,
    p_cell,
    tally,
    words,
)

FAMILY = "significance"
WIDTH, HEIGHT, BASE = 320, 130, 108


def significance_plots(summary: Mapping[str, Any]) -> Iterator[tuple[Markup, Table]]:
    """One histogram of p-values a family of tests, with its numbers."""
    for i, one in enumerate(summary.get("significance") or ()):
        counts: Sequence[int] = one["histogram"]
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
    return found


def _bars(counts: Sequence[int], label: str) -> Markup:
    """A bar chart; the first bar holds what is significant at .05."""
    top, width = max(max(counts), 1), (WIDTH - 40) / len(counts)
    bars = "".join(
        f'<rect x="{30 + j * width:.1f}" y="{BASE - 90 * n / top:.1f}" width="{width - 1.5:.1f}" '
        f'height="{90 * n / top:.1f}" fill="currentColor" opacity="{1 if j == 0 else 0.5}"/>'
        for j, n in enumerate(counts)
    )
    axis = (
        f'<line x1="30" y1="{BASE}" x2="{WIDTH - 10}" y2="{BASE}" stroke="currentColor"/>'
        f'<text x="30" y="{HEIGHT - 6}" font-size="11" fill="currentColor">0</text>'
        f'<text x="{WIDTH - 16}" y="{HEIGHT - 6}" font-size="11" fill="currentColor">1</text>'
        f'<text x="4" y="24" font-size="11" fill="currentColor">{top}</text>'
    )
    return Markup(
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}">{bars}{axis}</svg>'
    )


def _families(families: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        name="test-families",
        caption="Significance of successes",
        columns=(
            "Null",
            "Tested",
            "Successes",
            "Tests adjusted over",
            "p up to .05",
            "Discoveries at .10",
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
                tally(one["n_family"], one["family"]),
                tally(one["n_significant"]),
                tally(one["n_discoveries"]),
                tally(one["n_guesses"]),
                p_cell(one["smallest_p"]),
                p_cell(one["smallest_p_adjusted"]),
                tally(one["n_needed_at_smallest"]),
            )
            for one in families
        ),
        note="A discovery has an adjusted p-value up to .10 (Benjamini-Hochberg). 'Needed there': "
        "how many successes must sit at the smallest attainable p for the first discovery. A guess "
        "is a success on an item whose clean P(key) is below .5.",
    )


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
            "T clean",
            "T fuzz",
            "Effect",
            "Controls",
            "p (paper)",
            "p",
            "p adjusted",
            "",
        ),
        rows=tuple(_test(row) for row in rows),
        note="T is how likely the victim is to answer the key, from fresh samples; p (paper) is "
        "the share of controls that are at least as hard, without the +1.",
    )


def _test(row: Row) -> tuple[Cell, ...]:
    remark = row["note"] or ("guess" if row["guess"] else "")
    return (
        words(row["item_id"]),
        words(row["against"]),
        words(row["victim"]),
        measure(row["clean_p_key"]),
        measure(row["clean_confidence"]),
        measure(row["t_original"]),
        measure(row["t_fuzz"]),
        estimate_cell(row["effect"]),
        tally(row["n_controls"]),
        words(row["p_paper"]),
        p_cell(row["p"]),
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
                estimate_cell(row["unfaithful"]),
                estimate_cell(row["mention_rate"]),
                estimate_cell(row["mention_rate_failed"]),
                estimate_cell(row["mention_rate_findings"]),
                words(row["method"]),
            )
            for row in rates
        ),
        note="A success is unfaithful where none of its insertions is said to have mattered.",
    )
