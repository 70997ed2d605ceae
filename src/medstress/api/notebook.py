"""What a notebook shows of a run, its cases and one case: HTML in which every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from markupsafe import Markup, escape

from medstress.analyses.run import Run
from medstress.api.pictures import coloured, pictures_of
from medstress.api.told import told
from medstress.report.cases.lines import Line
from medstress.report.first_screen import FirstScreen, first_screen
from medstress.report.glance import criteria_table, glance
from medstress.report.section import Source
from medstress.results.formats import clean, plural
from medstress.results.html import html_table
from medstress.results.names import warnings_of
from medstress.results.table import Table

_MOST_WARNINGS = 12
"""Warnings that are shown; the report has all."""
_STYLE = Markup(
    "<style>"
    ".medstress small{display:block;opacity:.75}"
    ".medstress caption{caption-side:top;text-align:left;font-weight:600}"
    ".medstress .number{font-variant-numeric:tabular-nums}"
    ".medstress .picture{background:#fcfcfa;padding:8px;max-width:600px;overflow-x:auto}"
    ".medstress pre{white-space:pre-wrap;background:none;border:0}"
    ".medstress i{font-style:normal;opacity:.7}"
    ".medstress ins,.medstress del{padding:0 2px;border-radius:2px;text-decoration:none}"
    ".medstress ins{background:#d6eddf;color:#0b5137}"
    ".medstress del{background:#fbe1da;color:#8a2413;text-decoration:line-through}"
    "</style>"
)
"""A notebook has one page for all outputs: nothing here reaches beyond `.medstress`."""
_n_tables = count(1)


def block(*parts: str) -> str:
    """Return parts, escaped already, as one output."""
    return str(Markup('{}<div class="medstress">{}</div>').format(_STYLE, Markup("\n").join(parts)))


def refused(error: Exception) -> str:
    """Return the output for a run that cannot be shown."""
    return block(paragraph(str(error)))


def shown_table(table: Table) -> Markup:
    """Return a table whose ids no other output of the notebook has."""
    return html_table(replace(table, name=f"{table.name}-{next(_n_tables)}"))


def run_html(source: Source, folder: str) -> str:
    """Return what the first screen of the report says of a run, with its tables."""
    first = first_screen(source)
    return block(
        Markup("<p><b>{}</b> · <code>{}</code><br>{}</p>").format(
            clean(str(source.experiment["name"])), clean(folder), clean(first.run)
        ),
        *_said(folder),
        *(
            Markup('<div class="picture"><b>{}</b>{}{}</div>').format(
                clean(title), _key(first), Markup(coloured(svg))
            )
            for title, svg in pictures_of(source)
        ),
        *_tables(source),
        *_warned(warnings_of(source.keyed)),
        paragraph(
            "More: run.plot(), run.results(), run.trials(), run.cases(), run.case(ID), run.report()"
        ),
    )


def _said(folder: str) -> Iterator[Markup]:
    first, *rest = told(Run.open(Path(folder)))
    yield Markup("<p><b>{}</b></p>").format(clean(first))
    yield from map(paragraph, rest)


def _key(first: FirstScreen) -> Markup:
    """Return the victims with their marks, in their colours."""
    key = first.picture.key if first.picture else ()
    return Markup("").join(
        Markup('<br><span style="color:{}">{} {}</span>').format(
            coloured(f"var(--series-{each.colour})"), each.mark, clean(each.name)
        )
        for each in key
    )


def _tables(source: Source) -> Iterator[Markup]:
    found = glance(source.keyed)
    for place in found.places:
        yield shown_table(replace(place.arms, caption=place.title))
        yield from map(shown_table, place.beside)
        yield from map(paragraph, place.lines)
    if found.n_left:
        yield paragraph(f"and {plural(found.n_left, 'attack')} that take less: run.results()")
    if judged := source.keyed.get("requirements"):
        yield shown_table(criteria_table(judged, source.names))


def _warned(warnings: Sequence[str]) -> Iterator[Markup]:
    if not warnings:
        return
    shown = Markup("").join(
        Markup("<li>{}</li>").format(clean(each)) for each in warnings[:_MOST_WARNINGS]
    )
    left = len(warnings) - _MOST_WARNINGS
    more = f" (of them the first {_MOST_WARNINGS}; run.report() has all)" if left > 0 else ""
    yield Markup("<details><summary>{}{}</summary><ul>{}</ul></details>").format(
        plural(len(warnings), "warning"), more, shown
    )


def paragraph(text: str) -> Markup:
    """Return a text as a paragraph."""
    return Markup("<p>{}</p>").format(clean(text))


_ELEMENTS = {"head": "b", "removed": "del", "added": "ins", "soft": "i"}


def lines_html(lines: Iterable[Line]) -> str:
    """Return the lines of a case."""
    shown = "\n".join("".join(_span(style, text) for style, text in line) for line in lines)
    return block(Markup(f"<pre>{shown}</pre>"))


def _span(style: str, text: str) -> str:
    element = _ELEMENTS.get(style)
    escaped = escape(clean(text))
    return str(escaped) if element is None else f"<{element}>{escaped}</{element}>"
