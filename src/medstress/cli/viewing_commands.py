"""The commands that show a run to look at."""

from __future__ import annotations

import argparse

from medstress.cli.flags import Parser


def add_case(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress case`."""
    case = commands.add_parser(
        "case",
        help="one case: what changed, what was sent, what was answered; without ID a list",
        description="Show one trial with everything that the run folder keeps about it: the text "
        "with what was [-removed-] and {+added+}, what was sent to the model, its answers and "
        "scores, the edits that failed before, the attempts of an attacker model.",
    )
    case.add_argument("folder", metavar="DIR")
    case.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="trial id, its beginning, the id that the report shows, or an item id with one attack",
    )
    case.add_argument("--wide", action="store_true", help="list all cases, with all columns")
    case.add_argument("--json", action="store_true", help="as JSON")


def add_view(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress view`."""
    view = commands.add_parser(
        "view",
        help="the report in a browser, with all cases, also while the run goes on",
        description="Open the report from a server on this machine that nobody else can reach. It "
        "has every case of the run, follows a run in progress, and writes no file. Ctrl+C ends it.",
    )
    view.add_argument("folder", metavar="DIR")
    view.add_argument("--port", type=int, default=0, metavar="N", help="default: a free one")
    view.add_argument("--no-browser", action="store_true", help="only print the address")
