"""Write tables as LaTeX (booktabs), and escape text for LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pylatexenc.latexencode import (
    RULE_DICT,
    UnicodeToLatexConversionRule,
    UnicodeToLatexEncoder,
)

from medstress.results.formats import undirected
from medstress.results.table import Cell, Column, Format, Row, Table

PACKAGES = "% needs \\usepackage[utf8]{inputenc} (older LaTeX) and \\usepackage"

_OWN = {
    ord("|"): r"\textbar{}",
    ord("`"): r"\textasciigrave{}",
    ord("✓"): r"\ensuremath{\checkmark}",
    ord("\N{REPLACEMENT CHARACTER}"): "?",
}
"""Characters that pylatexenc does not convert: two that fonts may change, and two it lacks."""
_ENCODER = UnicodeToLatexEncoder(
    conversion_rules=[UnicodeToLatexConversionRule(RULE_DICT, _OWN), "defaults"],
    replacement_latex_protection="braces-after-macro",
    unknown_char_policy="keep",
    unknown_char_warning=False,
)
_BREAK = re.compile("[ \t\n\u2028\u2029]+")


def escape(text: str) -> str:
    r"""Write text in one line and escape it for LaTeX.

    One line, because an empty line would end a command's argument, and a comment ends with its
    line.

    >>> escape("50 % of a_b & {c} \\ −1")
    '50 \\% of a\\_b \\& \\{c\\} \\textbackslash{} \\ensuremath{-}1'
    """
    return str(_ENCODER.unicode_to_latex(_BREAK.sub(" ", undirected(text))))


def latex_table(table: Table) -> str:
    """Write a table as a LaTeX `table` environment; intervals are set small."""
    n_columns = len(table.columns)
    columns = "l" * table.n_labels + "r" * (n_columns - table.n_labels)
    lines = [
        f"% medstress figures: {table.name}",
        PACKAGES + "{booktabs,graphicx}",
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
