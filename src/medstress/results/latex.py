"""Write tables as LaTeX (booktabs), and escape text for LaTeX."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

from medstress.results.formats import undirected
from medstress.results.table import Cell, Column, Format, Row, Table

PACKAGES = "% needs \\usepackage[utf8]{inputenc} (older LaTeX) and \\usepackage"

_OWN = {
    ord("|"): r"\textbar{}",
    ord("`"): r"\textasciigrave{}",
    ord("✓"): r"\ensuremath{\checkmark}",
    ord("\N{REPLACEMENT CHARACTER}"): "?",
    **{ord(quote): mark for quote, mark in zip("‚„‑", (",", ",,", "-"), strict=True)},
    ord("«"): r"\ensuremath{\ll}",
    ord("»"): r"\ensuremath{\gg}",
    ord("‹"): r"\ensuremath{<}",
    ord("›"): r"\ensuremath{>}",
}
"""Characters that pylatexenc does not convert, or into what plain pdflatex cannot set."""
UNSET = "?"
"""Stands for a character that pdflatex cannot set without further fonts or packages."""
_CYRILLIC, _LETTERS_OF_MATHEMATICS = range(0x400, 0x530), range(0x1D400, 0x1D800)
_NEEDS_MORE = frozenset(
    "ÐÞðþĄąĐđĘęĮįŉŊŋŲųƕƞəɛɸʔʞ˛ΐϒ\u2060ℋℐℒℛℬℰℱℳ⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞↜↝⇅⇵∟∬∭∯∰∱∻∾≆≋≌≙≛≸≹⊧⊨⊫⊶⊷⊹⊾⋘⋙⋨⋰⌆⌕♩♭♮♯⨏⨖"
)
"""Characters that pylatexenc writes with commands of other packages than `PACKAGES` names."""


def _plain(text: str, at: int) -> tuple[int, str] | None:
    """Return a letter without its marks, or `UNSET`, for a character that cannot be set."""
    code = ord(text[at])
    if not (text[at] in _NEEDS_MORE or code in _CYRILLIC or code in _LETTERS_OF_MATHEMATICS):
        return None
    return 1, _base(text[at])


def _base(char: str) -> str:
    plain = unicodedata.normalize("NFKD", char)
    base, marks = plain[0], plain[1:]
    is_letter = base.isascii() and base.isalnum() and all(map(unicodedata.combining, marks))
    return base if is_letter else UNSET


@cache
def _encoder() -> Any:
    """Return the encoder; built on first use because pylatexenc is of the extra `figures`."""
    from pylatexenc.latexencode import (
        RULE_CALLABLE,
        RULE_DICT,
        UnicodeToLatexConversionRule,
        UnicodeToLatexEncoder,
    )

    return UnicodeToLatexEncoder(
        conversion_rules=[
            UnicodeToLatexConversionRule(RULE_DICT, _OWN),
            UnicodeToLatexConversionRule(RULE_CALLABLE, _plain),
            "defaults",
        ],
        replacement_latex_protection="braces-after-macro",
        unknown_char_policy=_base,
        unknown_char_warning=False,
    )


_BREAK = re.compile("[ \t\n\u2028\u2029]+")


def escape(text: str) -> str:
    r"""Write text in one line and escape it for LaTeX.

    One line, because an empty line would end a command's argument, and a comment ends with its
    line. What pdflatex cannot set without further fonts is a letter without its marks, else `?`.

    >>> escape("50 % of a_b & {c} \\ −1")
    '50 \\% of a\\_b \\& \\{c\\} \\textbackslash{} \\ensuremath{-}1'
    """
    return str(_encoder().unicode_to_latex(_BREAK.sub(" ", undirected(text))))


def latex_table(table: Table) -> str:
    """Write a table as a LaTeX `table` environment; intervals are set small."""
    n_columns = len(table.columns)
    columns = "l" * table.n_labels + "r" * (n_columns - table.n_labels)
    lines = [
        f"% medstress figures: {table.name}",
        PACKAGES + "{amssymb,booktabs,graphicx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(table.caption)}}}",
        rf"\label{{tab:medstress-{table.name}}}",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{4pt}",
        r"\sbox0{%",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *_heads(table),
        r"\midrule",
        *(text for row in table.rows for text in _row(table.columns, row)),
        r"\bottomrule",
        r"\end{tabular}}",
        # Shrinks only a table that is wider than the text.
        r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi",
        "",
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\scriptsize",
        *(escape(note) for note in table.notes),
        r"\end{minipage}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _heads(table: Table) -> list[str]:
    lines = []
    for head in table.heads:
        cells, rules, column = [], [], 1
        for text, span in head:
            cells.append(
                escape(text) if span == 1 else rf"\multicolumn{{{span}}}{{c}}{{{escape(text)}}}"
            )
            if span > 1 and text:
                rules.append(rf"\cmidrule(lr){{{column}-{column + span - 1}}}")
            column += span
        lines.append(_guarded(" & ".join(cells)) + r" \\")
        lines += [" ".join(rules)] * bool(rules)
    headings = " & ".join(escape(column.heading) for column in table.columns)
    return [*lines, _guarded(headings) + r" \\"]


def _row(columns: Sequence[Column], row: Row) -> list[str]:
    above = [rf"\cmidrule{{1-{len(columns)}}}"] if row.rule_above else []
    cells = zip(columns, row.cells, strict=True)
    text = " & ".join(_cell(cell, column.format, row.published) for column, cell in cells)
    return [*above, _guarded(text) + r" \\"]


def _guarded(line: str) -> str:
    """Protect a leading bracket, which LaTeX would read as an argument of `\\\\` or a rule."""
    return "{}" + line if line.startswith("[") else line


def _cell(cell: Cell, form: Format, published: bool) -> str:
    text = escape(cell.text(form))
    text = rf"\textit{{{text}}}" if published and text else text
    small = " ".join(filter(None, (cell.interval(form), *cell.lines)))
    return rf"{text} {{\tiny {escape(small)}}}" if small else text
