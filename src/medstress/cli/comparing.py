"""`medstress compare`: is B worse than A?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from medstress.analyses.compare import LABELS, fails
from medstress.analyses.contrasts import Contrast
from medstress.analyses.shown import Decision, Outcome, Table
from medstress.analyses.summary import MISSED
from medstress.api.compare import compare
from medstress.cli.screen import screen
from medstress.cli.showing import write_file
from medstress.core.errors import MedstressError
from medstress.report.summary_page import junit, markdown
from medstress.report.terminal import print_table

_SUITE = "medstress compare"


def compare_cli(args: argparse.Namespace) -> int:
    """Run `medstress compare`."""
    try:
        comparison = compare(
            args.folder, args.other, factor=args.factor, metric=args.metric, margin=args.margin
        )
    except MedstressError as error:
        message = str(error)
        name = f"{args.folder} and {args.other}"
        case = Decision(name=name, outcome="error", sentence=message)
        _write(args, [case], [f"Nothing could be compared: {message}"], [])
        raise
    lines, tables = comparison.lines(), comparison.tables()
    cases = [_case(row, comparison.margin) for row in comparison.deciding]
    _write(args, cases, lines, tables)
    if args.json:
        print(json.dumps(comparison.as_json(), indent=1, allow_nan=False))
    else:
        first, *rest = lines
        out = screen()
        out.say(first, "bold")
        for table in tables:
            print(flush=True)
            print_table(out.console, table)
        print()
        for line in rest:
            out.say(line)
    return MISSED if comparison.fails else 0


def _write(
    args: argparse.Namespace,
    cases: Sequence[Decision],
    sentences: Sequence[str],
    tables: Sequence[Table],
) -> None:
    """Write the files of `--junit` and `--markdown`.

    Raises:
        UsageError: a file cannot be written.
    """
    if args.junit is not None:
        write_file("--junit", args.junit, junit(_SUITE, cases))
    if args.markdown is not None:
        write_file("--markdown", args.markdown, markdown(_SUITE, sentences, tables))


def _case(row: Contrast, margin: float | None) -> Decision:
    """Return the case of a row that decides.

    It is failed where its verdict is one to stop at, and an error where failed calls leave more
    than half of its pairs open.
    """
    outcome: Outcome = "failed" if fails(row.verdict, margin) else "ok"
    if row.verdict == "undecided" and 2 * row.n_open > row.n_pairs:
        outcome = "error"
    place = ", ".join(map(row.labels, LABELS))
    return Decision(name=f"{row.measure}: {place}", outcome=outcome, sentence=row.sentence)
