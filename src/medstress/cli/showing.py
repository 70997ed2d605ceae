"""Show a run on the terminal: what to read first, tables, failures; and write its report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medstress.api.results import report_of
from medstress.api.run import Run
from medstress.cli.display import print_table
from medstress.cli.fitting import Shape
from medstress.cli.going_on import command_again, raised, reached
from medstress.cli.screen import Screen, screen, titled
from medstress.cli.streams import one_line
from medstress.cli.verdicts import decision_tables, exit_code
from medstress.core.errors import UsageError
from medstress.files.writing import write_text
from medstress.metrics.unreadable import victims_unread
from medstress.results.formats import plural
from medstress.results.load import StoredRun
from medstress.results.names import Names, warnings_of
from medstress.results.root import root_line
from medstress.results.rows import trial_rows
from medstress.results.table import Table
from medstress.store.shards import shard_of
from medstress.summary.summary import summarise_run
from medstress.summary.verdict import sentences_of

_MOST_WARNINGS = 12
"""Warnings that are printed before the tables."""


def show_run(finished: Run) -> int:
    """Open a run and `show` it."""
    with finished.opened() as stored:
        return show(stored)


def show(stored: StoredRun, *, wide: bool = False) -> int:
    """Print verdict, warnings and tables; return 1 if more trials failed than the experiment
    allows, or if no answer of a victim could be read, and else 3 if a criterion is missed.

    Args:
        stored: the run.
        wide: whether all columns of all tables are printed, however wide they get.
    """
    from medstress.metrics.sentences.surrogates import name_lines
    from medstress.report.criteria import verdict
    from medstress.report.tuning import tuning_lines

    summary, out = summarise_run(stored), screen()
    if sentence := verdict(summary):
        out.say(sentence)
    print_first(summary, out, wide=wide)
    if wide:
        for table in wide_tables(summary):
            print_table(table)
    else:
        _show_short(summary, out)
    for line in name_lines(summary):
        out.say(line)
    for line in tuning_lines(summary["tuning"]) if "tuning" in summary else ():
        out.say(line)
    _show_end(stored, summary, out)
    unread = bool(victims_unread(summary))  # the warnings name the victims
    allowed = stored.manifest["config"]["experiment"]["max_failed"]
    faults = max(print_failures(stored, summary, allowed), int(unread))
    out.say(root_line(summary))
    return exit_code(summary, faults)


def wide_tables(summary: dict[str, Any]) -> Iterator[Table]:
    """Yield the tables of a summary with all columns, control arms in rows of their own."""
    from medstress.report.controls import controls_table
    from medstress.report.evidence import evidence_table
    from medstress.report.probes import probes_table
    from medstress.report.sections import by_seed_and_pooled, headline_rows, summary_table
    from medstress.report.sentence_scores import score_table
    from medstress.report.training import comparison

    rows = by_seed_and_pooled(summary)
    yield summary_table(by_seed_and_pooled(summary, with_controls=True))
    found = [controls_table(headline_rows(summary)), evidence_table(rows), score_table(rows)]
    found.append(probes_table(by_seed_and_pooled(summary, with_controls=True)))
    found += decision_tables(summary)
    if "training" in summary:
        found.append(comparison(summary["training"]))
    yield from filter(None, found)


def _show_short(summary: dict[str, Any], out: Screen) -> None:
    """Print one small table for each victim, data set and group, then what else there is."""
    from medstress.report.glance import (
        FIRM,
        LOSS,
        criteria_table,
        glance,
        training_table,
    )
    from medstress.report.passages import short_gain_table
    from medstress.report.worst import worst_slices_in_short

    names, found = Names(**summary.get("names") or {}), glance(summary)
    if not found.places:
        out.say("No trial has ended yet, so there is nothing to measure.")
    for place in found.places:
        out.print_lines(titled(out.look.fitted(place.title)))
        out.show(place.arms, Shape(bar=LOSS, brief=place.brief))
        for table in place.beside:
            out.print_lines(titled(table.caption))
            out.show(table)
        for line in place.lines:
            out.say(line)
    if found.n_left:
        out.say(f"and {plural(found.n_left, 'attack')} that take less: summary --wide has all")
    tables = []
    if (summary.get("passages") or {}).get("gains"):
        tables.append(short_gain_table(summary["passages"]))
    if judged := summary["requirements"]:
        tables.append(criteria_table(judged, names))
    n_left = 0
    if summary.get("slicing"):
        worst = worst_slices_in_short(summary["slicing"], names)
        tables += worst.tables
        n_left = worst.n_left
    if "training" in summary and (compared := training_table(summary["training"], names)):
        tables.append(compared)
    for table in tables:
        out.print_lines(titled(out.look.fitted(table.caption)))
        out.show(table, Shape(firm=FIRM))
    if n_left:
        out.say(f"and {plural(n_left, 'worst slice')} that lose less: summary --wide has all")
    print()


def _show_end(stored: StoredRun, summary: dict[str, Any], out: Screen) -> None:
    """Say what was spent, and whether the run is complete."""
    from medstress.experiment.file.config import LIMITS

    usd = summary["performance"]["usd"]
    if usd is not None:
        print(f"spent: ${usd:,.4f}; by victim: summary --json, performance.spending")
    settings = stored.manifest["config"]["experiment"]
    if (shard := shard_of(stored.manifest)) is not None:
        n, planned = stored.n_trials(), summary["experiment"]["n_planned"]
        out.say(f"shard {shard}: {n:,} of {planned:,} trials; merge it with the others")
    elif not summary["experiment"]["complete"]:
        limits = reached(settings, summary["performance"])
        named = limits or [key for key in LIMITS if key in settings]
        more = f", with a higher {' or '.join(named)}" if named else ""
        print(f"not complete; run the same command again{more} to resume")
        if limits:
            what = " and ".join(f"{key} = {settings[key]:g}" for key in limits)
            again = command_again(stored.manifest.get("command", ""), *raised(settings, limits))
            print(f"stopped by {what}" + (f"; next: {again}" if again else ""))


def print_first(summary: dict[str, Any], out: Screen, *, wide: bool) -> None:
    """Print what is to be read before any number.

    Args:
        summary: of a run.
        out: where.
        wide: whether all warnings are printed, and what each control changes.
    """
    first, *others = sentences_of(summary)
    out.say(first, "bold")
    for sentence in others:
        out.say(sentence)
    for sentence in summary["headlines"] if wide else ():
        out.say(sentence)
    warnings = warnings_of(summary)
    shown = warnings if wide else warnings[:_MOST_WARNINGS]
    for warning in shown:
        out.say(f"! {warning}", "yellow")
    if len(warnings) > len(shown):
        more = plural(len(warnings) - len(shown), "more warning")
        out.say(f"! and {more}: summary --wide")


def print_failures(stored: StoredRun, summary: dict[str, Any], allowed: int) -> int:
    """Print why trials failed; return 1 if more failed than the experiment allows."""
    from medstress.report.overview import failure_lines, n_failed

    failed = n_failed(summary)
    for line in failure_lines(trial_rows(stored), summary):
        print(one_line(line))
    if failed <= allowed:
        return 0
    again = command_again(stored.manifest.get("command", ""), "--retry-failed") or "--retry-failed"
    print(
        f"{failed} trials failed (max_failed = {allowed}); to list them: medstress export "
        f"{stored.folder} --table trials --to trials.csv; to run them again: {again}"
    )
    return 1


def write_report(stored: StoredRun, out: str | None) -> Path:
    """Write the report of a run, by default into its folder, and return its path."""
    return write_page(report_of(stored), Path(out) if out else stored.folder / "report.html")


def write_page(text: str, page: Path) -> Path:
    """Write a page and return its path."""
    try:
        write_text(page, text)
    except OSError as error:
        raise UsageError(f"cannot write {page}: {error.strerror}; give another --out") from error
    return page
