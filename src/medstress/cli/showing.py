"""Show a run on the terminal: what to read first, tables, failures; and write its report."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from medstress.api.results import report_of
from medstress.api.run import Run
from medstress.cli.display import print_table
from medstress.cli.streams import one_line
from medstress.cli.verdicts import decision_tables, exit_code
from medstress.core.errors import UsageError
from medstress.files.writing import write_text
from medstress.metrics.unreadable import victims_unread
from medstress.results.load import StoredRun
from medstress.results.rows import trial_rows
from medstress.summary.summary import summarise_run


def show_run(finished: Run) -> int:
    """Open a run and `show` it."""
    with finished.opened() as stored:
        return show(stored)


def show(stored: StoredRun) -> int:
    """Print verdict, warnings and tables; return 1 if more trials failed than the experiment
    allows, or if no answer of a victim could be read, and else 3 if a criterion is missed."""
    from medstress.experiment.file.config import LIMITS
    from medstress.metrics.sentences.surrogates import name_lines
    from medstress.report.controls import controls_table
    from medstress.report.criteria import verdict
    from medstress.report.evidence import evidence_table
    from medstress.report.overview import decided_sentence
    from medstress.report.sections import by_seed_and_pooled, headline_rows, summary_table
    from medstress.report.sentence_scores import score_table
    from medstress.report.training import comparison
    from medstress.report.tuning import tuning_lines

    summary = summarise_run(stored)
    if sentence := verdict(summary):
        print(one_line(sentence))
    print_first(summary)
    rows = by_seed_and_pooled(summary)
    print_table(summary_table(rows))
    if beside := controls_table(headline_rows(summary)):
        print_table(beside)
    if evidence := evidence_table(rows):
        print_table(evidence)
    if scores := score_table(rows):
        print_table(scores)
    for table in decision_tables(summary):
        print_table(table)
    if "training" in summary and (compared := comparison(summary["training"])):
        print_table(compared)
    for line in name_lines(summary):
        print(one_line(line))
    for line in tuning_lines(summary["tuning"]) if "tuning" in summary else ():
        print(line)
    usd = summary["performance"]["usd"]
    if usd is not None:
        print(f"spent: ${usd:,.4f}; by victim: summary --json, performance.spending")
    settings = stored.manifest["config"]["experiment"]
    if early := summary["experiment"].get("decided"):
        print(decided_sentence(early))
    elif not summary["experiment"]["complete"]:
        limits = [key for key in LIMITS if key in settings]
        raised = f", with a higher {' or '.join(limits)}" if limits else ""
        print(f"not complete; run the same command again{raised} to resume")
    unread = bool(victims_unread(summary))  # the warnings name the victims
    faults = max(print_failures(stored, summary, settings["max_failed"]), int(unread))
    return exit_code(summary, faults)


def print_first(summary: dict[str, Any]) -> None:
    """Print what is to be read before any number."""
    for sentence in summary["headlines"]:
        print(one_line(sentence))
    for warning in summary["warnings"]:
        print(f"! {one_line(warning)}")


def print_failures(stored: StoredRun, summary: dict[str, Any], allowed: int) -> int:
    """Print why trials failed; return 1 if more failed than the experiment allows."""
    failed = sum(row["n_failed"] + row["n_failed_at_baseline"] for row in summary["results"])
    if failed:
        reasons = Counter(row.error for row in trial_rows(stored) if row.error)
        for reason, n in reasons.most_common(3):
            print(f"{n} failed: {one_line(reason)}")
    if failed <= allowed:
        return 0
    print(
        f"{failed} trials failed (max_failed = {allowed}); to list them: medstress export "
        f"{stored.folder} --table trials --to trials.csv; to run them again: --retry-failed"
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
