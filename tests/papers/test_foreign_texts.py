"""Texts of strangers in the Markdown and LaTeX of `figures`."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from medstress.figures.outputs import Made, Skipped, index
from medstress.papers import cases
from medstress.results import latex, markdown
from medstress.results.table import Cell, Column, Table, as_row

_PATH = Path(__file__).parents[1] / "fuzz" / "payloads.py"
_SPEC = importlib.util.spec_from_file_location("paper_payloads", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)
PAYLOADS = _MODULE.PAYLOADS

COMMAND = re.compile(r"\\([A-Za-z]+|.)")
OURS = {
    *("textbackslash", "textasciicircum", "textasciitilde", "textasciigrave", "textbar"),
    *("ensuremath", "{", "}", "$", "&", "#", "%", "_"),
}
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("text", PAYLOADS)
def test_latex_sets_a_text_as_it_stands_in_one_line(text):
    found = latex.escape(text)
    assert {each[1] for each in COMMAND.finditer(found)} <= OURS
    bare = re.sub(r"\\ensuremath\{[^{}]*\}|\\[A-Za-z]+\{\}|\\.", "", found)
    assert not set(bare) & set("\\{}$&#%_^~`|<>")
    assert not STEERING.search(found)


@pytest.mark.parametrize("text", PAYLOADS)
def test_markdown_shows_a_text_as_it_stands_in_one_line(text):
    found = markdown.escape(text)
    assert not STEERING.search(found)
    bare = re.sub(r"\\.", "", found)
    assert not set(bare) & set("\\`*_{[|~#$<")
    assert "://" not in found
    assert "www." not in found
    assert not re.match(r"\d*[.)>+-]", found)
    assert not re.search(r"&(?!lt;)", bare)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("дж", "??"), ("中文 a", "?? a"), ("Wałęsa", r"Wa\l{}esa"), ("𝒜", "A"), ("⅓", "?"),
        ("„x“", r",,x\textquotedblleft{}"), ("é", r"\'e"), ("ệ", "e"), ("قهوة", "????"),
    ],
)  # fmt: skip
def test_what_pdflatex_cannot_set_is_a_plain_letter_or_a_question_mark(text, shown):
    assert latex.escape(text) == shown


def test_no_character_leaves_latex_that_is_not_ascii():
    every = (chr(code) for code in range(0xA0, 0x20000) if not 0xD800 <= code < 0xE000)
    found = latex.escape("".join(every))
    assert found.isascii()
    assert "\\cyr" not in found.lower()
    assert "\\mathscr" not in found


def test_an_index_has_no_line_that_a_harmless_one_lacks():
    def page(text):
        found = [
            Made(name="a", title=text, files={"a.csv": b""}, notes=(text, f"About {text}")),
            Skipped(name="b", title=text, reason="needs more"),
        ]
        return index(found, text)

    def shape(text):
        return [line.split(" ", 1)[0] for line in page(text).splitlines()]

    assert all(shape(text) == shape("harmless") for text in PAYLOADS if text.strip())


def test_a_latex_table_has_no_line_that_a_harmless_one_lacks():
    def lines(text):
        table = Table(
            name="table1",
            caption=text,
            notes=(text,),
            columns=(Column(heading=text), Column(heading=text)),
            heads=(((text, 2),),),
            rows=(as_row(text, Cell(value=text, lines=(text,))),),
        )
        return latex.latex_table(table).count("\n")

    assert {lines(text) for text in PAYLOADS} == {lines("harmless")}


def test_a_bracket_after_a_rule_or_line_is_no_height():
    table = Table(
        name="t",
        caption="c",
        columns=(Column(heading="[2cm]"),),
        heads=((("[2cm]", 1),),),
        rows=(as_row("[2cm]"),),
    )
    found = latex.latex_table(table)
    assert not re.search(r"(rule|\\\\)\s*\n\[", found)


def test_the_words_around_an_edit_stay_apart():
    pieces = (
        cases.Piece(text="Take ", changed=False),
        cases.Piece(text="warfarin", changed=True),
        cases.Piece(text=" now", changed=False),
    )
    assert cases._marked(pieces, "red") == r"Take \textcolor{red}{warfarin} now"
