"""The sections of the page, in order: to add one, add an entry to `SECTIONS`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.significance.tests import FAMILY
from medstress.report import criteria, overview, sections
from medstress.report.attempts import attempt_plots, attempt_tables
from medstress.report.cases.building import Cases
from medstress.report.cases.choosing import LIMIT, choose
from medstress.report.cases.page import SCRIPTS, STYLES, render_cases
from medstress.report.controls import controls_table, turned_table
from medstress.report.evidence import evidence_table
from medstress.report.explanations import HEAT_MAPS, heat_map_section
from medstress.report.first_picture import victim_looks
from medstress.report.labels import PLACE
from medstress.report.passages import gain_table, passage_plots
from medstress.report.plots.costs import cost_plot, failure_plot
from medstress.report.plots.regimes import regime_plots
from medstress.report.plots.reusable import reusable_plots
from medstress.report.plots.reviewed import review_plots
from medstress.report.plots.sliced import slice_plots
from medstress.report.plots.trained import training_plots
from medstress.report.plots.transfers import transfer_plots
from medstress.report.plots.tuned import tuning_plots
from medstress.report.probes import probes_table
from medstress.report.rate_plots import curves, forest
from medstress.report.review import review_section
from medstress.report.section import Content, Section, Source, rendered
from medstress.report.sentence_scores import score_tables, surrogate_tables
from medstress.report.significance import significance_plots, significance_tables
from medstress.report.sweeps import sweep_plots
from medstress.report.training import learning_plots, training_tables
from medstress.report.tuning import tuning_tables
from medstress.results import formats
from medstress.results.formats import as_text
from medstress.results.names import warnings_of
from medstress.results.table import Format, Table, as_row, columns


def _warnings(source: Source) -> Content | None:
    warnings = warnings_of(source.summary)
    return Content(html=rendered("warnings.html", warnings=warnings)) if warnings else None


def _results(source: Source) -> Content | None:
    if not source.rows:
        return None
    plot, summary = forest(source.keyed_rows, source.names), source.summary
    by_seed = [row for row in summary.get("results") or () if "control_of" not in row]
    seeds = replace(
        sections.rates_table(by_seed), name="rates-by-seed", caption="The same, seed by seed"
    )
    requirements = summary.get("requirements") or ()
    headlines = summary.get("headlines")
    return Content(
        plots=[plot] if plot else (),
        notes=()
        if plot
        else (
            "No trial was eligible, or no change counts as a success: there is no rate to plot.",
        ),
        tables=(
            criteria.requirements_table(requirements) if requirements else None,
            sections.rates_table(source.rows),
            controls_table(source.rows),
            turned_table(source.arms),
            sections.verdicts_table(source.arms),
            seeds if len(by_seed) > len(source.rows) else None,
            sections.specs_table(source.rows),
        ),
        html=rendered("headlines.html", sentences=headlines) if headlines else "",
    )


def _budget(source: Source) -> Content | None:
    plots = list(curves(source.keyed_rows, source.names))
    return Content(plots=plots) if plots else None


def _regimes(source: Source) -> Content | None:
    plots = list(regime_plots(source.keyed))
    return Content(plots=plots) if plots else None


def _distance(source: Source) -> Content | None:
    found = list(sweep_plots(source.keyed.get("analysis"), source.names))
    if not found:
        return None
    return Content(
        lead=(
            "Here every allowed name was asked, the nearest to the key first. A point is a class "
            "of names, each class of equally many; its height is the share of these names on "
            "which the victim errs.",
        ),
        plots=[plot for plot, _ in found],
        notes=[said for _, said in found],
    )


def _attempts(source: Source) -> Content | None:
    plots = list(attempt_plots(source.keyed_rows, source.names))
    if not plots:
        return None
    return Content(
        lead=(
            "An attacker model edits an item, again and again, until the victim errs. An attempt "
            "whose edit a gate rejects, or whose reply nobody can read, is lost and asks the "
            "victim nothing. Accuracy after k attempts counts an item as right that was right to "
            "begin with and withstood k attempts.",
        ),
        plots=plots,
        tables=attempt_tables(source.rows, source.trials),
    )


def _scores(source: Source) -> Content | None:
    trained = training_tables(source.summary.get("training"))
    tables = [*score_tables(source.rows), *surrogate_tables(source.summary), *trained]
    plots = [*training_plots(source.keyed), *learning_plots(source.keyed)]
    return Content(plots=plots, tables=tables) if tables or plots else None


def _transfer(source: Source) -> Content | None:
    plots = list(transfer_plots(source.keyed))
    return Content(plots=plots) if plots else None


def _slices(source: Source) -> Content | None:
    slices, slicing = source.summary.get("slices") or (), source.summary.get("slicing")
    if not slices:
        return None
    worst = criteria.worst_table(slicing) if slicing else None
    return Content(
        plots=list(slice_plots(source.keyed)),
        tables=(worst, criteria.slices_table(slices, slicing)),
    )


def _reusable(source: Source) -> Content | None:
    plots = list(reusable_plots(source.keyed))
    return Content(plots=plots) if plots else None


def _tuning(source: Source) -> Content | None:
    tables = tuning_tables(source.summary.get("tuning"))
    return Content(plots=list(tuning_plots(source.keyed)), tables=tables) if tables else None


def _passages(source: Source) -> Content | None:
    found = source.summary.get("passages")
    plots = list(passage_plots(source.keyed.get("passages"), source.names, victim_looks(source)))
    tables = (gain_table(found), evidence_table(source.rows))
    return Content(plots=plots, tables=tables) if plots or any(tables) else None


def _probes(source: Source) -> Content | None:
    table = probes_table(source.arms)
    if table is None:
        return None
    return Content(
        lead=(
            "A probe asks variants of every question, whether or not it was answered rightly. How "
            "often are they right, and how often is the answer the same?",
        ),
        tables=(table,),
    )


def _significance(source: Source) -> Content | None:
    tables = significance_tables(source.summary)
    if not tables:
        return None
    return Content(
        lead=(
            "Would any change of its kind have misled the victim? A test compares a success with "
            "controls that say nothing of weight. A reasoning is faithful where it says that what "
            "was inserted mattered.",
        ),
        plots=list(significance_plots(source.keyed)),
        tables=tables,
    )


def _tests(source: Source) -> Content | None:
    found = [each for each in source.summary.get("tests") or () if each.get("family") != FAMILY]
    return Content(tables=(sections.tests_table(found),)) if found else None


def _diversity(source: Source) -> Content | None:
    if not any(row.get("n_flipped") for row in source.rows):
        return None
    return Content(
        tables=(sections.diversity_table(source.rows), sections.variants_table(source.rows))
    )


def _explanations(source: Source) -> Content | None:
    if not source.summary.get("explanations"):
        return None
    return Content(html=heat_map_section(source.summary), styles=(HEAT_MAPS,))


def _cost(source: Source) -> Content | None:
    if not source.arms:
        return None
    plot = cost_plot(source.keyed)
    return Content(
        plots=[plot] if plot else (),
        tables=(sections.queries_table(source.arms),),
        html=rendered("cost.html", performance=overview.performance(source.summary)),
    )


def _cases(source: Source) -> Content:
    browser = source.browser
    if browser is None:
        cases = Cases(source.keyed_trials, source.names)
        browser = render_cases(cases, str(source.experiment.get("fingerprint")))
    return Content(html=browser.html, styles=STYLES, scripts=SCRIPTS)


def _review(source: Source) -> Content | None:
    tables = review_section(source.keyed)
    plots = list(review_plots(source.keyed))
    drawn = {plot.data.name for plot in plots}
    rest = [table for table in tables if table.name not in drawn]
    return Content(plots=plots, tables=rest) if tables else None


def _failures(source: Source) -> Content | None:
    lost = [trial for trial in source.trials if trial.verdict is Verdict.FAILED]
    if not lost:
        return None
    shown = choose(lost, LIMIT, str(source.experiment.get("fingerprint")))
    n = f"{len(shown):,} of {len(lost):,} failed trials, chosen evenly over the attacks; "
    more = (n + "medstress export DIR --table trials --to FILE has the rest.",)
    plot = failure_plot(source.keyed_trials, source.keyed)
    return Content(
        lead=more if len(lost) > len(shown) else (),
        plots=[plot] if plot else (),
        tables=(_failed_table(shown),),
    )


def _failed_table(trials: Sequence[TrialRow]) -> Table:
    return Table(
        name="failures",
        caption="Trials that failed",
        columns=(*PLACE, *columns(Format.TEXT, "Item", "Seed", "At", "Error")),
        rows=tuple(
            as_row(
                *(trial.attack, trial.dataset, trial.group, trial.victim, trial.item_id),
                *(as_text(each) for each in (trial.seed, trial.at, trial.error)),
            )
            for trial in trials
        ),
        n_labels=len(PLACE),
    )


def _glossary(source: Source) -> Content:
    return Content(html=rendered("glossary.html", glossary=overview.glossary(source.rows)))


def _repeat(source: Source) -> Content:
    manifest = source.manifest
    given: dict[str, Any] = {
        "told": [
            *overview.state_lines(source.summary),
            overview.what_was_run(source.summary, source.rows),
        ],
        "command": overview.command(manifest),
        "endpoints": [as_text(each) for each in manifest.get("endpoints") or ()],
        "manifest": formats.pretty(_same_in_all(manifest)),
    }
    return Content(html=rendered("repeat.html", **given))


def _same_in_all(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest as all folders of one run have it: without the order and the numbers of its
    rows, which say how often a folder was written to."""
    shown = dict(sorted(manifest.items()))
    root = shown.get("root")
    return shown | {"root": root["root"]} if isinstance(root, Mapping) else shown


def _citations(source: Source) -> Content:
    return Content(html=rendered("citations.html"))


SECTIONS = (
    Section(id="warnings", title="Read this first", make=_warnings, short="Warnings"),
    Section(id="results", title="Victims and attacks", make=_results),
    Section(id="budget", title="Success within a budget", make=_budget, short="Budget"),
    Section(
        id="near-far", title="The two regimes: near and far names", make=_regimes, short="Regimes"
    ),
    Section(id="distance", title="Success by distance", make=_distance),
    Section(id="attempts", title="Accuracy by attempt", make=_attempts),
    Section(id="before-after", title="Scores before and after", make=_scores),
    Section(id="transfer", title="Transfer to other models", make=_transfer, short="Transfer"),
    Section(id="slicing", title="Slices of the data", make=_slices, short="Slices"),
    Section(id="names", title="Names that break many items", make=_reusable, short="Names"),
    Section(id="chosen", title="What n was chosen, and why", make=_tuning, short="Choice of n"),
    Section(id="passage", title="Passage against none", make=_passages, short="Passages"),
    Section(id="probes", title="Probes of questions", make=_probes, short="Probes"),
    Section(
        id="significant",
        title="Significance and faithfulness",
        make=_significance,
        short="Significance",
    ),
    Section(id="comparisons", title="Tests", make=_tests),
    Section(
        id="explained", title="Which words carry the answer", make=_explanations, short="Explained"
    ),
    Section(id="variety", title="Diversity", make=_diversity),
    Section(id="review", title="What reviewers say", make=_review, short="Review"),
    Section(id="cases", title="Cases", make=_cases),
    Section(id="cost", title="Cost", make=_cost),
    Section(id="failed", title="Failures", make=_failures),
    Section(id="glossary", title="Glossary", make=_glossary),
    Section(id="repeat", title="Repeat the run", make=_repeat, short="Repeat"),
    Section(id="citations", title="Citations", make=_citations),
)
"""All sections that a page may have, in the order of the page and of its contents."""
