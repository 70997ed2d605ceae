"""Tables within 80 columns: what gives way, and what never does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from medstress.cli.fitting import Kind, Shape, fit
from medstress.cli.look import Look, bar, cut_apart, wrapped
from medstress.metrics.old_stats.estimates import Estimate
from medstress.results.table import Cell, Column, Format, Table, as_row, columns

NUMBER = re.compile(r"[−\d.,/]*\d")


def share(hits: int, n: int) -> Estimate:
    value = hits / n if n else None
    return Estimate(value=value, n=n, low=0.101, high=0.876, method="m", hits=hits)


def table(names: list[str], *shown: tuple[Column, list[object]]) -> Table:
    cells = zip(*(values for _, values in shown), strict=True)
    return Table(
        name="t",
        caption="",
        columns=(Column(heading="Attack"), *(column for column, _ in shown)),
        rows=tuple(as_row(name, *row) for name, row in zip(names, cells, strict=True)),
    )


def texts(made: Table, look: Look | None = None, shape: Shape | None = None) -> list[str]:
    return [line.text for line in fit(made, look or Look(), shape)]


SHARE = Column(heading="Loss (ASR)", format=Format.SHARE)
COUNTS = Column(heading="Queries", format=Format.COUNT)
LOSS = Shape(bar="Loss (ASR)")


def test_a_bar_is_as_long_as_its_share_in_eighths():
    for eighths in range(65):
        drawn = bar(eighths / 64, 8)
        full = drawn.count("█")
        assert full == eighths // 8
        assert len(drawn) == -(-eighths // 8)
    assert bar(1.7, 4) == "████"
    assert bar(None, 4) == bar(0.0, 4) == ""
    assert bar(0.5, 8, is_ascii=True) == "####"
    assert bar(1e-9, 8, is_ascii=True) == "#"


def test_what_is_the_same_in_every_row_is_said_once_above():
    made = table(["near", "far"], (SHARE, [share(1, 4), share(1, 2)]), (COUNTS, [12, 12]))
    lines = fit(made, Look(), LOSS)
    assert [line.text for line in lines if line.kind is Kind.SAID] == ["Queries: 12"]
    assert "12" not in " ".join(line.text for line in lines if line.kind is Kind.ROW)


def test_a_share_of_other_counts_is_said_without_any():
    before = Column(heading="Accuracy before", format=Format.SHARE)
    values = [share(2, 4), share(3, 6)]
    made = table(["near", "far"], (before, values), (SHARE, [share(1, 4), share(1, 2)]))
    said = texts(made, shape=Shape(bar="Loss (ASR)", brief=frozenset({"Accuracy before"})))
    assert said[0] == "Accuracy before: .500"
    same = table(["near", "far"], (before, [share(2, 4)] * 2), (SHARE, [share(1, 4), share(1, 2)]))
    said = texts(same, shape=Shape(bar="Loss (ASR)", brief=frozenset({"Accuracy before"})))
    assert said[0] == "Accuracy before: 2/4 = .500 [.101, .876]"


def test_counts_go_before_bars_and_names_are_cut_last():
    long = ["a name of some thirty letters", "another name of thirty letters"]
    values = [share(12, 45), share(7, 45)]
    roomy = texts(table(long, (SHARE, values)), Look(), LOSS)
    assert "12/45 = .267 [.101, .876]" in roomy[1]
    assert "█" in roomy[1]
    tight = texts(table(long, (SHARE, values)), Look(width=50), LOSS)
    assert "12/45" not in tight[1]
    assert ".267 [.101, .876]" in tight[1]
    assert "█" in tight[1]
    narrow = texts(table(long, (SHARE, values)), Look(width=40), LOSS)
    assert ".267 [.101, .876]" in narrow[1]
    assert "…" in narrow[1]


def test_remarks_stand_below_with_the_rows_they_are_about():
    cells = [Cell(value=share(1, 4), lines=("3 trials failed",)), Cell(value=share(1, 2))]
    lines = texts(table(["near", "far"], (SHARE, cells)), shape=LOSS)
    assert lines[-1] == "! near: 3 trials failed"
    assert [line[-1] for line in lines[1:3]] == ["!", "]"]
    both = [Cell(value=share(n, 4), lines=("3 trials failed",)) for n in (1, 2)]
    assert texts(table(["near", "far"], (SHARE, both)))[-1] == "! every row: 3 trials failed"


def test_a_column_of_sentences_stands_below_the_rows():
    said = ["left out, because nobody could tell what it means", ""]
    shown = [(SHARE, [share(1, 4), share(1, 2)]), (Column(heading="Remark"), said)]
    lines = texts(table(["near", "far"], *shown), shape=Shape(remarks="Remark"))
    assert lines[-1] == f"! near: {said[0]}"
    assert "Remark" not in lines[0]


def test_too_many_columns_stand_in_blocks_that_repeat_the_names():
    shown = [
        (Column(heading=f"Measure {i}", format=Format.SCORE), [share(i, 9), share(i + 1, 9)])
        for i in range(8)
    ]
    lines = texts(table(["near", "far"], *shown))
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("near") for line in lines) > 1
    assert all(f"Measure {i}" in "\n".join(lines) for i in range(8))


def test_ascii_has_no_other_character():
    made = table(["naïve · −", "far"], (SHARE, [share(1, 3), share(2, 3)]))
    lines = texts(made, Look(is_ascii=True, width=40), LOSS)
    assert "".join(lines).isascii()
    assert "###" in lines[1]


def test_an_interval_is_not_wrapped():
    text = "at worst " * 8 + "[.314, .755] and [−.2, 1.000]"
    for width in range(20, 90):
        lines = wrapped(text, width)
        assert " ".join(lines) == text
        assert all(line.count("[") == line.count("]") for line in lines)


@given(st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=8), st.integers(10, 30))
def test_names_that_differ_still_differ_when_cut(names, width):
    found = cut_apart([" ".join(name.split()) for name in names], width)
    assert len(set(found)) == len({" ".join(name.split()) for name in names})
    assert all(cell_len(each) <= width for each in found)


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8"), max_size=300),
            st.text(st.characters(codec="utf-8"), max_size=60),
            st.integers(0, 10**9),
            st.integers(0, 12_345),
        ),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_no_line_is_wider_than_the_screen_and_every_number_is_whole(rows, is_ascii):
    made = Table(
        name="t",
        caption="",
        columns=(
            *columns(Format.TEXT, "Attack", "Victim"),
            *columns(Format.SHARE, "Accuracy before", "Loss (ASR)"),
            *columns(Format.COUNT, "Queries"),
        ),
        rows=tuple(
            as_row(name, victim, share(12_000, 12_345), share(hits, 12_345), queries)
            for name, victim, queries, hits in rows
        ),
        n_labels=2,
    )
    lines = fit(made, Look(is_ascii=is_ascii), LOSS)
    assert max(cell_len(line.text) for line in lines) <= 80
    told = set(NUMBER.findall("\n".join(line.text for line in lines)))
    for row in made.rows:
        shown = row.cells[3].text(Format.SHARE).strip()
        assert shown in told
        assert row.cells[4].text(Format.COUNT) in told


@pytest.mark.parametrize("width", [60, 80, 120])
def test_headings_are_wrapped_between_words_only(width):
    headings = ["Queries asked", "To success, median", "Diversity, plain", "Not attackable"]
    shown = [(column, [1, 2]) for column in columns(Format.COUNT, *headings)]
    lines = fit(table(["x" * 50, "y" * 50], *shown), Look(width=width))
    heads = " ".join(line.text for line in lines if line.kind is Kind.HEAD)
    for heading in headings:
        assert all(word in heads.split() for word in heading.split())
