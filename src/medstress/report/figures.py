"""Write the tables and figures of a run into a folder: one's own, or in the layout of a paper.

The same run gives the same bytes, but for the order of fonts in a PDF file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from medstress.analyses.run import Run
from medstress.analyses.shown import Chart, Table
from medstress.analyses.summary import spoken_of
from medstress.core.errors import UsageError, did_you_mean, setting
from medstress.core.extras import importing
from medstress.core.writing import make_folder, write_bytes
from medstress.report.charts import Colours, value_of, write
from medstress.report.latex import PACKAGES, escape, latex_table
from medstress.report.papers import LAYOUTS
from medstress.report.papers.layout import PaperRun, Part, Tex
from medstress.report.text import clean, csv_table, csv_text, one_line
from medstress.report.text import escape as escape_markdown
from medstress.stats.estimate import Estimate

FORMATS = ("pdf", "svg", "png")
INDEX, DOCUMENT = "index.md", "figures.tex"
HEAD = "# Tables and figures of "
"""How the index begins, by which a folder of an earlier call is known."""
ROWS_OF_A_FLOAT = 45
"""A longer table is set as several floats, each on its own page."""
_OF_PDFLATEX = ("pdf", "png")
_DOCUMENT = r"""% All tables and figures of a run, one to a page. In a paper, \input what you need.
\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage{amssymb}
\usepackage{booktabs}
\usepackage{graphicx}
\usepackage{xcolor}
\usepackage[margin=2cm]{geometry}
% A character that the fonts lack is set as a question mark.
\makeatletter
\def\UTFviii@undefined@err#1{?}
\makeatother
% Cases may be more floats than LaTeX keeps waiting.
\extrafloats{1000}
\begin{document}
"""


class Made(NamedTuple):
    """One table or figure; without files one that the run cannot fill."""

    name: str
    """Stem of its file names."""
    title: str
    files: Mapping[str, bytes] = {}
    """Contents by file name."""
    notes: tuple[str, ...] = ()
    """The sentences of its caption."""
    reason: str = ""
    """Why it has no file."""


def write_figures(
    run: Run, out: Path, formats: Sequence[str] = FORMATS, paper: str | None = None
) -> list[Made]:
    """Write every table and figure that a run has data for.

    Files of the same names are replaced in a folder that an earlier call has written.

    Args:
        run: finished or not.
        out: folder to write into.
        formats: of the figures.
        paper: whose layout; None for figures of one's own.

    Returns:
        What was made, and what was not, with the reason.

    Raises:
        UsageError: an unknown format or paper, the extra `figures` is not installed, the folder
            cannot be written, or it holds a file of the same name that comes from elsewhere.
    """
    asked: list[tuple[str, str, Sequence[str]]] = []
    asked += [("format", name, FORMATS) for name in formats or ("",)]
    asked += [("paper", paper, tuple(LAYOUTS))] if paper is not None else []
    for what, name, allowed in asked:
        if name not in allowed:
            hint = did_you_mean(name, allowed)
            raise UsageError(
                f"{setting(what)}: unknown {name!r}{hint} (known: {', '.join(allowed)})"
            )
    with importing("drawing figures", "figures"):
        from pylatexenc.latexencode import UnicodeToLatexEncoder
        from vl_convert import vegalite_to_svg
    del UnicodeToLatexEncoder, vegalite_to_svg
    results = list(make(run, tuple(dict.fromkeys(formats)), paper))
    contents = {name: data for one in results for name, data in one.files.items()}
    contents[INDEX] = index(results, run.name).encode()
    contents[DOCUMENT] = document(results).encode()
    _refuse_foreign(out, contents)
    try:
        make_folder(out)
        for name, data in contents.items():
            write_bytes(out / name, data)
    except OSError as error:
        raise UsageError(
            f"cannot write into {out}: {error.strerror}; give another {setting('out')}"
        ) from None
    return results


def make(run: Run, formats: Sequence[str], paper: str | None = None) -> Iterator[Made]:
    """Make every table and figure, or say why there is none."""
    of_paper = PaperRun(run)
    state = tuple(of_paper.state())
    taken: set[str] = set()
    for name, title, parts in _own(run) if paper is None else LAYOUTS[paper].parts(of_paper):
        if isinstance(parts, str):
            yield Made(name, title, reason=parts)
            continue
        for part in parts:
            # Several parts of one figure keep their own captions.
            is_alone = len(parts) == 1 or part.name == name
            own_caption = part.title if isinstance(part, Chart) else part.caption
            caption = title if is_alone else f"{title}: {own_caption}"
            # A chart and the table of its numbers may share a name.
            own = part.name.replace("_", "-")
            names = chain((own, f"{own}-table"), (f"{own}-{i}" for i in count(2)))
            free = next(one for one in names if one not in taken)
            taken.add(free)
            yield _made(replace(part, name=free), caption, formats, state, run)


def _own(run: Run) -> Iterator[tuple[str, str, list[Part] | str]]:
    """Yield what every result shows."""
    if not run.attacks:
        yield "results", "Results", "the run has no finished trial of an attack"
        return
    for name, result in spoken_of(run):
        parts: list[Part] = [chart for chart in result.charts() if chart.points]
        parts += [table for table in result.tables() if table.rows]
        if parts:
            yield name, result.title or name, parts


def _made(part: Part, title: str, formats: Sequence[str], state: tuple[str, ...], run: Run) -> Made:
    """Return the files of a table, a chart, or cases."""
    notes = part.all_notes if isinstance(part, Chart) else part.notes
    if isinstance(part, Table):
        notes += tuple(f"{one.heading}: {one.tip}." for one in part.columns if one.tip)
    part = replace(part, notes=(*notes, *state))
    name = part.name
    files: dict[str, bytes] = {}
    if isinstance(part, Chart) and part.kind == "words":
        files[f"{name}.csv"] = chart_csv(part).encode()
        part = Tex(name=name, caption=part.title, body=weighed(part), notes=part.notes)
    if isinstance(part, Table):
        files[f"{name}.tex"] = _floats(part).encode()
        files[f"{name}.csv"] = csv_table(part).encode()
    elif isinstance(part, Tex):
        body = [
            f"% medstress figures: {escape(part.caption)}",
            PACKAGES.replace("graphicx", "graphicx,xcolor"),
            part.body,
            r"{\scriptsize",
            *map(escape, part.notes),
            r"\par}",
        ]
        files[f"{name}.tex"] = ("\n".join(body) + "\n").encode()
    else:
        colours = Colours(dict.fromkeys(cell.place.victim for cell in run.cells))
        for form in formats:
            files[f"{name}.{form}"] = write(part, form, colours)  # type: ignore[arg-type]
        files[f"{name}.csv"] = chart_csv(part).encode()
        caption = one_line(" ".join((f"{part.title}.", *part.notes)))
        files[f"{name}.txt"] = f"{caption}\n".encode()
        if any(form in formats for form in _OF_PDFLATEX):
            files[f"{name}.tex"] = _figure(name, caption).encode()
    return Made(name, title, files, part.notes)


def chart_csv(chart: Chart) -> str:
    """Write the marks of a chart as CSV, unrounded."""
    names = ["value", "low", "high", "n", "hits", "method"]
    ys = [point.y for point in chart.points if isinstance(point.y, Estimate)]
    ends = ["worst_low", "worst_high"] * any(y.worst is not None for y in ys)
    rows: list[Sequence[Any]] = [("panel", "series", "x", *names, *ends)]
    for point in chart.points:
        y = point.y if isinstance(point.y, Estimate) else None
        numbers = [getattr(y, name) for name in names] if y else [point.y]
        numbers += (y.worst or ()) if y and ends else ()
        marks = (point.panel, point.series, point.x)
        rows.append([*(clean(one) if isinstance(one, str) else one for one in marks), *numbers])
        rows[-1] = [*rows[-1], *[None] * (len(rows[0]) - len(rows[-1]))]
    return csv_text(rows)


def _floats(table: Table) -> str:
    """Return a table as LaTeX, a long one as several floats."""
    floats = []
    for i, start in enumerate(range(0, max(len(table.rows), 1), ROWS_OF_A_FLOAT)):
        rows = range(start, start + ROWS_OF_A_FLOAT)
        part = replace(
            table,
            rows=table.rows[rows.start : rows.stop],
            rules=frozenset(r - start for r in table.rules if r in rows and r > start),
            published=frozenset(r - start for r in table.published if r in rows),
        )
        if i:
            caption = f"{table.caption} (continued)"
            part = replace(part, name=f"{table.name}-{i + 1}", caption=caption, notes=())
        floats.append(latex_table(part))
    return "\\clearpage\n".join(floats)


def _figure(name: str, caption: str) -> str:
    lines = (
        f"% medstress figures: {name}",
        PACKAGES,
        r"\begin{figure}",
        r"\centering",
        rf"\sbox0{{\includegraphics{{{name}}}}}%",
        # Shrinks only what is larger than the page.
        r"\ifdim\wd0>\linewidth\sbox0{\resizebox{\linewidth}{!}{\usebox0}}\fi",
        r"\ifdim\ht0>.75\textheight\sbox0{\resizebox{!}{.75\textheight}{\usebox0}}\fi",
        r"\usebox0",
        rf"\caption{{{escape(caption)}}}",
        rf"\label{{fig:medstress-{name}}}",
        r"\end{figure}",
    )
    return "\n".join(lines) + "\n"


def index(results: Iterable[Made], name: str) -> str:
    """Return a Markdown page of what was made, with captions, and what was not, with reasons."""
    lines, skipped = [f"{HEAD}{escape_markdown(name)}", ""], []
    for one in results:
        if not one.files:
            skipped.append(f"* {escape_markdown(one.title)}: {escape_markdown(one.reason)}")
            continue
        files = ", ".join(sorted(one.files))
        lines += [f"## {escape_markdown(one.title)}", "", f"Files: {files}", ""]
        lines += [*(f"* {escape_markdown(note)}" for note in one.notes), ""]
    if skipped:
        lines += ["## Not made", "", *skipped]
    return "\n".join(lines).rstrip() + "\n"


def document(results: Iterable[Made]) -> str:
    r"""Return a document that \input-s the LaTeX of everything made."""
    lines = []
    for one in results:
        if f"{one.name}.tex" in one.files:
            lines += [rf"\input{{{one.name}}}", r"\clearpage"]
        elif f"{one.name}.svg" in one.files:
            lines.append(f"% {one.name}: pdflatex reads pdf and png, not svg")
    return _DOCUMENT + "\n".join(lines or ["Nothing was made."]) + "\n\\end{document}\n"


def _refuse_foreign(out: Path, names: Iterable[str]) -> None:
    """Refuse a folder that an earlier call has not written and that holds one of these files."""
    try:
        with (out / INDEX).open("rb") as page:
            if page.read(len(HEAD)) == HEAD.encode():
                return
    except OSError:
        pass  # Without a page to read, every file is taken for one from elsewhere.
    if taken := next((name for name in names if (out / name).exists()), None):
        raise UsageError(
            f"{setting('out')}: {out} holds a {taken} that medstress did not write, and it "
            "would be replaced; "
            "give another folder"
        )


def weighed(chart: Chart) -> str:
    """Return texts as LaTeX: words on blue speak for it, on orange against it, the darker the more.

    Marked words have a frame. A plot has no running text, so a paper sets these itself.
    """
    values = [number if (number := value_of(point)) else 0.0 for point in chart.points]
    most = max(map(abs, values), default=0.0) or 1.0
    lines, panel = [r"{\setlength{\fboxsep}{1pt}\raggedright\ttfamily\footnotesize"], None
    for point, value in zip(chart.points, values, strict=True):
        if point.panel != panel:
            panel = point.panel
            lines.append(rf"\par\smallskip\textbf{{{escape(panel)}}}\par")
        text, word = point.series, escape(point.series)
        colour = f"{'blue' if value > 0 else 'orange'}!{round(75 * abs(value) / most)}"
        boxed = rf"\colorbox{{{colour}}}{{{word}}}" if value and word else word
        boxed = rf"\fbox{{{boxed}}}" if point.marked else boxed
        first, last = (r"\ " * text[i : i + 1].isspace() for i in (0, len(text) - 1))
        ends = (last if word else "") + (r"\par" if "\n" in text else "")
        lines.append(f"{first}{boxed}{ends}%")
    return "\n".join((*lines, r"\par}"))
