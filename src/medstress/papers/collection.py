"""Make the tables and figures that a run can fill, and say why the others are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.rows import TrialRow
from medstress.kinds import kind_of_all
from medstress.papers import (
    cases,
    changes,
    curves,
    noise_scores,
    notes,
    regimes,
    sizes,
    sweeps,
    word_cells,
)
from medstress.papers.arms import Arm, arms_of
from medstress.papers.claims import claims
from medstress.papers.claims import table as claim_table
from medstress.papers.claims.verdicts import Finding
from medstress.papers.outputs import CSV_FIELDS, Made, Printed, Skipped
from medstress.papers.plots.advantages import plot_advantages
from medstress.papers.plots.curves import plot_curves
from medstress.papers.plots.noise_scores import plot_noise_scores
from medstress.papers.plots.regimes import plot_regimes
from medstress.papers.plots.sizes import plot_sizes
from medstress.papers.plots.sweeps import plot_sweeps
from medstress.papers.plots.words import plot_words
from medstress.papers.rates import has_choice, rates_of
from medstress.papers.tables import rates as tables
from medstress.papers.tables import scores as score_tables
from medstress.papers.tables.changes import advantage_rows, advantage_summary, change_table
from medstress.results.csv import as_csv, flatten
from medstress.results.latex import latex_table

TABLE_2_BUDGET = 8


class _MissingData(Exception):
    """Raised if the run lacks what a figure needs; the message says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The data that every maker of a table or figure reads."""

    summary: Mapping[str, Any]
    arms: Sequence[Arm]
    items: cases.Items
    formats: Sequence[str]

    def analysis(self, key: str) -> Sequence[Mapping[str, Any]]:
        """Return rows of the summary's `analysis`; empty if the run has none."""
        return (self.summary.get("analysis") or {}).get(key) or ()


def make_all(
    summary: Mapping[str, Any],
    trials: Sequence[TrialRow],
    manifest: Mapping[str, Any],
    items: cases.Items,
    formats: Sequence[str],
) -> Iterator[Made | Skipped]:
    """Make every table and figure that the run can fill.

    The same arguments give the same bytes.

    Args:
        summary: as `medstress summary --json`.
        trials: the rows of the run.
        manifest: manifest of the run.
        items: items by data set and id, for the cases; their type decides which figures are made.
        formats: file formats of the figures: `pdf`, `svg`, `png`.
    """
    run = _Run(
        summary=summary, arms=arms_of(summary, trials, manifest), items=items, formats=formats
    )
    # The figures on questions need chance and distractors, which other kinds lack.
    is_questions = kind_of_all(items.values()).draws_names
    for name, title, maker in _OF_QUESTIONS if is_questions else _OF_SENTENCES:
        try:
            if not run.arms:
                raise _MissingData("the run has no finished trial of an attack")
            made = list(maker(run, name, title))
        except _MissingData as missing:
            yield Skipped(name=name, title=title, reason=str(missing))
        else:
            yield from made


def _table_1(run: _Run, name: str, title: str) -> Iterator[Made]:
    rates = rates_of(run.arms, 1)
    if not any({"random", "near", "far"} & set(r.asr) for r in rates):
        raise _MissingData("needs random sampling or PDWS")
    yield _table(tables.table_1(rates, run.summary, name), title)
    if has_choice(run.arms, 1):
        table = tables.table_1(
            rates_of(run.arms, 1, "as_published"), run.summary, f"{name}-as-published"
        )
        yield _table(table, f"{title}, n chosen on the same items (optimistic)")


def _table_2(run: _Run, name: str, title: str) -> Iterator[Made]:
    rates = rates_of(run.arms, TABLE_2_BUDGET)
    if not rates:
        raise _MissingData(f"needs an attack with a budget of {TABLE_2_BUDGET} or more")
    yield _table(tables.table_2(rates, run.summary, name), title)
    if has_choice(run.arms, TABLE_2_BUDGET):
        optimistic = rates_of(run.arms, TABLE_2_BUDGET, "as_published")
        table = tables.table_2(optimistic, run.summary, f"{name}-as-published")
        yield _table(table, f"{title}, n chosen on the same items (optimistic)")


def _table_rcap(run: _Run, name: str, title: str) -> Iterator[Made]:
    rates = rates_of(run.arms, 1)
    if not any("random" in r.asr and {"near", "far"} & set(r.asr) for r in rates):
        raise _MissingData("needs random sampling and PDWS")
    datasets = list(dict.fromkeys(r.place.dataset for r in rates))
    for i, dataset in enumerate(datasets, start=1):
        file = name if len(datasets) == 1 else f"{name}-{i}"
        yield _table(tables.table_rcap(rates, run.summary, dataset, file), f"{title}, {dataset}")


def _figure_2(run: _Run, name: str, title: str) -> Iterator[Made]:
    panels = regimes.panels_of(run.arms)
    if not panels:
        raise _MissingData(
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
    files = plot_regimes(panels, caption, run.formats)
    yield _figure(name, title, files, caption, as_csv(regimes.csv_rows(panels), CSV_FIELDS))


def _figure_3(run: _Run, name: str, title: str) -> Iterator[Made]:
    rates = [r for r in rates_of(run.arms, 1) if {"random", "near", "far"} & set(r.asr)]
    panels = sizes.panels_of(rates)
    if not panels:
        raise _MissingData("needs victims with `parameters` and `group` in the experiment file")
    shown = any(line for panel in panels for line in panel.published)
    caption = notes.rate_notes(rates, run.summary, "xian2025" if shown else None)
    caption = [note for note in caption if not note.startswith("Lines and marks")]
    if shown:
        caption.append(notes.PUBLISHED.format(source="Xian et al., TMLR 2025, Table 1"))
        caption += notes.published_prompts(rates, "xian2025")
    if left := sizes.victims_left_out(rates):
        caption.append(f"Left out because size or group is not given: {', '.join(left)}.")
    bars = [bar for panel in panels for bar in panel.bars]
    files = plot_sizes(panels, caption, run.formats)
    _, data = tables.table_1(bars, run.summary, name)
    yield _figure(name, title, files, caption, as_csv(data, CSV_FIELDS))


def _figure_4(run: _Run, name: str, title: str) -> Iterator[Made]:
    inflections = run.analysis("curves")
    bands = [
        curves.with_inflections(curves.panels_of(run.arms, methods), inflections)
        for methods in (curves.SEARCH, curves.DETERMINISTIC)
    ]
    panels = [panel for band in bands for panel in band]
    if not panels:
        raise _MissingData(f"needs an attack with a budget of {curves.SMALLEST_BUDGET} or more")
    used = [curve.arm for panel in panels for curve in panel.curves]
    caption = notes.arm_notes(used, run.summary)
    if any(panel.without for panel in panels):
        caption.append(notes.TUNED.replace("the whole line is", "all curves are"))
    caption += curves.sentences(panels)
    files = plot_curves([band for band in bands if band], caption, run.formats)
    yield _figure(name, title, files, caption, as_csv(curves.csv_rows(panels), CSV_FIELDS))


def _figure_4_table(run: _Run, name: str, title: str) -> Iterator[Made]:
    found = changes.changes_of(run.arms)
    if not found:
        raise _MissingData("needs one attack under two embeddings, with a budget of 3 or more")
    used = [a for a in run.arms if a.budget >= curves.SMALLEST_BUDGET]
    yield _table(change_table(found, notes.arm_notes(used, run.summary), name), title)


def _figure_5(run: _Run, name: str, title: str) -> Iterator[Made]:
    found = cases.one_case_per_regime(run.arms, run.items)
    if not found:
        raise _MissingData("no attack of PDWS succeeded")
    yield _cases(found, name, title, run)


def _appendix_e(run: _Run, name: str, title: str) -> Iterator[Made]:
    found = cases.cases_of(run.arms, run.items)
    if not found:
        raise _MissingData("no attack succeeded")
    yield _cases(found, name, title, run)


def _appendix_m(run: _Run, name: str, title: str) -> Iterator[Made]:
    panels = curves.with_inflections(curves.growth_panels(run.arms), run.analysis("curves"))
    if not panels:
        raise _MissingData("needs DiscreteZOO with two numbers of candidates or more")
    caption = notes.arm_notes([c.arm for panel in panels for c in panel.curves], run.summary)
    caption += curves.sentences(panels)
    files = plot_curves([panels], caption, run.formats)
    yield _figure(name, title, files, caption, as_csv(curves.csv_rows(panels), CSV_FIELDS))


def _variants(run: _Run, name: str, title: str) -> Iterator[Made]:
    found = changes.advantages_of(run.arms)
    if not found:
        raise _MissingData(
            'needs PDWS near and random sampling with variants = "mark" (choices = "as_published")'
        )
    caption = [
        *notes.arm_notes([a for a in run.arms if a.spec.get("variants") == "mark"], run.summary),
        "Paired by items. Not refuted: the search went on until a success that is not a variant of "
        "the key. Whether the key still holds after it is unknown.",
        *advantage_summary(found),
    ]
    files = plot_advantages(found, caption, run.formats)
    yield _figure(name, title, files, caption, as_csv(advantage_rows(found), CSV_FIELDS))


def _sweeps(run: _Run, name: str, title: str) -> Iterator[Made]:
    panels = sweeps.panels_of(run.arms, run.analysis("sweeps"), run.analysis("coverage"))
    if not panels:
        raise _MissingData('needs an attack with sampler = "exhaustive" that finished an item')
    used = [sweep.arm for panel in panels for sweep in panel.sweeps]
    caption = [*sweeps.sentences(panels), *notes.cell_notes(used, run.summary)]
    files = plot_sweeps(panels, caption, run.formats)
    data = as_csv(sweeps.csv_rows(panels), sweeps.CSV_FIELDS)
    yield _figure(name, title, files, caption, data)


def _words(run: _Run, name: str, title: str) -> Iterator[Made]:
    panels = word_cells.panels_of(run.arms, run.analysis("words"))
    if not panels:
        raise _MissingData("the run has no table of words replaced and inserted")
    used = [panel.arm for panel in panels]
    caption = [*word_cells.sentences(panels), *notes.cell_notes(used, run.summary)]
    files = plot_words(panels, caption, run.formats)
    yield _figure(
        name, title, files, caption, as_csv(word_cells.csv_rows(panels), word_cells.CSV_FIELDS)
    )


def _claims(run: _Run, name: str, title: str) -> Iterator[Made]:
    found = claims.claims_of(run.arms)
    if all(row.verdict == Finding.NOT_TESTED for row in found):
        raise _MissingData("needs PDWS, or an attack with a budget of 2 or more")
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


def _noise_scores(run: _Run, name: str, title: str) -> Iterator[Made]:
    found = noise_scores.panels_of(run.arms, run.summary.get("training"))
    if not found:
        raise _MissingData("needs tagged texts or sentence pairs with a perturbed copy of the data")
    panels = [panel for panel, _ in found]
    seeds = {seed for _, arms in found for arm in arms for seed in arm.row["seeds"] or ()}
    caption = [
        notes.seeds_note({seed for seed in seeds if seed is not None}),
        score_tables.INTERVALS,
        *notes.state_notes(run.summary),
    ]
    if any(bars.published for panel in panels for bars in panel.bars):
        caption.append(notes.PUBLISHED.format(source=noise_scores.SOURCE))
    files = plot_noise_scores(panels, caption, run.formats)
    data = as_csv(list(noise_scores.csv_rows(panels)), noise_scores.CSV_FIELDS)
    yield _figure(name, title, files, caption, data)


def _scores(run: _Run, name: str, title: str) -> Iterator[Made]:
    yield _scored(score_tables.scores(run.arms, run.summary, name), title)


def _scores_by_type(run: _Run, name: str, title: str) -> Iterator[Made]:
    table = score_tables.by_type(run.arms, run.summary, name)
    if table is None:
        raise _MissingData("needs tagged texts with several types of entities")
    yield _scored(table, title)


def _success(run: _Run, name: str, title: str) -> Iterator[Made]:
    table = score_tables.success(run.arms, run.summary, name)
    if table is None:
        raise _MissingData("needs tagged texts, or pairs attacked with `max_change`")
    yield _scored(table, title)


def _analyses(run: _Run, name: str, title: str) -> Iterator[Made]:
    files = {
        f"{name}-{key.replace('_', '-')}.csv": as_csv(flat, list(flat[0])).encode()
        for key in run.summary.get("analysis") or {}
        if (flat := flatten(run.analysis(key)))
    }
    if not files:
        raise _MissingData("the run has no analyses")
    yield Made(name=name, title=title, files=files, notes=tuple(notes.state_notes(run.summary)))


_Maker = Callable[[_Run, str, str], Iterator[Made]]

_FIGURE_1: tuple[str, str, _Maker] = (
    "noise-scores",
    "Figure 1 of Araujo et al., scores under synonyms and noise",
    _noise_scores,
)
_OF_QUESTIONS: tuple[tuple[str, str, _Maker], ...] = (
    ("table1", "Table 1, success of one query", _table_1),
    ("table2", f"Table 2, success within {TABLE_2_BUDGET} queries", _table_2),
    ("rcap", "Relative change in accuracy (first version, Tables 1 and 2)", _table_rcap),
    ("figure2", "Figure 2, the two regimes", _figure_2),
    ("figure3", "Figure 3, success against model size", _figure_3),
    ("figure4", "Figure 4, scaling with the budget", _figure_4),
    ("figure4-embeddings", "Figure 4, what the embedding changes", _figure_4_table),
    ("figure5", "Figure 5, one case per regime", _figure_5),
    ("appendix-e", "Appendix E, cases", _appendix_e),
    ("appendix-m", "Growth with the number of candidates M", _appendix_m),
    ("variants", "What is left of the near regime without variants of the key", _variants),
    ("sweeps", "Success by distance, every name asked", _sweeps),
    ("words", "Success by words replaced and inserted", _words),
    _FIGURE_1,
    ("claims", "Claims of the paper, tested", _claims),
    ("analysis", "Analyses, as numbers", _analyses),
)
_OF_SENTENCES: tuple[tuple[str, str, _Maker], ...] = (
    ("scores", "Scores of clean and perturbed data", _scores),
    ("scores-by-type", "The same by type of entity", _scores_by_type),
    ("success", "Success within the budget", _success),
    _FIGURE_1,
)


def _table(printed: Printed, title: str, fields: Sequence[str] = CSV_FIELDS) -> Made:
    table, data = printed
    return Made(
        name=table.name,
        title=title,
        files={
            f"{table.name}.tex": latex_table(table).encode(),
            f"{table.name}.csv": as_csv(data, fields).encode(),
        },
        notes=table.notes,
    )


def _scored(printed: Printed, title: str) -> Made:
    return _table(printed, title, score_tables.CSV_FIELDS)


def _figure(
    name: str, title: str, files: Mapping[str, bytes], caption: Sequence[str], data: str
) -> Made:
    contents = {f"{name}.{form}": content for form, content in files.items()}
    contents[f"{name}.csv"] = data.encode()
    return Made(name=name, title=title, files=contents, notes=tuple(caption))


def _cases(found: Sequence[cases.Case], name: str, title: str, run: _Run) -> Made:
    caption = [
        "Cases are chosen by a hash, not by how striking they are. A rule on names refutes a "
        "success or leaves it unknown; only people, a panel or a measured checker find one valid.",
        "Shapley profiles of the texts are not implemented.",
        *notes.state_notes(run.summary),
    ]
    return Made(
        name=name,
        title=title,
        files={
            f"{name}.html": cases.as_html(found, title, caption).encode(),
            f"{name}.tex": cases.as_latex(found, title, caption).encode(),
        },
        notes=tuple(caption),
    )


def _used(arms: Sequence[Arm], methods: Sequence[str]) -> list[Arm]:
    return [arm for arm in arms if arm.method in methods]
