"""`medstress init`, and `medstress run --data FILE --model NAME`: experiments without a file."""

from __future__ import annotations

import argparse
import shlex
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

from medstress.cli.first_flags import choices_of, used_flags
from medstress.cli.first_questions import Asker
from medstress.core.errors import UsageError
from medstress.experiment.file.sources import Source
from medstress.experiment.first.attackable import count_attackable
from medstress.experiment.first.compose import Composed, compose
from medstress.experiment.first.model_check import check_model
from medstress.files.writing import Access, write_text


def given_experiment(args: argparse.Namespace) -> Path | Source:
    """Return the experiment of `medstress run`: its file, or what --data and --model stand for.

    Raises:
        UsageError: neither or both are given, or a value does not fit.
        DataError: a bad row.
    """
    used = used_flags(args)
    if args.experiment is None and not used:
        raise UsageError(
            "run: expected EXPERIMENT.toml, or --data FILE --model NAME; to write a first "
            "experiment file: medstress init"
        )
    if args.experiment is None:
        return compose(choices_of(args), overrides=args.set).source
    if used:
        raise UsageError(
            f"run: give EXPERIMENT.toml or {used[0]}, not both; to change a key of the file: "
            "--set TABLE.KEY=VALUE"
        ).with_command(shlex.join(["medstress", "run", str(args.experiment)]))
    return Path(args.experiment)


def init_cli(args: argparse.Namespace) -> int:
    """Run `medstress init`."""
    path = Path(args.to)
    if not args.to.strip():
        raise UsageError("--to: expected a file, got an empty text")
    choices = None if sys.stdin.isatty() else choices_of(args)
    if path.exists():
        raise UsageError(
            f"--to {path}: it exists already and is never overwritten; choose another name"
        ).with_flag("--to", str(_free(path)))
    if not path.parent.is_dir():
        raise UsageError(
            f"--to {path}: there is no folder {path.parent}; make it, or choose another"
        )
    if others := [each for each in args.set if not each.strip().startswith("dataset.")]:
        raise UsageError(
            f"--set {others[0]!r}: init takes dataset.KEY=VALUE, which says how data are read; "
            "change all else in the file that it writes"
        )
    if choices is None:
        with suppress(ImportError):
            import readline  # noqa: F401 - arrow keys and Tab in the answers
        composed = Asker(args, path.parent).composed()
    else:
        composed = compose(choices, path.parent, args.set)
        if remark := check_model(composed.victim.table, path.parent):
            print(f"! {remark}")
    count_attackable(composed)  # a file is only written if it runs
    _write(composed, path)
    return 0


def _write(composed: Composed, path: Path) -> None:
    try:
        write_text(path, composed.source.text, Access.ORDINARY)
    except OSError as error:
        raise UsageError(f"--to {path}: cannot write it: {error.strerror}") from error
    print(f"data: {composed.data.sentence}")
    print(f"experiment: {path}   next: medstress run {path} --dry-run")


def _free(path: Path) -> Path:
    """Return the first of x-2.toml, x-3.toml, ... that does not exist."""
    names = (path.with_stem(f"{path.stem}-{number}") for number in count(2))
    return next(name for name in names if not name.exists())
