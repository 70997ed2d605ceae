"""`medstress compare`: is B worse than A?"""

from __future__ import annotations

import argparse
import json

from medstress.api.compare import compare
from medstress.cli.display import print_table
from medstress.cli.streams import one_line
from medstress.cli.verdicts import MISSED, write_files
from medstress.comparison.tables import cases_of, comparison_table, lines_of, origins_of
from medstress.core.errors import MedstressError
from medstress.results.junit import Case, Outcome

_SUITE = "medstress compare"


def compare_cli(args: argparse.Namespace) -> int:
    """Run `medstress compare`."""
    try:
        found = compare(
            args.folder,
            args.other,
            metric=args.metric,
            margin=args.margin,
            on_undecided=args.on_undecided,
            adjust=args.adjust,
        )
    except MedstressError as error:
        _write_error(args, error)
        raise
    table, sentences = comparison_table(found), [*origins_of(found), *lines_of(found)]
    write_files(args, _SUITE, cases_of(found), sentences, [table])
    if args.json:
        print(json.dumps(found.as_json(), indent=1, allow_nan=False))
    else:
        for line in sentences:
            print(one_line(line))
        print()
        print_table(table)
    return MISSED if found.fails else 0


def _write_error(args: argparse.Namespace, error: MedstressError) -> None:
    name = f"{args.folder} and {args.other}"
    write_files(
        args,
        _SUITE,
        [Case(name=name, outcome=Outcome.ERROR, message=str(error))],
        [f"Nothing could be compared: {error}"],
        [],
    )
