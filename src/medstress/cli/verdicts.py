"""Verdicts of a run: the line that comes first, the exit code, `--junit` and `--markdown`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from medstress.core.errors import UsageError
from medstress.files.writing import Access, write_text
from medstress.report.criteria import (
    COMPLETE,
    cases,
    faults,
    misses,
    requirements_table,
    verdict,
    worst_table,
)
from medstress.report.overview import command, state_lines, what_was_run
from medstress.report.sections import by_seed_and_pooled, summary_table
from medstress.results.junit import Case, Outcome, junit
from medstress.results.load import StoredRun
from medstress.results.markdown import markdown_page
from medstress.results.names import warnings_of
from medstress.results.root import root_sentences
from medstress.results.table import Table
from medstress.running.criteria import KEY
from medstress.store.unverified import noted
from medstress.summary.summary import summarise_run
from medstress.summary.verdict import sentences_of

MISSED = 3
"""Exit code of a run that misses a criterion."""


def decision_tables(summary: Mapping[str, Any]) -> list[Table]:
    """Return the tables of criteria and of the worst slices, where there are any."""
    found = [requirements_table(judged)] if (judged := summary["requirements"]) else []
    slicing = summary.get("slicing")
    return [*found, worst_table(slicing)] if slicing else found


def exit_code(summary: Mapping[str, Any], code: int) -> int:
    """Return the exit code: that of faults goes first, then that of a missed criterion."""
    return code or (MISSED if misses(summary) else 0)


def judged_code(stored: StoredRun) -> int:
    """Return the exit code of a run that was judged; 0 without criteria, whatever became of it."""
    summary = summarise_run(stored)
    if not summary["requirements"]:
        return 0
    allowed = stored.manifest["config"]["experiment"]["max_failed"]
    found = [case for case in faults(summary, allowed) if case.name != COMPLETE]
    return exit_code(summary, int(any(case.outcome is Outcome.ERROR for case in found)))


def write_verdicts(stored: StoredRun, args: argparse.Namespace) -> None:
    """Write the files of `--junit` and `--markdown`.

    Raises:
        UsageError: a file cannot be written.
    """
    if args.junit is None and args.markdown is None:
        return
    summary = summarise_run(stored)
    name = f"medstress {summary['experiment']['name']}"
    allowed = stored.manifest["config"]["experiment"]["max_failed"]
    sentence = verdict(summary) or "The experiment has no criteria ([[require]])."
    tables = [*decision_tables(summary), summary_table(by_seed_and_pooled(summary))]
    write_files(
        args,
        name,
        cases(summary, allowed),
        [
            sentence,
            *sentences_of(summary),
            *(f"Warning: {each}" for each in warnings_of(summary)),
            *_about(stored, summary),
        ],
        tables,
    )


def _about(stored: StoredRun, summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a model card says beside numbers: of what, within which limits, how to repeat."""
    manifest, experiment = stored.manifest, summary["experiment"]
    for label, known in manifest["victims"].items():
        yield f"{label}: {known['model']}, weights or code {known['model_hash']}."
    yield what_was_run(summary, summary["pooled"])
    yield " ".join(state_lines(summary))
    if fixed := manifest.get(KEY):
        began = experiment["started"]
        yield f"Criteria were fixed before the first query (run begun {began}): {fixed['hash']}."
    yield (
        "This speaks of the attacks, items and budgets listed here and of no others: another "
        "attack may take more."
    )
    yield from root_sentences(summary)
    yield f"Fingerprint of the experiment: {experiment['fingerprint']}."
    if (repeat := command(manifest)) is not None:
        yield f"Repeated by: {repeat}"


def write_files(
    args: argparse.Namespace,
    name: str,
    judged: Sequence[Case],
    sentences: Sequence[str],
    tables: Sequence[Table],
) -> None:
    """Write cases as JUnit XML and sentences with tables as Markdown, where flags ask for them.

    Raises:
        UsageError: a file cannot be written.
    """
    if args.junit is not None:
        _write("--junit", args.junit, junit(name, judged, noted()) + "\n")
    if args.markdown is not None:
        _write("--markdown", args.markdown, markdown_page(name, sentences, tables))


def _write(flag: str, file: str, text: str) -> None:
    try:
        write_text(Path(file), text, Access.ORDINARY)
    except OSError as error:
        raise UsageError(f"{flag} {file}: cannot write it: {error.strerror}") from error
