"""`medstress run --data FILE --model NAME`: experiments without a file."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from medstress.cli.first_flags import choices_of, used_flags
from medstress.core.errors import FIRST_COMMAND, UsageError
from medstress.experiment.file.reading import Source
from medstress.experiment.first.compose import compose


def given_experiment(args: argparse.Namespace) -> Path | Source:
    """Return the experiment of `medstress run`: its file, or what --data and --model stand for.

    Raises:
        UsageError: neither or both are given, or a value does not fit.
        DataError: a bad row.
    """
    used = used_flags(args)
    if args.experiment is None and not used:
        raise UsageError(
            "run: expected EXPERIMENT.toml, or --data FILE --model NAME, for which --dry-run "
            "prints the experiment file"
        ).with_command(FIRST_COMMAND)
    if args.experiment is None:
        source = compose(choices_of(args), args.set)
        if source.remark:
            print(source.remark, file=sys.stderr)
        return source
    if used:
        raise UsageError(
            f"run: give EXPERIMENT.toml or {used[0]}, not both; to change a key of the file: "
            "--set TABLE.KEY=VALUE"
        ).with_command(shlex.join(["medstress", "run", str(args.experiment)]))
    return Path(args.experiment)
