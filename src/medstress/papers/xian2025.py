"""The layouts and claims of Xian et al.: TMLR 2025, and the tables of its first version.

A new figure or table is a function below and a line of `LAYOUT`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medstress.figures.outputs import Made
from medstress.papers import (
    cases,
    changes,
    curves,
    notes,
    profiles,
    regimes,
    sizes,
    sweeps,
    word_cells,
)
from medstress.papers.arms import Arm
from medstress.papers.claims import claims
from medstress.papers.claims import table as claim_table
from medstress.papers.claims.verdicts import Finding
from medstress.papers.layout import Entry, Layout, MissingData, PaperRun, made_figure, made_table
from medstress.papers.outputs import CSV_FIELDS
from medstress.papers.plots.advantages import plot_advantages
from medstress.papers.plots.curves import plot_curves
from medstress.papers.plots.profiles import plot_profiles
from medstress.papers.plots.regimes import plot_regimes
from medstress.papers.plots.sizes import plot_sizes
from medstress.papers.plots.sweeps import plot_sweeps
from medstress.papers.plots.words import plot_words
from medstress.papers.rates import has_choice, rates_of
from medstress.papers.tables import rates as tables
from medstress.papers.tables.changes import advantage_rows, advantage_summary, change_table
from medstress.results.csv import as_csv, flatten

TABLE_2_BUDGET = 8


def _table_1(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    rates = rates_of(run.arms, 1)
    if not any({"random", "near", "far"} & set(r.asr) for r in rates):
        raise MissingData("needs random sampling or PDWS")
    yield made_table(tables.table_1(rates, run.summary, name), title)
    if has_choice(run.arms, 1):
        table = tables.table_1(
            rates_of(run.arms, 1, "as_published"), run.summary, f"{name}-as-published"
        )
        yield made_table(table, f"{title}, n chosen on the same items (optimistic)")


def _table_2(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    rates = rates_of(run.arms, TABLE_2_BUDGET)
    if not rates:
        raise MissingData(f"needs an attack with a budget of {TABLE_2_BUDGET} or more")
    yield made_table(tables.table_2(rates, run.summary, name), title)
    if has_choice(run.arms, TABLE_2_BUDGET):
        optimistic = rates_of(run.arms, TABLE_2_BUDGET, "as_published")
        table = tables.table_2(optimistic, run.summary, f"{name}-as-published")
        yield made_table(table, f"{title}, n chosen on the same items (optimistic)")


def _table_rcap(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    rates = rates_of(run.arms, 1)
    if not any("random" in r.asr and {"near", "far"} & set(r.asr) for r in rates):
        raise MissingData("needs random sampling and PDWS")
    datasets = list(dict.fromkeys(r.place.dataset for r in rates))
    for i, dataset in enumerate(datasets, start=1):
        file = name if len(datasets) == 1 else f"{name}-{i}"
        table = tables.table_rcap(rates, run.summary, dataset, file)
        yield made_table(table, f"{title}, {dataset}")


def _figure_2(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    panels = regimes.panels_of(run.arms)
    if not panels:
        raise MissingData(
            f"needs PDWS with {regimes.MIN_EXPONENTS} values of n or more (0 is random sampling)"
        )
    caption = [
        *notes.arm_notes(_used(run.arms, ("near", "far", "zero", "random")), run.summary),
        "The dashed line is random sampling (n = 0).",
        "Diversity (unbiased, within each seed, then averaged) and similarity are of the successes "
        "of the first query.",
    ]
    if not any(series.similarity for panel in panels for series in panel.series):
        caption.append("Prompt similarity (PSS) is left out: the run does not have it.")
    files = plot_regimes(panels, run.formats)
    yield made_figure(name, title, files, caption, as_csv(regimes.csv_rows(panels), CSV_FIELDS))


def _figure_3(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    rates = [r for r in rates_of(run.arms, 1) if {"random", "near", "far"} & set(r.asr)]
    panels = sizes.panels_of(rates)
    if not panels:
        raise MissingData("needs victims with `parameters` and `group` in the experiment file")
    shown = any(line for panel in panels for line in panel.published)
    caption = notes.rate_notes(rates, run.summary, "xian2025" if shown else None)
    caption = [note for note in caption if not note.startswith("Lines and marks")]
    if shown:
        caption.append(notes.PUBLISHED.format(source="Xian et al., TMLR 2025, Table 1"))
        caption += notes.published_prompts(rates, "xian2025")
    if left := sizes.victims_left_out(rates):
        caption.append(f"Left out because size or group is not given: {', '.join(left)}.")
    bars = [bar for panel in panels for bar in panel.bars]
    files = plot_sizes(panels, run.formats)
    _, data = tables.table_1(bars, run.summary, name)
    yield made_figure(name, title, files, caption, as_csv(data, CSV_FIELDS))


def _figure_4(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    inflections = run.analysis("curves")
    bands = [
        curves.with_inflections(curves.panels_of(run.arms, methods), inflections)
        for methods in (curves.SEARCH, curves.DETERMINISTIC)
    ]
    panels = [panel for band in bands for panel in band]
    if not panels:
        raise MissingData(f"needs an attack with a budget of {curves.SMALLEST_BUDGET} or more")
    used = [curve.arm for panel in panels for curve in panel.curves]
    caption = notes.arm_notes(used, run.summary)
    if any(panel.without for panel in panels):
        caption.append(notes.TUNED.replace("the whole line is", "all curves are"))
    caption += curves.sentences(panels)
    files = plot_curves([band for band in bands if band], run.formats)
    yield made_figure(name, title, files, caption, as_csv(curves.csv_rows(panels), CSV_FIELDS))


def _figure_4_table(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    found = changes.changes_of(run.arms)
    if not found:
        raise MissingData("needs one attack under two embeddings, with a budget of 3 or more")
    used = [a for a in run.arms if a.budget >= curves.SMALLEST_BUDGET]
    yield made_table(change_table(found, notes.arm_notes(used, run.summary), name), title)


def _figure_5(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    found = cases.one_case_per_regime(run.arms, run.items)
    if not found:
        raise MissingData("no attack of PDWS succeeded")
    explained = profiles.explained_successes(run.summary)
    yield from _cases(found, profiles.one_profile_per_regime(explained), name, title, run)


def _appendix_e(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    found = cases.cases_of(run.arms, run.items)
    if not found:
        raise MissingData("no attack succeeded")
    yield from _cases(found, profiles.explained_successes(run.summary), name, title, run)


def _appendix_m(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    panels = curves.with_inflections(curves.growth_panels(run.arms), run.analysis("curves"))
    if not panels:
        raise MissingData("needs DiscreteZOO with two numbers of candidates or more")
    caption = notes.arm_notes([c.arm for panel in panels for c in panel.curves], run.summary)
    caption += curves.sentences(panels)
    files = plot_curves([panels], run.formats)
    yield made_figure(name, title, files, caption, as_csv(curves.csv_rows(panels), CSV_FIELDS))


def _variants(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    found = changes.advantages_of(run.arms)
    if not found:
        raise MissingData(
            'needs PDWS near and random sampling with variants = "mark" (choices = "as_published")'
        )
    caption = [
        *notes.arm_notes([a for a in run.arms if a.spec.get("variants") == "mark"], run.summary),
        "Paired by items. Not refuted: the search went on until a success that is not a variant of "
        "the key. Whether the key still holds after it is unknown.",
        *advantage_summary(found),
    ]
    files = plot_advantages(found, run.formats)
    yield made_figure(name, title, files, caption, as_csv(advantage_rows(found), CSV_FIELDS))


def _sweeps(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    panels = sweeps.panels_of(run.arms, run.analysis("sweeps"), run.analysis("coverage"))
    if not panels:
        raise MissingData('needs an attack with sampler = "exhaustive" that finished an item')
    used = [sweep.arm for panel in panels for sweep in panel.sweeps]
    caption = [*sweeps.sentences(panels), *notes.cell_notes(used, run.summary)]
    files = plot_sweeps(panels, run.formats)
    data = as_csv(sweeps.csv_rows(panels), sweeps.CSV_FIELDS)
    yield made_figure(name, title, files, caption, data)


def _words(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    panels = word_cells.panels_of(run.arms, run.analysis("words"))
    if not panels:
        raise MissingData("the run has no table of words replaced and inserted")
    used = [panel.arm for panel in panels]
    caption = [*word_cells.sentences(panels), *notes.cell_notes(used, run.summary)]
    files = plot_words(panels, run.formats)
    yield made_figure(
        name, title, files, caption, as_csv(word_cells.csv_rows(panels), word_cells.CSV_FIELDS)
    )


def _claims(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    found = claims.claims_of(run.arms)
    if all(row.verdict == Finding.NOT_TESTED for row in found):
        raise MissingData("needs PDWS, or an attack with a budget of 2 or more")
    caption = [*claim_table.notes_of(found), *notes.state_notes(run.summary)]
    rows = claim_table.csv_rows(found)
    yield Made(
        name=name,
        title=title,
        files={
            f"{name}.csv": as_csv(rows, claim_table.CLAIM_FIELDS).encode(),
            f"{name}.tex": claim_table.latex(found, caption, name).encode(),
        },
        notes=(*caption, *claim_table.cautions_of(found)),
        body=claim_table.markdown(found),
    )


def _analyses(run: PaperRun, name: str, title: str) -> Iterator[Made]:
    files = {
        f"{name}-{key.replace('_', '-')}.csv": as_csv(flat, list(flat[0])).encode()
        for key in run.summary.get("analysis") or {}
        if (flat := flatten(run.analysis(key)))
    }
    if not files:
        raise MissingData("the run has no analyses")
    yield Made(name=name, title=title, files=files, notes=tuple(notes.state_notes(run.summary)))


def _cases(
    found: Sequence[cases.Case],
    explained: Sequence[profiles.Case],
    name: str,
    title: str,
    run: PaperRun,
) -> Iterator[Made]:
    """Yield the cases, and the Shapley profiles of those that are explained."""
    state = notes.state_notes(run.summary)
    caption = [
        "Cases are chosen by a hash, not by how striking they are. A rule on names refutes a "
        "success or leaves it unknown; only people or a panel find one valid.",
        *([] if explained else [profiles.MISSING]),
        *state,
    ]
    yield Made(
        name=name,
        title=title,
        files={
            f"{name}.html": cases.as_html(found, title, caption).encode(),
            f"{name}.tex": cases.as_latex(found, title, caption).encode(),
        },
        notes=tuple(caption),
    )
    if explained:
        name, title = f"{name}-profiles", f"{title}: Shapley profiles"
        files = plot_profiles(explained, run.formats)
        data = as_csv(list(profiles.csv_rows(explained)), profiles.CSV_FIELDS)
        yield made_figure(name, title, files, [*profiles.NOTES, *state], data)


def _used(arms: Sequence[Arm], methods: Sequence[str]) -> list[Arm]:
    return [arm for arm in arms if arm.method in methods]


LAYOUT = Layout(
    name="xian2025",
    of_questions=True,
    entries=(
        Entry("table1", "Table 1, success of one query", _table_1),
        Entry("table2", f"Table 2, success within {TABLE_2_BUDGET} queries", _table_2),
        Entry("rcap", "Relative change in accuracy (first version, Tables 1 and 2)", _table_rcap),
        Entry("figure2", "Figure 2, the two regimes", _figure_2),
        Entry("figure3", "Figure 3, success against model size", _figure_3),
        Entry("figure4", "Figure 4, scaling with the budget", _figure_4),
        Entry("figure4-embeddings", "Figure 4, what the embedding changes", _figure_4_table),
        Entry("figure5", "Figure 5, one case per regime", _figure_5),
        Entry("appendix-e", "Appendix E, cases", _appendix_e),
        Entry("appendix-m", "Growth with the number of candidates M", _appendix_m),
        Entry("variants", "What is left of the near regime without variants of the key", _variants),
        Entry("sweeps", "Success by distance, every name asked", _sweeps),
        Entry("words", "Success by words replaced and inserted", _words),
        Entry("claims", "Claims of the paper, tested", _claims),
        Entry("analysis", "Analyses, as numbers", _analyses),
    ),
)
