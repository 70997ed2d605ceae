"""What print and a notebook show: a run, a comparison, progress; every text is escaped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import count
from typing import Any

from markupsafe import Markup

from medstress.analyses.run import Run
from medstress.analyses.shown import Table
from medstress.analyses.summary import faults_of, results_of, warnings_of
from medstress.analyses.verdict import VERDICT
from medstress.engine.progress import Progress, Watcher
from medstress.report.html import html_table
from medstress.report.summary_page import tables_of
from medstress.report.text import clean

_REFRESH_SECONDS = 0.5
"""Seconds between drawings: each is a message to the browser."""
_MOST_WARNINGS = 12
"""Warnings that are shown; the report has all."""
_STYLE = Markup(
    "<style>"
    ".medstress small{display:block;opacity:.75}"
    ".medstress caption{caption-side:top;text-align:left;font-weight:600}"
    ".medstress .number{font-variant-numeric:tabular-nums}"
    "</style>"
)
"""A notebook has one page for all outputs: nothing here reaches beyond `.medstress`."""
_n_tables = count(1)


def block(*parts: str) -> str:
    """Return parts, escaped already, as one output."""
    return str(Markup('{}<div class="medstress">{}</div>').format(_STYLE, Markup("\n").join(parts)))


def paragraph(text: str) -> Markup:
    """Return a text as a paragraph."""
    return Markup("<p>{}</p>").format(clean(text))


def shown_table(table: Table) -> Markup:
    """Return a table whose ids no other output of the notebook has."""
    return html_table(replace(table, name=f"{table.name}-{next(_n_tables)}"))


def run_parts(run: Run) -> Iterator[Markup]:
    """Yield what a run says of itself, with its first tables and its warnings."""
    lines = list(told(run))
    yield Markup("<p><b>{}</b> · <code>{}</code></p>").format(
        clean(run.name), clean(str(run.folder.path))
    )
    yield from map(paragraph, lines)
    yield from map(shown_table, tables_of(run))
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


# -- progress --------------------------------------------------------------------------------------


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, which shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def watching(watcher: Watcher | None, quiet: bool | None) -> Iterator[Watcher]:
    """Yield what watches a run: a bar in a notebook, else nothing.

    Args:
        watcher: the caller's own, which is then the one.
        quiet: True for no bar; None shows one in a notebook; False also writes lines elsewhere.
    """
    if watcher is not None or quiet or (quiet is None and not in_notebook()):
        yield watcher or Watcher()
        return
    draw = _bar() if in_notebook() else _print
    last: Progress | None = None
    began, drawn = 0.0, float("-inf")

    def is_due() -> bool:
        nonlocal drawn
        now = time.perf_counter()
        if now - drawn < _REFRESH_SECONDS:
            return False
        drawn = now
        return True

    def vectors(done: int, total: int) -> None:
        if is_due():
            draw(f"vectors {done:,} of {total:,}", done / max(total, 1))

    def trials(counts: Progress) -> None:
        done = counts.n_done + counts.n_skipped
        line = counts.line(time.perf_counter() - began)
        draw(line, done / max(counts.n_planned, 1))

    def progress(counts: Progress) -> None:
        nonlocal began, last
        if last is None:
            began = time.perf_counter()
        last = counts
        if is_due():
            trials(counts)

    try:
        yield Watcher(
            note=lambda what: draw(what, None), announce=_print, vectors=vectors, progress=progress
        )
    finally:
        if last is not None:  # nothing more is awaited, even if trials are left
            trials(last)


def _print(text: str, share: float | None = None) -> None:
    print(clean(text), file=sys.stderr)


def _bar() -> Callable[[str, float | None], None]:
    """Return what draws a bar below the cell; no widgets, so that every notebook can show it."""
    shown: Any = import_module("IPython.display")
    place = shown.display(shown.HTML(""), display_id=True)

    def draw(text: str, share: float | None) -> None:
        value = Markup("") if share is None else Markup(' value="{:.4f}"').format(share)
        bar = Markup('<progress max="1"{} style="width:200px"></progress> <span>{}</span>')
        place.update(shown.HTML(bar.format(value, clean(text))))

    return draw
