"""What print and a notebook show of a run, a case and a comparison; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from markupsafe import Markup

from medstress.analyses.run import Run
from medstress.analyses.shown import Table
from medstress.analyses.summary import faults_of, results_of, spoken_of, warnings_of
from medstress.analyses.verdict import VERDICT
from medstress.report.formats import clean
from medstress.report.html import html_table

_MOST_WARNINGS = 12
"""Warnings that are shown; the report has all."""
_STYLE = Markup(
    "<style>"
    ".medstress small{display:block;opacity:.75}"
    ".medstress caption{caption-side:top;text-align:left;font-weight:600}"
    ".medstress .number{font-variant-numeric:tabular-nums}"
    ".medstress pre{white-space:pre-wrap;background:none;border:0}"
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


def paragraph(text: str) -> Markup:
    """Return a text as a paragraph."""
    return Markup("<p>{}</p>").format(clean(text))


def preformatted(text: str) -> Markup:
    """Return lines as they stand."""
    return Markup("<pre>{}</pre>").format(clean(text))


def shown_table(table: Table) -> Markup:
    """Return a table whose ids no other output of the notebook has."""
    return html_table(replace(table, name=f"{table.name}-{next(_n_tables)}"))


def run_html(run: Run) -> str:
    """Return what a run says of itself, with its first tables and its warnings."""
    return block(*_parts(run))


def _parts(run: Run) -> Iterator[Markup]:
    lines = list(told(run))
    yield Markup("<p><b>{}</b> · <code>{}</code></p>").format(
        clean(run.name), clean(str(run.folder.path))
    )
    yield from map(paragraph, lines)
    for _, result in spoken_of(run):
        tables = [table for table in result.tables() if table.rows]
        yield from map(shown_table, tables[: int(result.is_brief)])
    sentences = dict.fromkeys(remark.sentence for remark in warnings_of(run))
    more = [sentence for sentence in sentences if sentence not in lines]
    yield from map(paragraph, more[:_MOST_WARNINGS])
    yield paragraph(
        "More: run.results(), run.trials(), run.table(NAME), run.case(ID), run.report(FILE)"
    )


def told(run: Run) -> Iterator[str]:
    """Yield the verdict, whether criteria are met, whether the run is complete, and what failed."""
    verdict = run.of(VERDICT)
    yield from verdict.lines if verdict is not None else ()
    for _, result in results_of(run):
        yield from (f"{case.sentence}." for case in result.decisions())
    yield "Complete." if run.is_complete else "Not complete: run the same again to resume."
    for fault in faults_of(run):
        if fault.name == "trials" and fault.outcome == "error":
            yield (
                f"{fault.sentence}, so the numbers do not count: mend the cause, then run the "
                "same again with retry_failed=True."
            )
    yield from dict.fromkeys(one.sentence for one in warnings_of(run) if one.rule == "failed")
