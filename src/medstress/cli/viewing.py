"""Show a run that exists: its summary, report, figures, rows and cases, all of it in a browser."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from medstress.analyses.run import Run as Read
from medstress.analyses.summary import exit_code, summary
from medstress.cli.screen import screen
from medstress.cli.showing import show, write_report, write_verdicts
from medstress.core.errors import StoreError, UsageError
from medstress.core.words import command
from medstress.experiment.kept_summary import renew_summary


def summary_cli(args: argparse.Namespace) -> int:
    """Run `medstress summary`."""
    read = Read.open(Path(args.folder))
    if args.json:
        print(json.dumps(summary(read), indent=1, allow_nan=False))
        code = exit_code(read)
    else:
        code = show(read, wide=args.wide)
        if not args.wide:
            print(f"All tables and columns: {command('summary', args.folder, '--wide')}")
    write_verdicts(read, args)
    with suppress(StoreError):  # it may be read-only
        renew_summary(read)
    return code


def report_cli(args: argparse.Namespace) -> int:
    """Run `medstress report`."""
    folders = [Path(folder) for folder in args.folders]
    page = write_report(folders, args.out)
    n = f" ({len(folders)} runs side by side)" if len(folders) > 1 else ""
    print(f"report: {page}{n}")
    return 0


def export_cli(args: argparse.Namespace) -> int:
    """Run `medstress export`."""
    from medstress.api.results import Run

    n = Run(args.folder).export(args.table, args.to)
    print(f"{n} rows: {args.to}")
    return 0


def figures_cli(args: argparse.Namespace) -> int:
    """Run `medstress figures`."""
    from medstress.api.results import Run
    from medstress.report.figures import INDEX, Made, Skipped

    formats = [name.strip() for name in args.format.split(",") if name.strip()]
    if not args.out.strip():
        raise UsageError("--out: expected a folder, got an empty text")
    found = Run(args.folder).figures(args.out, formats, args.paper)
    for each in found:
        if isinstance(each, Made):
            print(f"{each.title}: {', '.join(sorted(each.files))}")
            for remark in each.remarks:
                print(f"warning: {each.title}: {remark}", file=sys.stderr)
    for each in found:
        if isinstance(each, Skipped):
            print(f"not made: {each.title}: {each.reason}", file=sys.stderr)
    print(f"figures: {Path(args.out) / INDEX}")
    return 0


def case_cli(args: argparse.Namespace) -> int:
    """Run `medstress case`: one case, or without an id the list of them."""
    from medstress.report.case_text import print_case, print_cases
    from medstress.report.cases import Cases, json_of

    run = Read.open(Path(args.folder))
    cases, out = Cases(run), screen()
    if args.id is None:
        if args.json:
            print(json.dumps([json_of(cases.line(trial)) for trial in cases.trials], indent=1))
            return 0
    else:
        (case,) = cases.cases([cases.find(args.id)], most_tried=None)
        if args.json:
            print(json.dumps(json_of(case), indent=1))
            return 0
    if args.id is None:
        print_cases(out.console, cases, wide=args.wide)
    else:
        print_case(out.console, case)
    return 0


def view_cli(args: argparse.Namespace) -> int:
    """Run `medstress view`."""
    from medstress.report.local_pages import refuse_port
    from medstress.report.view import view

    refuse_port(args.port)
    announce = partial(print, flush=True)
    # Ctrl+C is how it ends: nothing was interrupted.
    with suppress(KeyboardInterrupt):
        view(Path(args.folder), port=args.port, show=not args.no_browser, announce=announce)
    return 0
