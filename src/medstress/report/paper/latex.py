"""Tables as LaTeX (booktabs), and text that LaTeX sets as it stands."""

from __future__ import annotations

import re

from medstress.report.formats import undirected
from medstress.report.paper.layout import Cell, Line, PaperTable

PACKAGES = "% needs \\usepackage[utf8]{inputenc} (older LaTeX) and \\usepackage"

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "−": r"$-$",
    "–": "--",
    "†": r"\textdagger{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "η": r"$\eta$",
    "λ": r"$\lambda$",
    "→": r"$\rightarrow$",
    "✓": r"$\checkmark$",
    "·": r"$\cdot$",
    "\N{REPLACEMENT CHARACTER}": "?",
}
_ANY = re.compile("|".join(map(re.escape, _SPECIAL)))
_BREAK = re.compile("[ \t\n\u2028\u2029]+")


def escape(text: str) -> str:
    r"""Write text in one line, so that LaTeX sets it as it stands.

    An empty line would end the argument of a command, and a comment ends with its line.

    >>> escape("50 % of a_b & {c} \\ −1")
    '50 \\% of a\\_b \\& \\{c\\} \\textbackslash{} $-$1'
    """
    return _ANY.sub(lambda found: _SPECIAL[found[0]], _BREAK.sub(" ", undirected(text)))


def latex_table(table: PaperTable) -> str:
    """Write a table as a LaTeX `table` environment."""
    columns = "l" * table.n_labels + "r" * (table.n_columns - table.n_labels)
    lines = [
        f"% medstress figures: {table.name}",
        PACKAGES + "{adjustbox,booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape(table.caption)}}}",
        rf"\label{{tab:medstress-{table.name}}}",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{4pt}",
        # Only a table that is wider than the text is made smaller.
        r"\begin{adjustbox}{max width=\linewidth}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *_heads(table),
        r"\midrule",
        *(text for line in table.lines for text in _line(line, table.n_columns)),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{adjustbox}",
        "",
        r"\par\smallskip",
        r"\begin{minipage}{\linewidth}\scriptsize",
        *(escape(note) for note in table.notes),
        r"\end{minipage}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _heads(table: PaperTable) -> list[str]:
    lines = []
    for i, head in enumerate(table.heads):
        cells, rules, column = [], [], 1
        for text, span in head:
            cells.append(
                escape(text) if span == 1 else rf"\multicolumn{{{span}}}{{c}}{{{escape(text)}}}"
            )
            if span > 1 and text and i < len(table.heads) - 1:
                rules.append(rf"\cmidrule(lr){{{column}-{column + span - 1}}}")
            column += span
        lines.append(_guarded(" & ".join(cells)) + r" \\")
        if rules:
            lines.append(" ".join(rules))
    return lines


def _line(line: Line, n_columns: int) -> list[str]:
    above = [rf"\cmidrule{{1-{n_columns}}}"] if line.rule_above else []
    text = " & ".join(_cell(cell, italic=line.published) for cell in line.cells)
    return [*above, _guarded(text) + r" \\"]


def _guarded(line: str) -> str:
    """After the end of a line, or a rule, LaTeX would read a bracket as its height."""
    return "{}" + line if line.startswith("[") else line


def _cell(cell: Cell, *, italic: bool) -> str:
    text = escape(cell.text)
    text = rf"\textit{{{text}}}" if italic and text else text
    return rf"{text} {{\tiny {escape(cell.small)}}}" if cell.small else text
