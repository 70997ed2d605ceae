"""The parser of every command, and the flags that commands share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from medstress.core.errors import UsageError, did_you_mean


class Parser(argparse.ArgumentParser):
    """Reports an error in one sentence instead of printing the whole usage."""

    def __init__(self, **settings: Any) -> None:
        # For every command: `--fre` must not delete a run.
        super().__init__(**{**settings, "allow_abbrev": False})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what a command does not know where its own flags are known."""
        found, strange = super().parse_known_args(args, namespace)
        if strange:
            flags = [name for name in self._option_string_actions if name.startswith("--")]
            near = did_you_mean(strange[0].partition("=")[0], flags)
            self.error(f"unrecognized arguments: {' '.join(strange)}{near}")
        return found, strange

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Refuse `--flag=--`, of which argparse makes an empty list."""
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "expected one argument, got '--'")
        return super()._get_values(action, arg_strings)

    def format_usage(self) -> str:
        """Return the usage, where what a command needs stands without brackets."""
        with self._needed():
            return super().format_usage()

    def format_help(self) -> str:
        """Return the help, with such a usage."""
        with self._needed():
            return super().format_help()

    @contextmanager
    def _needed(self) -> Iterator[None]:
        """Call flags required that the help calls so; the command itself says why it needs them."""
        flags = [each for each in self._actions if "(required)" in (each.help or "")]
        for each in flags:
            each.required = True
        try:
            yield
        finally:
            for each in flags:
                each.required = False

    def error(self, message: str) -> None:  # type: ignore[override]
        """Raise a `UsageError`, so that one place prints all errors."""
        if chosen := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)$", message):
            message += did_you_mean(chosen[1], re.findall(r"[\w-]+", chosen[2]))
        raise UsageError(message).with_command(f"{self.prog} --help")


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
        help="write verdict and numbers as one page of Markdown; an existing file is replaced",
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
        raise UsageError(f"--limit: expected at least 1, got {args.limit}").with_flag(
            "--limit", None
        )


def settings_flag(command: argparse.ArgumentParser) -> None:
    """Add --set."""
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        help="change a key: table.key=v for every entry, table.NAME.key=v for one (repeatable)",
    )


def choice_flags(command: argparse.ArgumentParser) -> None:
    """Add the options that stand for an experiment file."""
    group = command.add_argument_group("an experiment without a file")
    group.add_argument(
        "--data",
        metavar="DATA",
        help="a file, a folder, a data set of `medstress list datasets`, or owner/name on the "
        "Hugging Face hub",
    )
    group.add_argument(
        "--model",
        metavar="NAME",
        help="a folder, a .gguf file, file.py:function, mock, smollm2, the name that the server at "
        "--base-url knows, or a hub id",
    )
    group.add_argument(
        "--base-url", metavar="URL", help="the server's address, e.g. http://127.0.0.1:8000/v1"
    )
    group.add_argument(
        "--api-key-env", metavar="VARIABLE", help="the environment variable with the server's key"
    )
    entities_flag(group)
    group.add_argument(
        "--attack",
        metavar="NAME",
        help="default: entity_substitution on questions, swap_noise on other data",
    )
    group.add_argument(
        "--budget",
        type=int,
        metavar="N",
        help="perturbed queries per item (default: the attack's)",
    )
    reading_flags(group)


def reading_flags(command: argparse._ActionsContainer) -> None:
    """Add the options that say how data are read."""
    command.add_argument(
        "--columns",
        action="extend",
        nargs="+",
        default=[],
        metavar="FIELD=COLUMN",
        help="the data's name of a field, as in question=stem or options=opa,opb,opc (repeatable)",
    )
    command.add_argument(
        "--answer-base",
        type=int,
        choices=(0, 1),
        help="whether answers given as numbers count options from 0 or from 1",
    )


def entities_flag(command: argparse._ActionsContainer) -> None:
    """Add --entities."""
    command.add_argument(
        "--entities",
        metavar="GROUPS",
        help="drugs, diseases, or drugs,diseases (default: both; found in the questions by name)",
    )
