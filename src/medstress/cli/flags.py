"""The parser of every command, and the flags that commands share."""

from __future__ import annotations

import argparse
from typing import Any


class Parser(argparse.ArgumentParser):
    """Reports an error in one sentence instead of printing the whole usage."""

    def __init__(self, **settings: Any) -> None:
        # For every command: `--fre` must not delete a run.
        super().__init__(**{**settings, "allow_abbrev": False})

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise a `UsageError`, so that one place prints all errors."""
        from medstress.core.errors import UsageError

        raise UsageError(f"{message} (see: {self.prog} --help)")


def run_flags(run: Parser) -> None:
    """Add the options of commands that ask a victim."""
    run.add_argument(
        "--fresh", action="store_true", help="delete what the folder holds and restart"
    )
    run.add_argument("--retry-failed", action="store_true", help="run failed trials again")
    experiment_flags(run)
    run.add_argument(
        "--dry-run", action="store_true", help="check everything and print what it would cost"
    )
    run.add_argument("--quiet", action="store_true", help="no progress display")


def verdict_flags(command: argparse.ArgumentParser) -> None:
    """Add the options of commands that write verdicts for continuous integration."""
    command.add_argument("--junit", metavar="FILE", help="write the verdicts as JUnit XML")
    command.add_argument(
        "--markdown",
        metavar="FILE",
        help="write the verdicts as Markdown; an existing file is replaced",
    )


def experiment_flags(command: argparse.ArgumentParser) -> None:
    """Add the options of commands that read an experiment and its data."""
    command.add_argument("--limit", type=int, metavar="N", help="at most N items of each data set")
    settings_flag(command)


def check_limit(args: argparse.Namespace) -> None:
    """Check the value of --limit.

    Raises:
        UsageError: it is below 1.
    """
    from medstress.core.errors import UsageError

    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit: expected at least 1, got {args.limit}")


def settings_flag(command: argparse.ArgumentParser) -> None:
    """Add --set."""
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        help="change a key: table.key=v for every entry, table.NAME.key=v for one (repeatable)",
    )
