"""Show progress on stderr and tables on stdout; respects terminals, NO_COLOR and --quiet."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from medstress.api.progress import counts_line
from medstress.cli.stopping import Stopping
from medstress.cli.streams import one_line, plain_stream
from medstress.engine.progress import Progress as Counts
from medstress.experiment.prepare import Watcher

_REFRESH_SECONDS = 0.25
"""Seconds between drawings; each takes 1 to 2 ms of processor time."""


class _Remaining(TimeRemainingColumn):
    """The time that is left; nothing once a limit has ended the run before its last trial."""

    def render(self, task: Task) -> Text:
        return Text("") if task.fields.get("limited") else super().render(task)


@contextmanager
def display(*, quiet: bool, stop: Stopping) -> Iterator[Watcher]:
    """Yield a watcher that draws progress bars on a terminal, and none elsewhere."""
    console = Console(file=plain_stream(sys.stderr))

    def announce(what: str) -> None:
        # Also in a pipe and with --quiet: the user must see what is about to cost money.
        console.print(one_line(what), markup=False, highlight=False, soft_wrap=True)

    if quiet or not console.is_terminal:
        yield Watcher(
            announce=announce,
            progress=lambda _: stop.check(),
            drain_seconds=stop.drain_seconds,
        )
        return
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
        _Remaining(),
        console=console,
        refresh_per_second=1 / _REFRESH_SECONDS,
        transient=True,
    ) as bars:
        yield replace(_watcher(bars, stop), announce=announce)


def _watcher(bars: Progress, stop: Stopping) -> Watcher:
    task = bars.add_task("preparing", total=None, counts="", limited=False)
    started = time.perf_counter()
    drawn = 0.0

    def note(what: str) -> None:
        bars.update(task, description=one_line(what), total=None, completed=0)

    def vectors(done: int, total: int) -> None:
        bars.update(task, completed=done, total=total)

    def progress(counts: Counts) -> None:
        nonlocal drawn
        stop.check()
        now = time.perf_counter()
        if now - drawn < _REFRESH_SECONDS:
            return
        drawn = now
        line = counts_line(counts, now - started)
        done = counts.n_done + counts.n_skipped
        bars.update(task, limited=counts.stopped)
        bars.update(task, description="trials", completed=done, total=counts.n_planned, counts=line)

    return Watcher(note=note, vectors=vectors, progress=progress, drain_seconds=stop.drain_seconds)
