"""The command that looks at a run while it goes on."""

from __future__ import annotations

import argparse

from medstress.cli.flags import Parser


def add_watch(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress watch`."""
    watch = commands.add_parser(
        "watch",
        help="a run as it goes on, from another terminal",
        description="Show how far a run is: trials, speed, what each attack takes so far with a "
        "sequence of intervals that holds however often one looks, spending, failures. Nothing is "
        "written and the run is not disturbed. Ends by itself, with exit code 0, once the run is "
        "complete or its process is gone; Ctrl+C ends it sooner, and the run goes on.",
    )
    watch.add_argument("folder", metavar="DIR")
    watch.add_argument("--once", action="store_true", help="print it once")
    watch.add_argument(
        "--every",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="from one look to the next (default: 5)",
    )
