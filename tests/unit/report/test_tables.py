"""One table, five renderers: hostile text, odd numbers, narrow and wide screens."""

import csv
import io
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from medstress.analyses.shown import Column, Entry, Label, Table
from medstress.report.html import html_table
from medstress.report.latex import escape as latex_escape
from medstress.report.latex import latex_table
from medstress.report.terminal import print_table
from medstress.report.text import (
    clean,
    csv_table,
    interval,
    markdown_table,
    number,
    parts,
    sort_value,
)
from medstress.stats.estimate import Estimate, wilson

HOSTILE = "<script>alert(1)</script>[red]x[/red]\x1b[2J\x00|a|*b*\u202egnp\ud800 $&%#_{}~^\\\n\nend"
FORMULA = '=HYPERLINK("https://evil.example")'
LONG = "pneumonoultramicroscopicsilicovolcanoconiosis" * 3
SCORE = Estimate(value=-0.0321, n=40, low=-0.2, high=None, method="boot <b>")


def cell(value: object, *lines: str) -> Entry:
    return Entry(value=value, lines=lines)  # type: ignore[arg-type]


TABLE = Table(
    name="hostile",
    caption=f"Caption {HOSTILE}",
    columns=(
        Column(heading="Attack"),
        Column(heading="Model & <co>", key="victim"),
        Column(heading="Data", wide=True),
        Column(heading="Lost (ASR)", form="share", key="asr", tip='what "was" <lost>'),
        Column(heading="Score", form="score"),
        Column(heading="Trials", form="count"),
        Column(heading="p", form="p"),
        Column(heading="Note"),
    ),
    rows=(
        (
            cell(Label(words=HOSTILE, key="near")),
            cell(Label(words="one model", key="one_model")),
            cell("d"),
            cell(wilson(3, 7), "at worst [.1, .9]", HOSTILE),
            cell(SCORE),
            cell(12_345),
            cell(0.0),
            cell(FORMULA),
        ),
        (
            cell(LONG),
            cell("[bold]two[/bold]"),
            cell("d"),
            cell(wilson(0, 0)),
            cell(None),
            cell(2.5),
            cell(0.0321),
            cell("-0.5 of it"),
        ),
    ),
    notes=(f"Note {HOSTILE}", "see https://example.org"),
    heads=((("", 3), ("Spanned & <b>", 5)),),
    rules=frozenset({1}),
    published=frozenset({1}),
    n_labels=3,
)


@pytest.mark.parametrize(
    ("value", "form", "text"),
    [
        (0.0, "p", "< .001"),
        (0.00099, "p", "< .001"),
        (0.001, "p", ".001"),
        (1.0, "p", "1.000"),
        (None, "p", "–"),
        (float("nan"), "share", "–"),
        (-0.0001, "score", ".000"),
        (-0.02, "score", "−.020"),
        (1.0, "share", "1.000"),
        (0.99951, "share", "1.000"),
        (0.135, "percent", "13.5"),
        (-0.0001, "percent", "0.0"),
        (0, "count", "0"),
        (-3, "count", "−3"),
        (12345, "count", "12,345"),
        (2.5, "count", "2.50"),
        (0.25, "number", ".25"),
        (0, "number", "0"),
        (1234567.8, "number", "1,234,568"),
        (-20.0, "number", "−20"),
    ],
)
def test_numbers(value, form, text):
    assert number(value, form) == text  # type: ignore[arg-type]


def test_cleaned_text_can_always_be_written():
    every = "".join(map(chr, range(0x250))) + "\ud800\udfff\uffff\u202e"
    shown = clean(every)
    shown.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", shown)
    assert clean("a\r\nb\rc") == "a\nb\nc"


def test_parts_hold_counts_interval_and_remarks():
    text, small = parts(TABLE.rows[0][3], TABLE.columns[3])
    assert text == ".429"
    assert small[:3] == ("3/7", "[.158, .750]", "at worst [.1, .9]")
    assert parts(TABLE.rows[0][4], TABLE.columns[4]) == ("−.032", ("n = 40",))
    assert interval(SCORE, "score") == ""
    assert sort_value(TABLE.rows[0][3]) == 3 / 7
    assert sort_value(TABLE.rows[1][0]) is None


def on_terminal(width: int, wide: bool = False, table: Table = TABLE) -> list[str]:
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None)
    print_table(console, table, wide=wide)
    assert "\x1b" not in stream.getvalue()
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 160])
def test_terminal_keeps_to_its_width(width):
    lines = on_terminal(width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    # Markup is text, and no number is cut.
    assert "[bold]two[/b" in text
    for whole in ("[.158, .750]", "12,345", "< .001", "−.032", "3/7"):
        assert whole in text
    assert "…" not in text


def test_terminal_tells_rows_apart():
    def rows(*data: str) -> Table:
        columns = (Column(heading="Attack"), Column(heading="Data", wide=True))
        numbers = tuple(Column(heading=f"Rate {i}", form="share") for i in range(6))
        rates = tuple(cell(wilson(1, 3)) for _ in numbers)
        return Table(
            name="t",
            caption="c",
            columns=(*columns, *numbers),
            rows=tuple((cell("near"), cell(one), *rates) for one in data),
            n_labels=2,
        )

    shared, differ = on_terminal(80, table=rows("q", "q")), on_terminal(80, table=rows("q", "r"))
    assert not any("Data" in line for line in shared)
    heads = [line for line in differ if line.startswith("Attack")]
    assert len(heads) == 2
    assert all("Data" in line for line in heads)
    assert any("Data" in line for line in on_terminal(160, table=rows("q", "q")))


def test_terminal_shows_the_first_rows_and_counts_the_others():
    columns = (Column(heading="Attack"), Column(heading="Rate", form="share"))
    rows = tuple((cell(f"attack {i}"), cell(wilson(1, 3))) for i in range(50))
    many = Table(name="t", caption="c", columns=columns, rows=rows)
    brief, wide = on_terminal(80, table=many), on_terminal(80, table=many, wide=True)
    assert sum(line.startswith("attack ") for line in brief) == 20
    assert brief[-1] == "30 more rows: summary --wide has all."
    for whole, words in (("compare --json", ": compare --json has all."), ("", ".")):
        stream = io.StringIO()
        print_table(Console(file=stream, width=80), many, whole=whole)
        assert stream.getvalue().splitlines()[-1] == f"30 more rows{words}"
    assert sum(line.startswith("attack ") for line in wide) == 50


def test_terminal_has_values_counts_and_intervals_in_as_many_lines_as_they_take():
    columns = (Column(heading="Attack"), Column(heading="Rate", form="share"))
    one = Table(name="t", caption="c", columns=columns, rows=((cell("near"), cell(wilson(1, 3))),))
    assert on_terminal(80, table=one)[2:] == ["near    .333 1/3 [.061, .792]"]
    assert on_terminal(24, table=one)[2:] == ["near        .333 1/3", "        [.061, .792]"]


def test_html_is_well_formed_and_escaped():
    made = str(html_table(TABLE))
    assert "<script>" not in made
    made.encode()
    root = ET.fromstring(f"<div>{made.replace('colspan=3', '').replace('colspan=5', '')}</div>")
    rows = root.findall(".//tbody/tr")
    assert [row.get("class") for row in rows] == [None, "rule published"]
    sorts = [td.get("data-sort") for td in rows[0].findall("td")]
    assert sorts == [repr(3 / 7), "-0.0321", "12345", "0.0", None]
    assert [th.get("title") for th in rows[0].findall("th")] == ["near", "one_model", None]
    assert "&lt; .001" in made
    assert root.findall(".//small")


def test_markdown_has_no_markup_of_its_cells():
    lines = markdown_table(TABLE).splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 4
    cells = [re.split(r"(?<!\\)\|", row) for row in rows]
    assert {len(row) for row in cells} == {10}
    assert "<script>" not in "".join(lines)
    assert r"\*b\*" in rows[2]
    assert rows[1].count("---:") == 4


def test_csv_has_keys_unrounded_numbers_and_no_formula():
    head, first, second = list(csv.reader(io.StringIO(csv_table(TABLE))))
    row = dict(zip(head, first, strict=True))
    assert row["Attack"] == "near"
    assert row["victim"] == "one_model"
    assert float(row["asr"]) == 3 / 7
    assert (row["asr_n"], row["asr_hits"]) == ("7", "3")
    assert row["Score_high"] == ""
    assert row["Note"] == f"'{FORMULA}"
    assert dict(zip(head, second, strict=True))["Note"] == "'-0.5 of it"
    assert second[head.index("asr")] == ""
    assert float(row["p"]) == 0.0
    assert "asr_worst_high" not in head
    mute = wilson(0, 9)
    row = (cell(replace(mute, worst=(0.0, 1.0))),)
    one = Table(name="t", caption="", columns=(Column(heading="L", key="asr"),), rows=(row,))
    assert csv_table(one).splitlines()[0].endswith("asr_low,asr_high,asr_worst_low,asr_worst_high")
    assert csv_table(one).endswith(f",{mute.high},0.0,1.0\n")


def test_latex_is_escaped():
    made = latex_table(TABLE)
    body = made[made.index(r"\toprule") :]
    assert "<script>" not in body
    assert r"\multicolumn{5}{c}{Spanned \& " in body
    assert r"\cmidrule(lr){4-8}" in body
    assert r"\cmidrule{1-8}" in body
    assert r"\textit{" in body
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {1, 7}
    assert made.count("{") - made.count(r"\{") == made.count("}") - made.count(r"\}")
    assert latex_escape("50 % of a_b & {c} α ж") == r"50 \% of a\_b \& \{c\} \ensuremath{\alpha} ?"


def test_a_table_without_rows_is_written_by_all():
    empty = Table(name="e", caption="Nothing", columns=(Column(heading="a"),), rows=())
    for made in (
        "\n".join(on_terminal(80, table=empty)),
        str(html_table(empty)),
        markdown_table(empty),
        latex_table(empty),
        csv_table(empty),
    ):
        assert "a" in made
