"""The page of one or several runs: one HTML file that loads nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from medstress.analyses.cautions import CAUTIONS
from medstress.analyses.results import RESULTS, Results, Row
from medstress.analyses.run import Run
from medstress.analyses.shown import Chart, Json, Remark, Shown, panel, spaced
from medstress.analyses.summary import PERFORMANCE, Spoken, names_in, spoken_of
from medstress.analyses.verdict import MOST_OTHERS, VERDICT, Verdict
from medstress.core.arms import Place
from medstress.core.words import listed
from medstress.report.cases import Cases, json_of, shared
from medstress.report.charts import Colours, Drawn, draw, narrowed
from medstress.report.html import as_script, html_table, rendered
from medstress.report.summary_page import MOST_ALIKE, about

FIRST_PANELS, FIRST_ROWS = 3, 6
"""Pictures on the first screen, and attacks in each."""
MOST_LEFT = 4
"""Pictures left out there that are named."""
MOST_PLACES = 3
"""Places of one remark that are named."""
OPEN_ROWS = 12
"""Rows of a first table that is open where a section has no picture."""


class Sentence(NamedTuple):
    """A remark, and all places that it is about."""

    text: str
    level: str
    places: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What one run has in a section."""

    run: str
    """Its name, where there are several."""
    remarks: Sequence[Sentence] = ()
    alike: Sequence[Sentence] = ()
    """More remarks of the same rules, where these have many."""
    charts: Sequence[Drawn] = ()
    tables: Sequence[tuple[str, bool, Markup]] = ()
    """Caption, whether it is open, and the table."""
    lines: Sequence[str] = ()


class Section(NamedTuple):
    """A heading, and what each run has below it."""

    id: str
    title: str
    parts: Sequence[Part]

    @property
    def n_warnings(self) -> int:
        """How many of its remarks are warnings."""
        remarks = [remark for part in self.parts for remark in (*part.remarks, *part.alike)]
        return sum(remark.level == "warning" for remark in remarks)


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """The first screen of a run."""

    name: str
    verdict: Verdict
    alert: str
    """How far an unfinished run is."""
    picture: Drawn | None
    shown_whole: str
    """The name of its chart, if it has all of it."""


class Browser(NamedTuple):
    """The cases of a page: JSON for its script, and how many there are."""

    data: str
    n_held: int
    n_cases: int
    is_served: bool = False


def page(runs: Sequence[Run], browser: Browser | None = None) -> str:
    """Return the page of some runs.

    Pure: the same runs give the same page. All text is escaped; control characters and lone
    surrogates, which HTML cannot hold, become U+FFFD.

    Args:
        runs: at least one; several stand side by side.
        browser: their cases; None leaves them out.
    """
    names = names_of(runs)
    colours = Colours(victim for run in runs for victim in run.manifest["victims"])
    n_panels = FIRST_PANELS if len(runs) == 1 else 1
    firsts = [_first(*one, colours, n_panels) for one in zip(runs, names, strict=True)]
    sections = list(_sections(runs, firsts, colours))
    more = ["img-src data:", *["connect-src 'self'"] * bool(browser and browser.is_served)]
    return rendered(
        "page",
        *more,
        data=browser.data if browser else None,
        title=", ".join(names),
        firsts=firsts,
        sections=sections,
        warnings=[section for section in sections if section.n_warnings],
        browser=browser,
        is_attacked=not all(c.attack.asks_clean_only for run in runs for c in run.attacks),
        MOST_OTHERS=MOST_OTHERS,
        MOST_PLACES=MOST_PLACES,
    )


def report(folders: Sequence[Path]) -> str:
    """Return the page of `medstress report`: of one run folder, or of several side by side.

    Raises:
        StoreError: a folder holds no run, or a damaged one.
    """
    runs = [Run.open(folder) for folder in folders]
    return page(runs, browser(runs))


def browser(runs: Sequence[Run]) -> Browser:
    """Return the cases that a page of some runs holds."""
    held: list[Json] = []
    names, lines = names_of(runs), []
    for run, name in zip(runs, names, strict=True):
        cases = Cases(run, name)
        built = cases.cases(cases.chosen())
        lines += [case.line for case in built]
        held += map(json_of, built)
    data = {**shared(runs, lines), "served": False, "cases": held}
    return Browser(
        data=as_script(data),
        n_held=len(held),
        n_cases=sum(len(run.trials) for run in runs),
    )


def names_of(runs: Sequence[Run]) -> list[str]:
    """Return the names of runs; of equal ones with their folders."""
    names = [run.name for run in runs]
    whole = [
        name if names.count(name) == 1 else f"{name} ({run.folder.path})"
        for name, run in zip(names, runs, strict=True)
    ]
    return [
        name if whole.count(name) == 1 else f"{name}, number {i + 1}"
        for i, name in enumerate(whole)
    ]


def _first(run: Run, name: str, colours: Colours, n_panels: int) -> First:
    verdict, results = run.of(VERDICT), run.of(RESULTS)
    assert verdict is not None
    done, planned = len(run.trials), int(run.manifest["n_planned"])
    chart = next((chart for chart in results.charts() if chart.points), None) if results else None
    part = None
    if results and chart:
        spoken = Spoken(results, names_in(run))
        part = spoken.chart(_narrowed(results, chart, verdict.arm, n_panels))
        every, drawn = (
            dict.fromkeys(point.panel for point in one.points if point.panel)
            for one in (spoken.chart(chart), part)
        )
        if left := [title for title in every if title not in drawn]:
            left[MOST_LEFT:] = [f"{len(left) - MOST_LEFT:,} more"] * (len(left) > MOST_LEFT)
            note = f"Left out here: {listed(left)}; all are below."
            part = replace(part, notes=(*part.notes, note))
    is_whole = chart is not None and part is not None and len(part.points) == len(chart.points)
    return First(
        name=name,
        verdict=verdict,
        alert="" if run.is_complete else f"Not complete: {done:,} of {planned:,} trials ended.",
        picture=draw(part, colours) if part else None,
        shown_whole=chart.name if chart and is_whole else "",
    )


def _narrowed(
    results: Results, chart: Chart, arm: Mapping[str, str] | None, n_panels: int
) -> Chart:
    """Return the part of the first chart that the first screen has room for: the headline's place
    first, in it the headline's attack, then what takes most."""
    places = [row.cell.place for row in results.attacks]
    rows = sorted(results.attacks, key=lambda row: -_taken(row))
    first, attacks = [row.cell.place for row in rows], [row.name for row in rows]
    if arm is not None:
        first = [Place(arm["dataset"], arm["group"], arm["victim"]), *first]
        attacks = [arm["attack"], *attacks]
    panels = [panel(place, places) for place in first]
    return narrowed(chart, panels, attacks, n_panels, FIRST_ROWS)


def _taken(row: Row) -> float:
    """Return what an attack takes: of a score, else of the right answers."""
    if row.scores is not None:
        return row.scores.main.drop.value or 0.0
    return (row.success.asr.value or 0.0) if row.success else 0.0


def _sections(runs: Sequence[Run], firsts: Sequence[First], colours: Colours) -> Iterator[Section]:
    """Yield a section for each result that a run has, in one order."""
    shown: dict[str, dict[int, Shown]] = {}
    for i, run in enumerate(runs):
        cautions, cost = run.of(CAUTIONS), run.of(PERFORMANCE)
        results: dict[str, Shown] = dict(spoken_of(run, page=True))
        results |= {CAUTIONS.name: Spoken(cautions, names_in(run))} if cautions else {}
        results |= {PERFORMANCE.name: cost} if cost else {}
        for key, result in results.items():
            shown.setdefault(key, {})[i] = result
    names = [first.name if len(runs) > 1 else "" for first in firsts]
    for key in sorted(shown, key=lambda key: (key == PERFORMANCE.name, key != CAUTIONS.name)):
        parts = [
            _part(
                result,
                names[i],
                i + 1,
                colours,
                firsts[i].shown_whole if key == RESULTS.name else "",
            )
            for i, result in shown[key].items()
        ]
        parts = [part for part in parts if part.remarks or part.charts or part.tables]
        if parts:
            yield Section(f"on-{key}", next(iter(shown[key].values())).title, parts)
    parts = [Part(run=name, lines=[*about(run)]) for run, name in zip(runs, names, strict=True)]
    yield Section("on-repeat", "What was run", parts)


def _part(result: Shown, run: str, number: int, colours: Colours, shown: str) -> Part:
    """Return what a result shows, but for the chart that the first screen shows whole."""
    charts = [
        draw(chart, colours) for chart in result.charts() if chart.points and chart.name != shown
    ]
    tables = [table for table in result.tables() if table.rows]
    if run:
        # Several runs have tables of one name.
        tables = [replace(table, name=f"{table.name}-{number}") for table in tables]
    is_open = not charts and bool(tables) and len(tables[0].rows) <= OPEN_ROWS
    remarks, alike = _sentences(result.remarks())
    shown_tables = [(one.caption, is_open and one is tables[0], html_table(one)) for one in tables]
    return Part(run=run, remarks=remarks, alike=alike, charts=charts, tables=shown_tables)


def _sentences(remarks: Iterable[Remark]) -> tuple[list[Sentence], list[Sentence]]:
    """Return remarks, warnings first, and apart from them what is like the first of its rule.

    A sentence on several places is read once.
    """
    by_rule: dict[str, dict[tuple[str, str], dict[str, None]]] = {}
    for remark in sorted(remarks, key=lambda remark: remark.level != "warning"):
        own = by_rule.setdefault(remark.rule, {}).setdefault((remark.sentence, remark.level), {})
        where = (name if i == 2 else spaced(name) for i, name in enumerate(remark.where) if name)
        own[" · ".join(where)] = None
    shown, alike = list[Sentence](), list[Sentence]()
    for of_rule in by_rule.values():
        first, *rest = (Sentence(*one, [*filter(None, places)]) for one, places in of_rule.items())
        shown.append(first)
        (shown if len(rest) < MOST_ALIKE else alike).extend(rest)
    return shown, alike
