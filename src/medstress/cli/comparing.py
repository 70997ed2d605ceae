"""`medstress compare`: is B worse than A?"""

from __future__ import annotations

import argparse
import json
import sys

from rich.console import Console

from medstress.analyses.compare import LABELS, fails
from medstress.analyses.contrasts import Contrast
from medstress.api.compare import compare
from medstress.cli.look import WIDTH
from medstress.cli.screen import screen
from medstress.cli.streams import plain_stream
from medstress.cli.verdicts import MISSED, write_files
from medstress.core.errors import MedstressError
from medstress.report.old_tables import as_old
from medstress.report.terminal import grid
from medstress.results.junit import Case, Outcome

_SUITE = "medstress compare"


def compare_cli(args: argparse.Namespace) -> int:
    """Run `medstress compare`."""
    try:
        comparison = compare(
            args.folder, args.other, factor=args.factor, metric=args.metric, margin=args.margin
        )
    except MedstressError as error:
        message = str(error)
        case = Case(name=f"{args.folder} and {args.other}", outcome=Outcome.ERROR, message=message)
        write_files(args, _SUITE, [case], [f"Nothing could be compared: {message}"], [])
        raise
    lines, tables = comparison.lines(), comparison.tables()
    cases = [_case(row, comparison.margin) for row in comparison.deciding]
    write_files(args, _SUITE, cases, lines, [as_old(table) for table in tables])
    if args.json:
        print(json.dumps(comparison.as_json(), indent=1, allow_nan=False))
    else:
        first, *rest = lines
        out = screen()
        out.say(first, "bold")
        stream = plain_stream(sys.stdout)
        console = Console(file=stream, width=None if out.console.is_terminal else WIDTH)
        for table in tables:
            print(flush=True)
            console.print(grid(table, wide=console.width > WIDTH))
        print()
        for line in rest:
            out.say(line)
    return MISSED if comparison.fails else 0


def _case(row: Contrast, margin: float | None) -> Case:
    """Return the case of a row that decides.

    It is failed where its verdict is one to stop at, and an error where failed calls leave more
    than half of its pairs open.
    """
    outcome = Outcome.FAILED if fails(row.verdict, margin) else Outcome.OK
    if row.verdict == "undecided" and 2 * row.n_open > row.n_pairs:
        outcome = Outcome.ERROR
    place = ", ".join(map(row.labels, LABELS))
    return Case(name=f"{row.measure}: {place}", outcome=outcome, message=row.sentence)
