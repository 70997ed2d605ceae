"""Progress of a run: on a terminal, in a pipe, and with --quiet."""

import io
import sys

import pytest

from medstress.cli import terminal
from medstress.cli.process import Stopping
from medstress.engine.progress import Progress

COUNTS = Progress(
    n_planned=40,
    n_done=9,
    n_skipped=1,
    n_flipped=2,
    n_eligible=5,
    n_harmless=4,
    n_computed=7,
    usd=1,
)
LINE = "10 of 40 trials (1 from earlier), since then lost 2 of 5 (harmless edits 0 of 4), "


class Terminal(io.StringIO):
    """A terminal, as far as Python asks."""

    def isatty(self):
        return True


def plain(stream):
    """What was written; parts of the line that wrap as a whole are tied."""
    return stream.getvalue().replace("\N{NO-BREAK SPACE}", " ")


@pytest.fixture
def shown(monkeypatch):
    """What a run shows of these counts on a stream."""
    monkeypatch.setattr(terminal, "_REFRESH_SECONDS", 1e-3)
    monkeypatch.setattr(terminal, "_LOG_SECONDS", 0.0)
    monkeypatch.setenv("COLUMNS", "160")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def show(stream, *, quiet=False):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            with Stopping(["run"], 1.0).handling(), terminal.display(quiet=quiet) as watcher:
                watcher.note("loading")
                while LINE not in plain(stream) and not quiet:
                    watcher.progress(COUNTS)
                watcher.progress(COUNTS)
                watcher.announce("this costs money")
        return plain(stream)

    return show


def test_a_terminal_shows_items_losses_speed_and_money(shown):
    text = shown(Terminal())
    assert LINE in text
    assert " queries/s, " in text
    assert "$1.00" in text


def test_a_pipe_gets_plain_lines_and_quiet_gets_what_costs_money_alone(shown):
    text = shown(io.StringIO())
    assert text.startswith(LINE)
    assert "\x1b" not in text
    assert shown(io.StringIO(), quiet=True) == "this costs money\n"
    assert shown(Terminal(), quiet=True) == "this costs money\n"
