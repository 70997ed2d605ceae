"""Puts the page together: a summary, trials and a manifest in, HTML out."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from itertools import pairwise
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from medstress.outcomes import Verdict
from medstress.report import examples, figures, formats, overview, sections
from medstress.report.attempts import attempt_plots, attempt_tables
from medstress.report.formats import as_text
from medstress.report.second_answers import second_answer_plots
from medstress.report.sentence_scores import score_tables, surrogate_tables
from medstress.report.significance import FAMILY, significance_plots, significance_tables
from medstress.report.sweeps import sweep_plots
from medstress.report.tables import Cell, Row, Table, number, short_labels
from medstress.report.training import learning_plots, training_tables
from medstress.report.tuning import tuning_tables
from medstress.rows import TrialRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A figure with the table of its numbers."""

    svg: Markup
    """An SVG element."""
    data: Table
    """What it shows."""


def render_report(
    summary: Mapping[str, Any], trials: Sequence[TrialRow], manifest: Mapping[str, Any]
) -> str:
    """Render the report of a run as one HTML page that loads nothing from anywhere.

    Pure: the same arguments give the same page. Everything that comes from data is escaped;
    control characters and lone surrogates, which HTML cannot hold, become U+FFFD.

    Args:
        summary: as `medstress summary --json`, and under `warnings` the sentences to be read
            before any number, the most important first.
        trials: the rows of the run; successes and failures are shown from them.
        manifest: configuration, seeds, versions, hashes; `command` repeats the run and
            `endpoints` lists what was asked over a network.

    Returns:
        The text of a complete HTML document, to be written as UTF-8.
    """
    script = (files("medstress.report") / "templates" / "page.js").read_text("utf-8")
    rows = sections.headline_rows(summary)
    return (
        _environment()
        .get_template("page.html")
        .render(
            name=summary["experiment"]["name"],
            complete=bool(summary["experiment"].get("complete")),
            warnings=summary.get("warnings") or (),
            state=overview.state(summary),
            what_was_run=overview.what_was_run(summary, rows),
            performance=overview.performance(summary),
            command=overview.command(manifest),
            endpoints=[as_text(each) for each in manifest.get("endpoints") or ()],
            manifest=formats.pretty(manifest),
            script=Markup(script),
            script_hash=b64encode(sha256(script.encode()).digest()).decode(),
            **_tables(summary, rows),
            scores=[*score_tables(rows), *surrogate_tables(summary)],
            tuning=tuning_tables(summary.get("tuning")),
            training=training_tables(summary.get("training")),
            learning=[Plot(svg=svg, data=data) for svg, data in learning_plots(summary)],
            forest=_forest(rows),
            curves=list(_curves(rows)),
            second_answers=[Plot(svg=svg, data=data) for svg, data in second_answer_plots(trials)],
            attempts=[Plot(svg=svg, data=data) for svg, data in attempt_plots(rows)],
            attempt_tables=attempt_tables(rows, trials),
            p_values=[Plot(svg=svg, data=data) for svg, data in significance_plots(summary)],
            significance=significance_tables(summary),
            sweeps=[
                (Plot(svg=svg, data=data), said)
                for svg, data, said in sweep_plots(summary.get("analysis"))
            ],
            **_trial_lists(summary, trials),
        )
    )


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
    return environment


def _tables(summary: Mapping[str, Any], rows: Sequence[Row]) -> dict[str, Table | None]:
    by_seed: Sequence[Row] = summary.get("results") or ()
    more = len(by_seed) > len(rows)
    each_seed = replace(
        sections.rates_table(by_seed), name="rates-by-seed", caption="The same, seed by seed"
    )
    slices = summary.get("slices") or ()
    requirements = summary.get("requirements") or ()
    return {
        "rates": sections.rates_table(rows),
        "rates_by_seed": each_seed if more else None,
        "verdicts": sections.verdicts_table(rows),
        "queries": sections.queries_table(rows),
        "diversity": sections.diversity_table(rows),
        "variants": sections.variants_table(rows),
        "slices": sections.slices_table(slices) if slices else None,
        "requirements": sections.requirements_table(requirements) if requirements else None,
        "tests": sections.tests_table(
            [each for each in summary.get("tests") or () if each.get("family") != FAMILY]
        ),
        "specs": sections.specs_table(rows),
    }


def _forest(rows: Sequence[Row]) -> Plot | None:
    lines = [
        figures.Interval(
            label=label,
            estimate=estimate,
            share=f"{number(row, 'n_flipped')}/{number(row, 'n_eligible')}",
        )
        for label, row in zip(short_labels(rows), rows, strict=True)
        if (estimate := _drawn(row.get("asr")))
    ]
    if not lines:
        return None
    return Plot(svg=Markup(figures.forest_plot(lines, "forest")), data=sections.forest_data(rows))


def _drawn(estimate: Mapping[str, Any] | None) -> figures.Estimate | None:
    """An estimate as it is plotted; without an interval it is a bare point."""
    if estimate is None or estimate.get("value") is None:
        return None
    value = estimate["value"]
    low, high = estimate.get("low"), estimate.get("high")
    return figures.Estimate(
        value=value, low=value if low is None else low, high=value if high is None else high
    )


def _curves(rows: Sequence[Row]) -> Iterator[Plot]:
    """One panel per data set and group, and per victim where there are several."""
    fields = ["dataset", "group"]
    if len({as_text(row.get("victim")) for row in rows}) > 1:
        fields.append("victim")
    panels: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        panels.setdefault(tuple(as_text(row.get(name)) for name in fields), []).append(row)
    for i, (key, members) in enumerate(panels.items()):
        drawn = [
            figures.Curve(label=label, points=points)
            for label, row in zip(short_labels(members), members, strict=True)
            if (points := _points(row))
        ]
        # One query an item is a point; the table and the forest plot have it.
        if any(budget > 1 for curve in drawn for budget, _ in curve.points):
            title, name = " · ".join(key), f"curves-{i}"
            svg = Markup(figures.budget_curves(drawn, title, name))
            yield Plot(svg=svg, data=sections.curves_data(f"{name}-data", title, members))


def _points(row: Row) -> tuple[tuple[int, figures.Estimate], ...]:
    points: Iterable[Mapping[str, Any]] = row.get("asr_at") or ()
    found = ((int(point["budget"]), _drawn(point)) for point in points)
    known = sorted(((b, e) for b, e in found if e), key=lambda each: each[0])
    # A long curve lists only where it changes: in between it is flat.
    flat = ((b - 1, e) for (a, e), (b, _) in pairwise(known) if b - a > 1)
    return tuple(sorted((*known, *flat), key=lambda each: each[0]))


def _trial_lists(summary: Mapping[str, Any], trials: Sequence[TrialRow]) -> dict[str, Any]:
    salt = str(summary["experiment"].get("fingerprint"))
    won = examples.successes(trials)
    chosen = examples.choose(won, examples.LIMIT, salt)
    lost = [trial for trial in trials if trial.verdict is Verdict.FAILED]
    return {
        "n_successes": len(won),
        "examples": [examples.show(trial) for trial in chosen],
        "example_attacks": sorted({trial.attack for trial in chosen}),
        "example_groups": sorted({trial.group for trial in chosen}),
        "n_failures": len(lost),
        "failures": _failures(examples.choose(lost, examples.LIMIT, salt)),
    }


def _failures(trials: Sequence[TrialRow]) -> Table:
    def text(value: str, *lines: str) -> Cell:
        return Cell(text=value, lines=lines, numeric=False)

    return Table(
        name="failures",
        caption="Trials that failed",
        columns=("Attack, data, victim", "Item", "Seed", "At", "Error"),
        rows=tuple(
            (
                text(trial.attack, f"{trial.dataset} · {trial.group}", trial.victim),
                text(trial.item_id),
                text(as_text(trial.seed)),
                text(as_text(trial.at)),
                text(as_text(trial.error)),
            )
            for trial in trials
        ),
    )
