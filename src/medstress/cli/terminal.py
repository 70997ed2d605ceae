"""What commands print: progress on stderr, and a run, its tables and how to go on, on stdout."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from medstress.cli.process import STOPPING, one_line, plain_stream
from medstress.core.errors import UsageError
from medstress.core.words import command
from medstress.core.writing import write_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from medstress.analyses.run import Run
    from medstress.engine.progress import Progress as Counts
    from medstress.engine.progress import Watcher
    from medstress.experiment.dry_run import DryRun

_NARROWEST = 60
_MARKS = "█▏…−–"
"""What a stream has to be able to encode."""


def screen() -> Console:
    """Return standard output as a console; it knows NO_COLOR and terminals without colours."""
    from rich.console import Console

    stream = plain_stream(sys.stdout)
    console = Console(file=stream, highlight=False)
    if not console.is_terminal or _is_ascii(stream):
        # Through what replaces characters that cannot be written, and outlives a closed pipe.
        console = Console(file=sys.stdout, highlight=False, color_system=None)
    if console.is_terminal:
        console.width = max(_NARROWEST, console.width)
    return console


def _is_ascii(stream: object) -> bool:
    """Return whether a stream shows nothing but ASCII for certain."""
    if os.environ.get("TERM") == "dumb":
        return True
    try:
        _MARKS.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


# -- progress --------------------------------------------------------------------------------------

_REFRESH_SECONDS = 0.25
"""Seconds between drawings; each takes 1 to 2 ms of processor time."""
_TIED = "\N{NO-BREAK SPACE}"
_LOG_SECONDS = 60.0
"""Seconds between lines where no terminal is, as in the log of a cluster."""


@contextmanager
def display(*, quiet: bool) -> Iterator[Watcher]:
    """Yield a watcher: a bar on a terminal, elsewhere a line a minute, nothing if quiet."""
    from medstress.engine.progress import Watcher

    stop, stream = STOPPING.get(), plain_stream(sys.stderr)
    bar = None if quiet else _bar(stream)
    began, drawn = None, 0.0

    def announce(what: str) -> None:
        # Also in a pipe and with --quiet: the user must see what is about to cost money.
        if bar is None:
            print(one_line(what), file=stream, flush=True)
        else:
            bar.console.print(one_line(what), markup=False, highlight=False, soft_wrap=True)

    def update(**fields: Any) -> None:
        if bar is not None:
            bar.update(bar.task_ids[0], **fields)

    def progress(counts: Counts) -> None:
        nonlocal began, drawn
        stop.check()
        now = time.perf_counter()
        if began is None:  # nothing was counted yet: models were being loaded
            began = drawn = now
        if quiet or now - drawn < (_REFRESH_SECONDS if bar else _LOG_SECONDS):
            return
        drawn, line = now, counts.line(now - began)
        if bar is None:
            print(line, file=sys.stderr, flush=True)
        done = counts.n_done + counts.n_skipped
        # On a narrow terminal it wraps between its parts.
        tied = line.replace(" ", _TIED).replace(f",{_TIED}", ", ")
        update(description="", completed=done, total=counts.n_planned, counts=tied)

    try:
        yield Watcher(
            announce=announce,
            note=lambda what: update(description=one_line(what), total=None, completed=0),
            vectors=lambda done, total: update(
                completed=done, total=total, counts=f"{done:,} of {total:,} vectors"
            ),
            progress=progress,
            drain_seconds=stop.drain_seconds,
        )
    finally:
        if bar is not None:
            bar.stop()


def _bar(stream: TextIO) -> Progress | None:
    """Return a bar that is drawn; None where no terminal is: then rich stays unread."""
    if not (stream.isatty() or {"FORCE_COLOR", "TTY_COMPATIBLE"} & os.environ.keys()):
        return None
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    bar = Progress(
        TextColumn("{task.description}", markup=False, table_column=Column()),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[counts]}", markup=False, table_column=Column()),
        console=Console(file=stream),
        refresh_per_second=1 / _REFRESH_SECONDS,
        transient=True,
    )
    bar.add_task("preparing", total=None, counts="")
    if not bar.console.is_terminal:
        return None
    bar.start()
    return bar


# -- a run -----------------------------------------------------------------------------------------

_ROOM = 2
"""A limit that stopped a run is proposed so many times as high."""
_MOST_REASONS = 3
"""Reasons of failures that are printed."""


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
    own = [word for word in sys.argv[1:] if word not in ("--fresh", "--retry-failed")]
    return (
        command(*own, *flags)
        if own[:1] == ["run"]
        else command("run", "EXPERIMENT.toml", "--out", folder, *flags)
    )


def show(run: Run, *, wide: bool = False) -> int:
    """Print the verdict, tables and warnings of a run, and how to go on; return the exit code.

    Args:
        run: the run.
        wide: whether all tables are printed with all columns, and all warnings.
    """
    from medstress.analyses.summary import exit_code
    from medstress.report.summary_page import print_summary
    from medstress.report.terminal import say

    out = screen()
    print_summary(out, run, wide=wide)
    for line in (*_failures(run), *_going_on(run)):
        say(out, line)
    return exit_code(run)


def _failures(run: Run) -> Iterator[str]:
    """Say why trials failed, and how to run them again."""
    from medstress.analyses.shown import capital
    from medstress.analyses.success import what_helps
    from medstress.core.outcomes import Verdict

    reasons = Counter(t.note for t in run.trials if t.verdict is Verdict.FAILED)
    allowed = int(run.manifest["config"]["experiment"].get("max_failed") or 0)
    if reasons.total() > allowed:
        yield f"{reasons.total():,} trials failed (max_failed = {allowed:,})"
    for reason, n in reasons.most_common(_MOST_REASONS):
        yield f"{n:,} failed: {reason}"
    if reasons:
        if helps := what_helps(reasons):
            yield f"{capital(helps)}."
        yield f"To run them again: {run_again(run.folder.path, '--retry-failed')}"


def _going_on(run: Run) -> Iterator[str]:
    """Say which limit stopped a run, and how to go on with it."""
    from medstress.analyses.summary import PERFORMANCE
    from medstress.store.shards import shard_of

    cost, settings = run.of(PERFORMANCE), run.manifest["config"]["experiment"]
    used = (
        {}
        if cost is None
        else {
            "max_usd": cost.usd or 0.0,
            "max_queries": cost.calls,
            "max_tokens": sum(paid.tokens_in + paid.tokens_out for paid in cost.spending),
            "max_seconds": cost.wall_seconds,
        }
    )
    limits = [key for key in used if settings.get(key) and used[key] >= settings[key]]
    if (shard := shard_of(dict(run.manifest))) is not None:
        n, planned = len(run.trials), run.manifest["n_planned"]
        yield f"Shard {shard}: {n:,} of {planned:,} trials; merge it with the others."
    elif run.is_complete:
        return
    elif limits:
        again = run_again(run.folder.path, *raised(settings, limits))
        what = " and ".join(f"{key} = {settings[key]:g}" for key in limits)
        yield f"Stopped by {what}; next: {again}"
    else:
        yield "Not complete: run the same command again to resume."


def show_dry_run(dry: DryRun, notes: Iterable[str] = ()) -> None:
    """Print what a run would cost and could show, and then notes on what it would do."""
    from medstress.report.terminal import print_table, say

    out = screen()
    for line in dry.lines:
        print(line)
    for table in dry.tables():
        print_table(out, table, whole="")
    for line in (*(remark.sentence for remark in dry.remarks()), *notes):
        say(out, line)


def write_file(flag: str, file: str | Path, text: str, *, new: bool = False) -> None:
    """Write what a flag asks for.

    Args:
        flag: the flag, for the message.
        file: where.
        text: what.
        new: whether an existing file is kept, because the user may have edited it.

    Raises:
        UsageError: it cannot be written.
    """
    if new and Path(file).exists():
        raise UsageError(f"{flag} {file}: it exists already; choose another name, or remove it")
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
