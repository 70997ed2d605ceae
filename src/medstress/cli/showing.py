"""Show a run on the terminal, how to go on with it, and write the files of verdicts."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.analyses.names import capital
from medstress.analyses.run import Run
from medstress.analyses.success import FAIL_AGAIN, fails_again
from medstress.analyses.summary import PERFORMANCE, exit_code
from medstress.cli.screen import screen
from medstress.core.errors import UsageError
from medstress.core.outcomes import Verdict
from medstress.core.words import command
from medstress.files.writing import write_text
from medstress.report.summary_page import print_summary
from medstress.report.terminal import print_table
from medstress.store.shards import shard_of

if TYPE_CHECKING:
    from medstress.analyses.summary import Performance
    from medstress.experiment.dry_run import DryRun


_ROOM = 2
"""A limit that stopped a run is proposed so many times as high."""


def reached(settings: Mapping[str, Any], cost: Performance) -> list[str]:
    """Return the limits that a run has reached.

    Args:
        settings: the experiment's `[experiment]` table.
        cost: what the run has used up.
    """
    used = {
        "max_usd": cost.usd or 0.0,
        "max_queries": cost.calls,
        "max_tokens": sum(paid.tokens_in + paid.tokens_out for paid in cost.spending),
        "max_seconds": cost.wall_seconds,
    }
    limits = {key: settings.get(key) for key in used}
    return [
        key
        for key, limit in limits.items()
        if isinstance(limit, int | float) and used[key] >= limit
    ]


def raised(settings: Mapping[str, Any], limits: Sequence[str]) -> list[str]:
    """Return the flags that raise limits."""
    return [
        word for key in limits for word in ("--set", f"experiment.{key}={settings[key] * _ROOM:g}")
    ]


def run_again(folder: Path, *flags: str) -> str:
    """Return the command that goes on with a run: this process's own, if it is a run.

    A folder's own text is never part of it, because anyone may have written it.

    >>> run_again(Path("runs/a"), "--retry-failed")
    'medstress run EXPERIMENT.toml --out runs/a --retry-failed'
    """
    own = command_again(shlex.join(sys.argv), *flags) if len(sys.argv) > 1 else None
    return own or command("run", "EXPERIMENT.toml", "--out", folder, *flags)


def command_again(began: str, *flags: str) -> str | None:
    """Return the command that began a run with further flags; None if it was no `medstress run`.

    >>> command_again("medstress run a.toml --set experiment.max_usd=1", "--set",
    ...               "experiment.max_usd=2")
    'medstress run a.toml --set experiment.max_usd=2'
    >>> command_again("medstress run a.toml --fresh", "--retry-failed")
    'medstress run a.toml --retry-failed'
    """
    words = shlex.split(began)[1:]
    if words[:1] != ["run"]:
        return None
    keys = {flag.partition("=")[0] for flag in flags if "=" in flag}
    kept: list[str] = []
    given = iter(word for word in words if word not in ("--fresh", "--retry-failed"))
    for word in given:
        if word == "--set":
            value = next(given, "")
            kept += [] if value.partition("=")[0] in keys else [word, value]
        elif word.removeprefix("--set=").partition("=")[0] not in keys:
            kept.append(word)
    return shlex.join(["medstress", *kept, *flags])


_MOST_REASONS = 3
"""Reasons of failures that are printed."""


def show(run: Run, *, wide: bool = False) -> int:
    """Print the verdict, tables and warnings of a run, and how to go on; return the exit code.

    Args:
        run: the run.
        wide: whether all tables are printed with all columns, and all warnings.
    """
    out = screen()
    print_summary(out.console, run, wide=wide)
    for line in (*_failures(run), *_going_on(run)):
        out.say(line)
    return exit_code(run)


def _failures(run: Run) -> Iterator[str]:
    """Say why trials failed, and how to run them again."""
    reasons = Counter(t.note for t in run.trials if t.verdict is Verdict.FAILED)
    allowed = int(run.manifest["config"]["experiment"].get("max_failed") or 0)
    if reasons.total() > allowed:
        yield f"{reasons.total():,} trials failed (max_failed = {allowed:,})"
    for reason, n in reasons.most_common(_MOST_REASONS):
        yield f"{n:,} failed: {reason}"
    if reasons:
        if fails_again(reasons):
            yield f"{capital(FAIL_AGAIN)}."
        yield f"To run them again: {run_again(run.folder.path, '--retry-failed')}"


def _going_on(run: Run) -> Iterator[str]:
    """Say which limit stopped a run, and how to go on with it."""
    cost, settings = run.of(PERFORMANCE), run.manifest["config"]["experiment"]
    if (shard := shard_of(dict(run.manifest))) is not None:
        n, planned = len(run.trials), run.manifest["n_planned"]
        yield f"Shard {shard}: {n:,} of {planned:,} trials; merge it with the others."
    elif run.is_complete:
        return
    elif cost is not None and (limits := reached(settings, cost)):
        again = run_again(run.folder.path, *raised(settings, limits))
        what = " and ".join(f"{key} = {settings[key]:g}" for key in limits)
        yield f"Stopped by {what}; next: {again}"
    else:
        yield "Not complete: run the same command again to resume."


def show_dry_run(dry: DryRun, notes: Iterable[str] = ()) -> None:
    """Print what a run would cost and could show, and then notes on what it would do."""
    out = screen()
    for line in dry.lines:
        print(line)
    for table in dry.tables():
        print_table(out.console, table)
    for line in (*(remark.sentence for remark in dry.remarks()), *notes):
        out.say(line)


def write_file(flag: str, file: str, text: str) -> None:
    """Write what a flag asks for.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        write_text(Path(file), text, ordinary=True)
    except OSError as error:
        raise UsageError(f"{flag} {file}: cannot write it: {error.strerror}") from error


def write_report(folders: Sequence[Path], out: str | None) -> Path:
    """Write the report of a run, by default into its folder, or of several; return its path."""
    from medstress.report.page import report

    page = Path(out) if out else (folders[0] if len(folders) == 1 else Path()) / "report.html"
    text = report(folders)
    try:
        write_text(page, text)
    except OSError as error:
        raise UsageError(f"cannot write {page}: {error.strerror}; give another --out") from error
    return page
