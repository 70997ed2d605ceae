"""One table, and its renderers: shares show what they counted, and nothing else ever does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from medstress.metrics import Estimate, rate, wilson
from medstress.metrics.old_stats.estimates import read_score, read_share
from medstress.results import text
from medstress.results.csv import as_csv, flatten
from medstress.results.html import html_table
from medstress.results.latex import latex_table
from medstress.results.markdown import markdown_table
from medstress.results.measures import GROUPS, measure
from medstress.results.table import Cell, Column, Format, Table, Value, as_row

F1_DROP = {"value": 0.0, "n": 4797, "low": -0.01, "high": 0.01, "method": ""}
PEARSON = {"value": 0.5, "n": 100, "low": 0.3, "high": 0.7, "method": ""}
WRONG = ("0/4,797", "0/4797", "50/100")
"""What renderers once guessed from value times n."""


def terminal(table: Table) -> str:
    return "\n".join(" | ".join(row) for row in [text.headings(table), *text.rows(table)])


RENDERERS: dict[str, Callable[[Table], str]] = {
    "text": terminal,
    "html": html_table,
    "markdown": markdown_table,
    "latex": latex_table,
}


def table_of(*values: Value | Cell, form: Format = Format.SHARE) -> Table:
    columns = tuple(Column(heading=f"c{i}", format=form) for i in range(len(values)))
    return Table(
        name="t",
        caption="c",
        columns=(Column(heading="row"), *columns),
        rows=(as_row("r", *values),),
    )


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("form", [Format.SHARE, Format.SCORE, Format.PERCENT])
def test_no_renderer_can_write_hits_that_an_estimate_does_not_have(
    renderer: str, form: Format
) -> None:
    """Even where its column is said to hold shares."""
    table = table_of(read_score(F1_DROP), read_score(PEARSON), form=form)
    shown = RENDERERS[renderer](table).replace("\\", "")
    assert not [wrong for wrong in WRONG if wrong in shown]
    assert {Format.PERCENT: "50.0"}.get(form, ".500") in shown


@pytest.mark.parametrize("renderer", RENDERERS)
def test_the_fields_of_a_summary_are_read_as_what_their_measures_are(renderer: str) -> None:
    fields = {"f1_drop": F1_DROP, "pearson": PEARSON, "recovered": PEARSON, "diversity": PEARSON}
    shown = [measure(name) for name in fields]
    table = Table(
        name="t",
        caption="c",
        columns=(Column(heading="row"), *(each.column for each in shown)),
        rows=(as_row("r", *(each.read(fields) for each in shown)),),
    )
    written = RENDERERS[renderer](table)
    assert not [wrong for wrong in WRONG if wrong in written]
    assert [each.read(fields).hits for each in shown] == [None] * 4


def test_csv_holds_values_and_n_and_no_hits() -> None:
    rows = flatten([{"f1_drop": F1_DROP, "pearson": PEARSON}])
    written = as_csv(rows, list(rows[0]))
    assert "/" not in written
    assert "hits" not in written
    assert written.splitlines()[1].startswith("0.0,4797,")


@pytest.mark.parametrize("renderer", ["text", "html"])
def test_a_share_shows_hits_of_n(renderer: str) -> None:
    written = RENDERERS[renderer](table_of(wilson(37, 82)))
    assert "37/82" in written
    assert ".451" in written
    assert "[.348, .559]" in written


def test_a_share_of_nothing_shows_its_empty_fraction_and_a_weighted_share_its_n() -> None:
    weighted = read_share({**PEARSON, "value": 0.4567, "n": 3})
    assert text.rows(table_of(wilson(0, 0), rate([]), weighted)) == [
        ("r", "0/0", "0/0", ".457 [.300, .700]")
    ]
    assert "n = 3<" in html_table(table_of(weighted))


def test_hits_are_those_that_were_counted_and_never_in_the_json() -> None:
    found = rate([("q1", True), ("q2", False), ("q3", True)])
    assert (found.hits, found.n) == (2, 3)
    assert list(found.as_json()) == ["value", "n", "low", "high", "method"]
    assert read_share(found.as_json()) == found


@pytest.mark.parametrize("n", [1, 3, 7, 4797, 1_000_003])
def test_hits_follow_from_the_json_of_any_share(n: int) -> None:
    for k in {0, 1, n // 3, n // 2, n - 1, n}:
        assert read_share(wilson(k, n).as_json()).hits == k


def test_what_is_no_share_of_counts_never_prints_any_whatever_its_format() -> None:
    for group in GROUPS.values():
        for each in group:
            if each.format is not Format.SHARE:
                read = each.read({each.name: PEARSON})
                assert not isinstance(read, Estimate) or read.hits is None


@pytest.mark.parametrize("form", [Format.TEXT, Format.COUNT, Format.NUMBER, Format.PROBABILITY])
def test_an_estimate_stands_only_where_it_can_be_written_whole(form: Format, said) -> None:
    with pytest.raises(TypeError) as caught:
        table_of(wilson(1, 2), form=form)
    said(str(caught.value), "c0")


def test_rows_and_heads_are_as_wide_as_the_columns() -> None:
    columns = (Column(heading="a"), Column(heading="b"))
    with pytest.raises(ValueError, match="expected 2 columns"):
        Table(name="t", caption="", columns=columns, rows=(as_row("x"),))
    with pytest.raises(ValueError, match="expected 2 columns"):
        Table(name="t", caption="", columns=columns, rows=(), heads=((("x", 3),),))


def test_what_names_a_row_is_one_cell_of_the_page_and_columns_elsewhere() -> None:
    table = Table(
        name="t",
        caption="c",
        columns=(
            Column(heading="Attack"),
            Column(heading="Data set"),
            Column(heading="Seed", format=Format.NUMBER),
            Column(heading="ASR", format=Format.SHARE),
        ),
        rows=(as_row("near", "sample", 3, wilson(1, 2)),),
        n_labels=3,
    )
    page = html_table(table)
    assert page.count("<th ") == len(["labels", "ASR", "the row"])
    assert "Attack, data set, seed" in page
    assert "sample · seed 3" in page
    assert 'data-sort="0.5"' in page
    assert r"\begin{tabular}{lllr}" in latex_table(table)
    assert text.headings(table) == ("Attack", "Data set", "Seed", "ASR")


def test_a_page_of_a_stranger_s_words_has_no_element_of_theirs() -> None:
    bad = "<script>alert(1)</script>"
    table = Table(
        name="t",
        caption=bad,
        columns=(Column(heading=bad), Column(heading=bad)),
        rows=(as_row(bad, Cell(value=bad, lines=(bad,), before=bad, mark=bad)),),
        notes=(bad,),
    )
    page = html_table(table)
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 9
    assert "<script" not in html_table(Table(name="t", caption=bad, columns=(), rows=()))
