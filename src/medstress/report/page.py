"""Render the report page from a summary, trials and a manifest."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.significance.tests import FAMILY
from medstress.report import criteria, overview, sections
from medstress.report.attempts import attempt_plots, attempt_tables
from medstress.report.cases.building import Cases
from medstress.report.cases.choosing import LIMIT, choose
from medstress.report.cases.page import SCRIPTS, STYLES, Browser, render_cases
from medstress.report.confidence import confidence_table, risk_coverage_plots
from medstress.report.controls import controls_table, turned_table
from medstress.report.evidence import evidence_table
from medstress.report.formats_compared import sensitivity_tables, variance_table
from medstress.report.labels import PLACE, Row
from medstress.report.passages import gain_table, passage_plots
from medstress.report.rate_plots import curves, forest
from medstress.report.second_answers import second_answer_plots
from medstress.report.sentence_scores import score_tables, surrogate_tables
from medstress.report.significance import significance_plots, significance_tables
from medstress.report.sweeps import sweep_plots
from medstress.report.training import learning_plots, training_tables
from medstress.report.tuning import tuning_tables
from medstress.results import formats
from medstress.results.formats import as_text
from medstress.results.html import html_table
from medstress.results.names import Names
from medstress.results.table import Format, Table, as_row, columns


def render_report(
    summary: Mapping[str, Any],
    trials: Sequence[TrialRow],
    manifest: Mapping[str, Any],
    *,
    cases: Cases | Browser | None = None,
) -> str:
    """Render the report of a run as one HTML page that loads no other resource.

    Pure: the same arguments give the same page. All data are escaped; control characters and lone
    surrogates, which HTML cannot hold, become U+FFFD.

    Args:
        summary: as `medstress summary --json`; `warnings` are to be read before any number, the
            most important first.
        trials: the rows of the run, the source of the successes and failures shown.
        manifest: configuration, seeds, versions, hashes; `command` repeats the run and
            `endpoints` lists the network addresses that were asked.
        cases: the cases of the run with what its folder keeps; without them the page shows what
            the rows hold. A `Browser` asks a server for cases (`medstress view`).

    Returns:
        A complete HTML document, to be written as UTF-8.
    """
    salt = str(summary["experiment"].get("fingerprint"))
    if cases is None:
        cases = Cases(trials, Names(**summary.get("names", {})))
    browser = cases if isinstance(cases, Browser) else render_cases(cases, salt)
    script = "".join(map(_text, ("page.js", *SCRIPTS)))
    rows = sections.headline_rows(summary)
    return (
        _environment()
        .get_template("page.html")
        .render(
            name=summary["experiment"]["name"],
            glossary=overview.glossary(rows),
            complete=bool(summary["experiment"].get("complete")),
            headlines=summary.get("headlines") or (),
            warnings=summary.get("warnings") or (),
            verdict=criteria.verdict(summary),
            misses=criteria.misses(summary),
            state=overview.state(summary),
            what_was_run=overview.what_was_run(summary, rows),
            performance=overview.performance(summary),
            command=overview.command(manifest),
            endpoints=[as_text(each) for each in manifest.get("endpoints") or ()],
            manifest=formats.pretty(manifest),
            cases=browser.html,
            cases_css=Markup("".join(map(_text, STYLES))),
            is_served=browser.is_served,
            script=Markup(script),
            script_hash=b64encode(sha256(script.encode()).digest()).decode(),
            **_tables(summary, rows),
            scores=[*score_tables(rows), *surrogate_tables(summary)],
            tuning=tuning_tables(summary.get("tuning")),
            training=training_tables(summary.get("training")),
            learning=list(learning_plots(summary)),
            forest=forest(rows),
            gains=gain_table(summary.get("passages")),
            passages=list(passage_plots(summary.get("passages"))),
            curves=list(curves(rows)),
            risks=list(risk_coverage_plots(rows)),
            sensitivity=sensitivity_tables(summary.get("sensitivity")),
            second_answers=list(second_answer_plots(trials)),
            attempts=list(attempt_plots(rows)),
            attempt_tables=attempt_tables(rows, trials),
            p_values=list(significance_plots(summary)),
            significance=significance_tables(summary),
            sweeps=list(sweep_plots(summary.get("analysis"))),
            **_failure_table(trials, salt),
        )
    )


def _text(name: str) -> str:
    return (files("medstress.report") / "templates" / name).read_text("utf-8")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("medstress.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=formats.writable,
    )
    environment.filters["shorten"] = formats.shorten
    environment.filters["count"] = formats.count
    environment.filters["table"] = html_table
    return environment


def _tables(summary: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Table | None]:
    by_seed = [row for row in summary.get("results") or () if "control_of" not in row]
    arms = sections.all_rows(summary)
    more = len(by_seed) > len(rows)
    each_seed = replace(
        sections.rates_table(by_seed), name="rates-by-seed", caption="The same, seed by seed"
    )
    slices, slicing = summary.get("slices") or (), summary.get("slicing")
    requirements = summary.get("requirements") or ()
    return {
        "rates": sections.rates_table(rows),
        "rates_by_seed": each_seed if more else None,
        "controls": controls_table(rows),
        "confidence": confidence_table(rows),
        "variance": variance_table(summary.get("variance")),
        "turned": turned_table(arms),
        "verdicts": sections.verdicts_table(arms),
        "queries": sections.queries_table(arms),
        "diversity": sections.diversity_table(rows),
        "variants": sections.variants_table(rows),
        "evidence": evidence_table(rows),
        "slices": criteria.slices_table(slices, slicing) if slices else None,
        "worst_slices": criteria.worst_table(slicing) if slicing else None,
        "requirements": criteria.requirements_table(requirements) if requirements else None,
        "tests": sections.tests_table(
            [each for each in summary.get("tests") or () if each.get("family") != FAMILY]
        ),
        "specs": sections.specs_table(rows),
    }


def _failure_table(trials: Sequence[TrialRow], salt: str) -> dict[str, Any]:
    lost = [trial for trial in trials if trial.verdict is Verdict.FAILED]
    return {"n_failures": len(lost), "failures": _failures(choose(lost, LIMIT, salt))}


def _failures(trials: Sequence[TrialRow]) -> Table:
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
