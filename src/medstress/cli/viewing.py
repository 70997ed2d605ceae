"""Commands that show what a run holds, and share it; also `compare`, `review`, `verify`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from medstress.analyses.run import Run
from medstress.analyses.shown import Decision, Outcome, Table
from medstress.analyses.summary import MISSED, exit_code, summary
from medstress.cli.screen import screen
from medstress.cli.showing import show, write_file, write_report
from medstress.core.errors import MedstressError, StoreError, UsageError
from medstress.core.words import command, plural, quoted
from medstress.experiment.kept_summary import renew_summary
from medstress.report.summary_page import junit_page, markdown_page


def summary_cli(args: argparse.Namespace) -> int:
    """Run `medstress summary`."""
    read = Run.open(Path(args.folder))
    if args.json:
        print(json.dumps(summary(read), indent=1, allow_nan=False))
        code = exit_code(read)
    else:
        code = show(read, wide=args.wide)
        if not args.wide:
            print(f"All tables and columns: {command('summary', args.folder, '--wide')}")
    if args.junit is not None:
        write_file("--junit", args.junit, junit_page(read, None))
    if args.markdown is not None:
        write_file("--markdown", args.markdown, markdown_page(read))
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
    from medstress.api.results import Run as Api

    n = Api(args.folder).export(args.table, args.to)
    print(f"{n} rows: {args.to}")
    return 0


def figures_cli(args: argparse.Namespace) -> int:
    """Run `medstress figures`."""
    from medstress.api.results import Run as Api
    from medstress.report.figures import INDEX, Made, Skipped

    formats = [name.strip() for name in args.format.split(",") if name.strip()]
    if not args.out.strip():
        raise UsageError("--out: expected a folder, got an empty text")
    found = Api(args.folder).figures(args.out, formats, args.paper)
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

    cases, out = Cases(Run.open(Path(args.folder))), screen()
    if args.id is None and args.json:
        print(json.dumps([json_of(cases.line(trial)) for trial in cases.trials], indent=1))
    elif args.id is None:
        print_cases(out.console, cases, wide=args.wide)
    else:
        (case,) = cases.cases([cases.find(args.id)], most_tried=None)
        if args.json:
            print(json.dumps(json_of(case), indent=1))
        else:
            print_case(out.console, case)
    return 0


def view_cli(args: argparse.Namespace) -> int:
    """Run `medstress view`."""
    from medstress.report.view import refuse_port, view

    refuse_port(args.port)
    announce = partial(print, flush=True)
    # Ctrl+C is how it ends: nothing was interrupted.
    with suppress(KeyboardInterrupt):
        view(Path(args.folder), port=args.port, show=not args.no_browser, announce=announce)
    return 0


def compare_cli(args: argparse.Namespace) -> int:
    """Run `medstress compare`."""
    from medstress.analyses.compare import LABELS, fails
    from medstress.api.results import compare
    from medstress.report.summary_page import junit, markdown
    from medstress.report.terminal import print_table

    def write(cases: Sequence[Decision], lines: Sequence[str], tables: Sequence[Table]) -> None:
        suite = "medstress compare"
        if args.junit is not None:
            write_file("--junit", args.junit, junit(suite, cases))
        if args.markdown is not None:
            write_file("--markdown", args.markdown, markdown(suite, lines, tables))

    try:
        comparison = compare(
            args.folder, args.other, factor=args.factor, metric=args.metric, margin=args.margin
        )
    except MedstressError as error:
        name = f"{args.folder} and {args.other}"
        case = Decision(name=name, outcome="error", sentence=str(error))
        write([case], [f"Nothing could be compared: {error}"], [])
        raise
    cases = []
    for row in comparison.deciding:
        outcome: Outcome = "failed" if fails(row.verdict, comparison.margin) else "ok"
        if row.verdict == "undecided" and 2 * row.n_open > row.n_pairs:
            outcome = "error"  # failed calls leave more than half of the pairs open
        name = f"{row.measure}: {', '.join(map(row.labels, LABELS))}"
        cases.append(Decision(name=name, outcome=outcome, sentence=row.sentence))
    lines, tables, out = comparison.lines(), comparison.tables(), screen()
    write(cases, lines, tables)
    if args.json:
        print(json.dumps(comparison.as_json(), indent=1, allow_nan=False))
        return MISSED if comparison.fails else 0
    out.say(lines[0], "bold")
    for table in tables:
        print(flush=True)
        print_table(out.console, table)
    print()
    for line in lines[1:]:
        out.say(line)
    return MISSED if comparison.fails else 0


def review_cli(args: argparse.Namespace) -> int:
    """Run `medstress review`: the review room, its file and back."""
    from medstress.experiment.kept_summary import keep_summary
    from medstress.report.review.pages import export_room, import_answers, routes
    from medstress.report.review.room import disputed_room, make_room
    from medstress.report.review.sample import described
    from medstress.report.view import refuse_port, serve
    from medstress.store.reviews import ReviewStore

    folder, to = Path(args.folder), None if args.export is None else Path(args.export)
    if args.read is not None:
        run = Run.open(folder)
        with ReviewStore(folder) as store:
            n, n_new = import_answers(run, store, Path(args.read))
        keep_summary(folder)
        print(f"{plural(n, 'answer')} read, {n_new} new; next: {command('summary', folder)}")
        return 0
    refuse_port(args.port)
    if args.adjudicate and to is not None:
        raise UsageError("--adjudicate: decisions are made in the served room, without --export")
    if args.adjudicate and (args.sample, args.controls, args.mode) != (None, None, "judge"):
        raise UsageError(
            "--adjudicate: it shows every disagreement of judges; leave out --sample, --controls "
            "and --mode"
        )
    run = Run.open(folder)
    with ReviewStore(folder) as store:
        if args.adjudicate:
            room = disputed_room(run, store)
            print(f"{len(room.cases)} cases on which raters disagree")
        else:
            given = {"sample": args.sample, "seed": args.seed, "controls": args.controls}
            room = make_room(run, store, mode=args.mode, **given)
            print(described(room.body))
            if not room.body["complete"]:
                print("the run is not complete: a later sample may hold other cases")
        if to is not None:
            export_room(room, to)
            back = "FILE.json" if to.suffix == ".html" else to
            again = command("review", folder, "--import", back)
            print(f"room: {quoted(to)}   its answers back: {again}")
            return 0
        with suppress(KeyboardInterrupt):
            serve(routes(room, store), port=args.port, show=not args.no_browser)
    keep_summary(folder)
    print(f"next: {command('summary', folder, '--wide')}")
    return 0


def verify_cli(args: argparse.Namespace) -> int:
    """Run `medstress verify`."""
    from medstress.experiment.audit.verify import verify_folder
    from medstress.experiment.prepare import prepare

    own = None if args.experiment is None else prepare(args.experiment)
    verified = verify_folder(Path(args.folder), root=args.root, own=own)
    if args.json:
        print(json.dumps(verified.as_json(), indent=1))
    elif verified.broken is None:
        print(f"{args.folder}: {'verified' if verified.holds else 'not verified'}")
        for sentence in verified.sentences():
            print(sentence)
    if verified.holds:
        return 0
    refusal = f"is not verified: {'; '.join(verified.doubts())}"
    if verified.broken is not None:
        refusal = f"does not agree: {verified.broken}"
        if (
            args.root is not None
            and verified.broken.expected.lower() == f"root {args.root.lower()}"
        ):
            # What the folder holds may agree with itself.
            refusal = f"{refusal}; next: {command('verify', args.folder)}"
    print(f"medstress: {args.folder} {refusal}", file=sys.stderr)
    return 2
