"""Tables as LaTeX (booktabs), and text escaped for LaTeX."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import TYPE_CHECKING

from medstress.analyses.shown import Column, Entry, Table
from medstress.report.text import one_line, parts

if TYPE_CHECKING:
    from pylatexenc.latexencode import UnicodeToLatexEncoder

PACKAGES = (
    "% needs \\usepackage[utf8]{inputenc} (older LaTeX) and \\usepackage{amssymb,booktabs,graphicx}"
)
UNSET = "?"
"""Replaces a character that pdflatex cannot set without further fonts or packages."""
_OWN = {
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "✓": r"\ensuremath{\checkmark}",
    "\N{REPLACEMENT CHARACTER}": UNSET,
    "‚": ",",
    "„": ",,",
    "\N{NON-BREAKING HYPHEN}": "-",
    "«": r"\ensuremath{\ll}",
    "»": r"\ensuremath{\gg}",
    "‹": r"\ensuremath{<}",
    "›": r"\ensuremath{>}",
}
"""Characters that pylatexenc does not convert, or into what plain pdflatex cannot set."""
_CYRILLIC, _LETTERS_OF_MATHEMATICS = range(0x400, 0x530), range(0x1D400, 0x1D800)
_NEEDS_MORE = frozenset(
    "ÐÞðþĄąĐđĘęĮįŉŊŋŲųƕƞəɛɸʔʞ˛ΐϒ\u2060ℋℐℒℛℬℰℱℳ⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞↜↝⇅⇵∟∬∭∯∰∱∻∾≆≋≌≙≛≸≹⊧⊨⊫⊶⊷⊹⊾⋘⋙⋨⋰⌆⌕♩♭♮♯⨏⨖"
)
"""Characters that pylatexenc writes with commands of packages that `PACKAGES` does not name."""


def escape(text: str) -> str:
    r"""Write text in one line and escape it for LaTeX.

    One line, because an empty line would end a command's argument, and a comment ends with its
    line. What pdflatex cannot set without further fonts is a letter without its marks, else `?`.

    >>> escape("50 % of a_b & {c} \\ −1")
    '50 \\% of a\\_b \\& \\{c\\} \\textbackslash{} \\ensuremath{-}1'
    """
    return str(_encoder().unicode_to_latex(one_line(text)))


def latex_table(table: Table) -> str:
    """Write a `table` environment that shrinks to the width of the text; intervals are small."""
    n = len(table.columns)
    lines = [
        f"% medstress figures: {one_line(table.name)}",
        PACKAGES,
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(table.caption)}}}",
        rf"\label{{tab:medstress-{escape(table.name)}}}",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{4pt}",
        r"\sbox0{%",
        rf"\begin{{tabular}}{{{'l' * table.n_labels}{'r' * (n - table.n_labels)}}}",
        r"\toprule",
        *(line for head in table.heads for line in _head(head)),
        _line([escape(column.heading) for column in table.columns]),
        r"\midrule",
    ]
    for i, row in enumerate(table.rows):
        if i in table.rules:
            lines.append(rf"\cmidrule{{1-{n}}}")
        cells = zip(row, table.columns, strict=True)
        lines.append(_line([_cell(entry, column, i in table.published) for entry, column in cells]))
    lines += [
        r"\bottomrule",
        r"\end{tabular}}",
        # Shrinks only a table that is wider than the text.
        r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi",
    ]
    if table.notes:
        lines += [
            "",
            r"\par\smallskip",
            r"\begin{minipage}{\linewidth}\scriptsize",
            *map(escape, table.notes),
            r"\end{minipage}",
        ]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _head(head: tuple[tuple[str, int], ...]) -> list[str]:
    """Return a line above the headings, and the rules below what spans several columns."""
    cells, rules, column = [], [], 1
    for text, span in head:
        one = escape(text)
        cells.append(one if span == 1 else rf"\multicolumn{{{span}}}{{c}}{{{one}}}")
        if span > 1 and text:
            rules.append(rf"\cmidrule(lr){{{column}-{column + span - 1}}}")
        column += span
    return [_line(cells), *([" ".join(rules)] if rules else [])]


def _line(cells: list[str]) -> str:
    r"""Join cells; LaTeX would read a leading bracket as an argument of `\\` or of a rule."""
    line = " & ".join(cells)
    return ("{}" if line.startswith("[") else "") + line + r" \\"


def _cell(entry: Entry, column: Column, published: bool) -> str:
    text, small = parts(entry, column)
    written = escape(text)
    written = rf"\textit{{{written}}}" if published and written else written
    return rf"{written} {{\tiny {escape(' '.join(small))}}}" if small else written


def _plain(text: str, at: int) -> tuple[int, str] | None:
    """Return a letter without its marks, or `UNSET`, for a character that cannot be set."""
    char = text[at]
    if not (char in _NEEDS_MORE or ord(char) in _CYRILLIC or ord(char) in _LETTERS_OF_MATHEMATICS):
        return None
    return 1, _base(char)


def _base(char: str) -> str:
    plain = unicodedata.normalize("NFKD", char)
    base, marks = plain[0], plain[1:]
    is_letter = base.isascii() and base.isalnum() and all(map(unicodedata.combining, marks))
    return base if is_letter else UNSET


@cache
def _encoder() -> UnicodeToLatexEncoder:
    """Return the encoder; built on first use because pylatexenc is of the extra `figures`."""
    from pylatexenc.latexencode import (
        RULE_CALLABLE,
        RULE_DICT,
        UnicodeToLatexConversionRule,
        UnicodeToLatexEncoder,
    )

    return UnicodeToLatexEncoder(
        conversion_rules=[
            UnicodeToLatexConversionRule(RULE_DICT, {ord(c): text for c, text in _OWN.items()}),
            UnicodeToLatexConversionRule(RULE_CALLABLE, _plain),
            "defaults",
        ],
        replacement_latex_protection="braces-after-macro",
        unknown_char_policy=_base,
        unknown_char_warning=False,
    )
