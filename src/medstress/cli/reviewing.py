"""`medstress review`: the review room, its file, and how far raters agree."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from medstress.cli.display import print_table
from medstress.core.errors import UsageError
from medstress.core.words import plural
from medstress.files.extras import importing
from medstress.results.load import open_run
from medstress.store.review_store import ReviewStore


def review_cli(args: argparse.Namespace) -> int:
    """Run `medstress review`."""
    folder = Path(args.folder)
    if args.read is not None:
        return _import(folder, Path(args.read))
    if args.agreement:
        return _agreement(folder)
    return _room(folder, None if args.export is None else Path(args.export), args)


def _room(folder: Path, to: Path | None, args: argparse.Namespace) -> int:
    from medstress.review.offline import export_room
    from medstress.review.room import disputed_room, make_room
    from medstress.review.routes import routes
    from medstress.review.sample import described
    from medstress.running.kept import keep_summary
    from medstress.serving.local import refuse_port, serve

    refuse_port(args.port)
    if args.adjudicate and to is not None:
        raise UsageError("--adjudicate: decisions are made in the served room, without --export")
    if args.adjudicate and (args.sample, args.controls, args.mode) != (None, None, "judge"):
        raise UsageError(
            "--adjudicate: it shows every disagreement of judges; leave out --sample, --controls "
            "and --mode"
        )
    with _stored(folder) as store:
        with open_run(folder) as run:
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
            print(f"room: {to}   its answers back: medstress review {folder} --import {back}")
            return 0
        with suppress(KeyboardInterrupt):
            serve(routes(room, store), port=args.port, show=not args.no_browser)
    keep_summary(folder)
    print(f"next: medstress review {folder} --agreement")
    return 0


@contextmanager
def _stored(folder: Path) -> Iterator[ReviewStore]:
    """Open the reviews of a folder that holds a run; nothing is made in any other folder."""
    with open_run(folder) as run:
        run.manifest  # noqa: B018 - raises if the run never began
    with ReviewStore(folder) as store:
        yield store


def _import(folder: Path, path: Path) -> int:
    from medstress.review.offline import import_answers
    from medstress.running.kept import keep_summary

    with _stored(folder) as store, open_run(folder) as run:
        n, n_new = import_answers(run, store, path)
    keep_summary(folder)
    print(f"{plural(n, 'answer')} read, {n_new} new; next: medstress summary {folder}")
    return 0


def _agreement(folder: Path) -> int:
    from medstress.report.review import review_section
    from medstress.summary.summary import summarise_run

    with importing("the agreement of raters", "review"):
        from krippendorff import alpha
        from statsmodels.stats.inter_rater import fleiss_kappa
    del alpha, fleiss_kappa
    with open_run(folder) as run:
        tables = review_section(summarise_run(run))
    if not tables:
        raise UsageError(f"{folder}: nobody has judged anything yet; start with: medstress review")
    for table in tables:
        print(f"{table.caption}:")
        print_table(table)
        print()
    return 0
