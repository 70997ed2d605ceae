"""A section of the page: pictures first, tables behind a click; and what sections are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from medstress.core.rows import TrialRow
from medstress.report import charts, sections
from medstress.report.cases.page import Browser
from medstress.report.labels import Row, in_words, trials_in_words
from medstress.results import formats
from medstress.results.html import html_table
from medstress.results.names import Names
from medstress.results.table import Table

MOST_ROWS = 500
"""Rows of a table on the page; of more arms those that take most come first."""


class Source:
    """What sections are made from: a run whose attacks, victims and data are named in words."""

    def __init__(
        self,
        summary: Mapping[str, Any],
        trials: Sequence[TrialRow],
        manifest: Mapping[str, Any],
        browser: Browser | None = None,
    ) -> None:
        self.names = Names(**summary.get("names") or {})
        """The names in words."""
        self.summary: dict[str, Any] = in_words(summary, self.names)
        """As `medstress summary --json`, with names in words that remember their keys."""
        self.keyed = summary
        """The same with keys, for what names them itself."""
        self.keyed_trials = trials
        """The rows of the run as they are, with keys."""
        self.manifest = manifest
        """Configuration, seeds, versions, hashes."""
        self.browser = browser
        """The case browser; None: one of what the rows hold."""

    @cached_property
    def trials(self) -> Sequence[TrialRow]:
        """The rows of the run, with names in words."""
        return trials_in_words(self.keyed_trials, self.names)

    @cached_property
    def rows(self) -> list[Row]:
        """One row of every attack, data set, group and victim, pooled over seeds."""
        return _worst_first(sections.headline_rows(self.summary))

    @cached_property
    def keyed_rows(self) -> list[Row]:
        """The same with keys."""
        return sections.headline_rows(self.keyed)

    @cached_property
    def arms(self) -> list[Row]:
        """The same with the rows of control arms."""
        return _worst_first(sections.all_rows(self.summary))

    @property
    def experiment(self) -> Mapping[str, Any]:
        """What the summary says of the whole run."""
        found: Mapping[str, Any] = self.summary["experiment"]
        return found


def _worst_first(rows: list[Row]) -> list[Row]:
    """Sort rows of which no table shows all: those that surely take most first."""
    if len(rows) <= MOST_ROWS:
        return rows
    return sorted(rows, key=lambda row: -((row.get("asr") or {}).get("low") or 0.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What stands in a section."""

    lead: Sequence[str] = ()
    """Paragraphs below the heading."""
    plots: Sequence[charts.Plot] = ()
    """The pictures; the numbers of each stand behind a click."""
    notes: Sequence[str] = ()
    """Remarks below the pictures."""
    tables: Sequence[Table | None] = ()
    """Tables, each behind a click; None is left out."""
    html: Markup | str = ""
    """Anything else, escaped already (`rendered`)."""
    styles: Sequence[str] = ()
    """Names of style sheets in `templates`."""
    scripts: Sequence[str] = ()
    """Names of scripts in `templates`."""

    @property
    def shown_tables(self) -> list[Table]:
        """The tables that there are."""
        return [table for table in self.tables if table is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One entry of the page: it stands in the contents where its run has it."""

    id: str
    """Its anchor."""
    title: str
    """Its heading."""
    make: Callable[[Source], Content | None]
    """Returns what stands in it; None where the run has nothing of the kind."""
    short: str = ""
    """Its name in the contents; else its title."""


def rendered(template: str, **values: Any) -> Markup:
    """Return a template of `templates` with values, all of them escaped."""
    return Markup(environment().get_template(template).render(**values))


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the templates of the report, with the filters that they use."""
    found = Environment(
        loader=PackageLoader("medstress.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=formats.writable,
    )
    found.filters["shorten"] = formats.shorten
    found.filters["count"] = formats.count
    found.filters["table"] = shown_table
    found.filters["json"] = json_block
    found.filters["unbroken"] = unbroken
    return found


def shown_table(table: Table) -> Markup:
    """Return a table as HTML; of a long one the first rows, and how many there are."""
    n = len(table.rows)
    if n > MOST_ROWS:
        more = f"The first {MOST_ROWS:,} of {n:,} rows; medstress summary DIR --json has all."
        table = replace(table, rows=table.rows[:MOST_ROWS], notes=(more, *table.notes))
    return html_table(table)


def unbroken(text: str) -> str:
    """Keep numbers and their per cent sign on one line.

    >>> unbroken("33 %, 21 to 48")
    '33\\xa0%, 21 to 48'
    """
    return text.replace(" %", "\u00a0%")


def json_block(text: str) -> Markup:
    """Return JSON for `<script type="application/json">`: nothing in it can end the element.

    >>> json_block('["</script>"]')
    Markup('["\\\\u003c/script>"]')
    """
    return Markup(text.replace("<", "\\u003c"))
