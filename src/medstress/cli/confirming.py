"""Ask for yes before models are asked that a run of one's own names."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from medstress.cli.streams import one_line
from medstress.core.errors import UsageError


def confirming(args: argparse.Namespace) -> Callable[[Sequence[str]], None]:
    """Return what shows who is asked and wants a yes, unless --yes says it.

    Raises:
        UsageError: the answer is another, or nobody is there to give one.
    """

    def confirm(models: Sequence[str]) -> None:
        print("This asks the models of your run again:", file=sys.stderr)
        for line in models:
            print(f"  {one_line(line)}", file=sys.stderr)
        if args.yes:
            return
        if not sys.stdin.isatty():
            raise UsageError(f"{args.command}: nobody is there to say yes: add --yes to ask them")
        print("Go on? (yes/no) ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
            raise UsageError(f"{args.command}: nothing was asked")

    return confirm
