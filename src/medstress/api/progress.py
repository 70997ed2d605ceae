"""Progress of a run in a notebook: one line with a bar, redrawn in place."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from markupsafe import Markup

from medstress.core.words import plural
from medstress.engine.progress import Progress, Watcher
from medstress.report.formats import clean

_REFRESH_SECONDS = 0.5
"""Seconds between drawings: each is a message to the browser."""


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, which shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def counts_line(counts: Progress, seconds: float) -> str:
    """Return the counts of a run in one line.

    Args:
        counts: so far; items count once for every attack, model and seed.
        seconds: since its trials began.

    >>> counts_line(Progress(n_planned=9, n_done=5, n_computed=10, n_flipped=2, n_eligible=5), 2.0)
    '5 of 9 items, lost 2 of 5, 5.0 queries/s, about 2 s left'
    >>> counts_line(Progress(n_eligible=4, n_harmless=3, n_computed=10, usd=0.5, n_failed=1), 2.0)
    '0 of 0 items, lost 0 of 4 (harmless edits 0 of 3), 5.0 queries/s, $0.50, 1 failed'
    """
    n_done = counts.n_done + counts.n_skipped
    parts = [f"{n_done:,} of {plural(counts.n_planned, 'item')}"]
    if counts.n_eligible or counts.n_harmless:
        beside = f" (harmless edits {counts.n_harmless_lost:,} of {counts.n_harmless:,})"
        lost = f"lost {counts.n_flipped:,} of {counts.n_eligible:,}"
        parts.append(lost + (beside if counts.n_harmless else ""))
    parts.append(f"{counts.n_computed / max(seconds, 1e-9):,.1f} queries/s")
    n_left = counts.n_planned - n_done
    if n_left > 0 and counts.n_done and not counts.stopped and seconds >= _REFRESH_SECONDS:
        hours, rest = divmod(round(seconds / counts.n_done * n_left), 3600)
        minutes = f"{rest // 60} min" if rest >= 60 else f"{rest} s"
        parts.append(f"about {f'{hours} h ' if hours else ''}{minutes} left")
    if counts.usd:
        parts.append(f"${counts.usd:,.2f}")
    if counts.n_failed:
        parts.append(f"{counts.n_failed:,} failed")
    return ", ".join(parts)


@contextmanager
def watching(watcher: Watcher | None, quiet: bool | None) -> Iterator[Watcher]:
    """Yield what watches a run: a bar in a notebook, else nothing.

    Args:
        watcher: the caller's own, which is then the one.
        quiet: True for no bar; None shows one in a notebook; False also writes lines elsewhere.
    """
    if watcher is not None or quiet or (quiet is None and not in_notebook()):
        yield watcher or Watcher()
        return
    shown = _Bar() if in_notebook() else _Lines()
    try:
        yield Watcher(
            note=shown.note,
            announce=shown.announce,
            vectors=shown.vectors,
            progress=shown.progress,
        )
    finally:
        shown.end()


class _Lines:
    """Writes what is prepared and announced to stderr, and the counts at the end."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._drawn = float("-inf")
        self._counts: Progress | None = None

    def note(self, what: str) -> None:
        """Show what is being prepared."""
        self.draw(what, None)

    def announce(self, what: str) -> None:
        """Say what the user should read before it costs money; it stays."""
        print(clean(what), file=sys.stderr)

    def vectors(self, done: int, total: int) -> None:
        """Show how many vectors are computed."""
        if self._is_due():
            self.draw(f"vectors {done:,} of {total:,}", done / max(total, 1))

    def progress(self, counts: Progress) -> None:
        """Show how many trials have ended."""
        if self._counts is None:
            self._started = time.perf_counter()
        self._counts = counts
        if self._is_due():
            self.draw(*self._trials(counts))

    def end(self) -> None:
        """Show the last state; nothing more is awaited, even if trials are left."""
        if self._counts is not None:
            self.draw(*self._trials(self._counts))

    def draw(self, text: str, share: float | None) -> None:
        """Show one line; `share` is None where the end is not known."""
        print(clean(text), file=sys.stderr)

    def _trials(self, counts: Progress) -> tuple[str, float]:
        done = counts.n_done + counts.n_skipped
        line = counts_line(counts, time.perf_counter() - self._started)
        return line, done / max(counts.n_planned, 1)

    def _is_due(self) -> bool:
        now = time.perf_counter()
        if now - self._drawn < _REFRESH_SECONDS:
            return False
        self._drawn = now
        return True


class _Bar(_Lines):
    """Draws a bar below the cell; no widgets, so that every notebook can show it."""

    def __init__(self) -> None:
        super().__init__()
        shown: Any = import_module("IPython.display")
        self._html = shown.HTML
        self._place = shown.display(shown.HTML(""), display_id=True)

    def draw(self, text: str, share: float | None) -> None:
        """Draw the bar anew."""
        value = Markup("") if share is None else Markup(' value="{:.4f}"').format(share)
        drawn = Markup('<progress max="1"{} style="width:200px"></progress> <span>{}</span>')
        self._place.update(self._html(drawn.format(value, clean(text))))
