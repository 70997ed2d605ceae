"""`medstress review`: the review room, its file, and how far raters agree."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from medstress.analyses.review import REVIEW
from medstress.analyses.run import Run
from medstress.cli.screen import screen
from medstress.core.errors import UsageError
from medstress.core.words import command, plural, quoted
from medstress.report.terminal import print_table
from medstress.store.reviews import ReviewStore


def review_cli(args: argparse.Namespace) -> int:
    """Run `medstress review`."""
    folder = Path(args.folder)
    if args.read is not None:
        return _import(folder, Path(args.read))
    if args.agreement:
        return _agreement(folder)
    return _room(folder, None if args.export is None else Path(args.export), args)


def _room(folder: Path, to: Path | None, args: argparse.Namespace) -> int:
    from medstress.experiment.kept_summary import keep_summary
    from medstress.report.local_pages import refuse_port, serve
    from medstress.report.review.offline import export_room
    from medstress.report.review.room import disputed_room, make_room
    from medstress.report.review.routes import routes
    from medstress.report.review.sample import described

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
            room = make_room(
                run,
                store,
                mode=args.mode,
                sample=args.sample,
                seed=args.seed,
                controls=args.controls,
            )
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
    print(f"next: {command('review', folder, '--agreement')}")
    return 0


def _import(folder: Path, path: Path) -> int:
    from medstress.experiment.kept_summary import keep_summary
    from medstress.report.review.offline import import_answers

    run = Run.open(folder)
    with ReviewStore(folder) as store:
        n, n_new = import_answers(run, store, path)
    keep_summary(folder)
    print(f"{plural(n, 'answer')} read, {n_new} new; next: {command('summary', folder)}")
    return 0


def _agreement(folder: Path) -> int:
    review = Run.open(folder).of(REVIEW)
    tables = [] if review is None else [one for one in review.tables() if one.rows]
    if not tables:
        raise UsageError(f"{folder}: nobody has judged anything yet; start with: medstress review")
    for table in tables:
        print_table(screen().console, table)
        print()
    return 0
