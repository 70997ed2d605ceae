"""`medstress compare`: is B worse than A?"""

from __future__ import annotations

import argparse
import json

from medstress.api.compare import compare
from medstress.api.nightly import nightly
from medstress.cli.display import print_table
from medstress.cli.streams import one_line
from medstress.cli.verdicts import MISSED, write_files
from medstress.comparison.tables import cases_of, comparison_table, lines_of, origins_of
from medstress.comparison.verdicts import FAIL
from medstress.core.errors import MedstressError, UsageError
from medstress.results.junit import Case, Outcome

_SUITE = "medstress compare"


def compare_cli(args: argparse.Namespace) -> int:
    """Run `medstress compare`."""
    if args.sequential is not None:
        return _nightly_cli(args)
    if args.afresh:
        raise UsageError("--afresh is for the nightly gate: give --sequential STATE too")
    try:
        found = compare(
            args.folder,
            args.other,
            margin=args.margin,
            on_undecided=args.on_undecided or FAIL,
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


def _nightly_cli(args: argparse.Namespace) -> int:
    """Run `medstress compare --sequential`."""
    if args.other is None:
        raise UsageError(
            "--sequential takes two runs: that of the baseline and that of tonight's build"
        )
    if args.unverified:
        raise UsageError(
            "--unverified: the nightly gate keeps what it is fed, so it takes only runs that agree "
            "with their chain"
        )
    if args.adjust is not None:
        raise UsageError("--adjust: the nightly gate has one verdict, so nothing is adjusted")
    if args.on_undecided is not None:
        raise UsageError(
            "--on-undecided: a night of the gate is an alarm or none, so nothing is undecided"
        )
    try:
        gate = nightly(
            args.folder,
            args.other,
            args.sequential,
            margin=args.margin or 0.0,
            afresh=args.afresh,
        )
    except MedstressError as error:
        _write_error(args, error)
        raise
    outcome = Outcome.FAILED if gate.alarm else Outcome.OK
    case = Case(name=f"night {gate.night}", outcome=outcome, message=gate.sentence)
    lines = [gate.sentence, *gate.lines()]
    write_files(args, _SUITE, [case], lines, [])
    if args.json:
        print(json.dumps(gate.as_json(), indent=1, allow_nan=False))
    else:
        for line in lines:
            print(one_line(line))
    return MISSED if gate.alarm else 0


def _write_error(args: argparse.Namespace, error: MedstressError) -> None:
    name = " and ".join(filter(None, (args.folder, args.other)))
    write_files(
        args,
        _SUITE,
        [Case(name=name, outcome=Outcome.ERROR, message=str(error))],
        [f"Nothing could be compared: {error}"],
        [],
    )
