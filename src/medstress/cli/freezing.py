"""`medstress freeze`: keep the edits of a run, to ask them of other victims."""

from __future__ import annotations

import argparse
from pathlib import Path

from medstress.api.results import Run
from medstress.cli.streams import one_line
from medstress.core.errors import UsageError
from medstress.results.formats import plural
from medstress.results.freezing import freeze
from medstress.results.tasks_of_others import how_to_ask, write_tasks
from medstress.transfer.universal_set import write_universal

OWN = "medstress"
"""The form that medstress reads; the others are tasks of other tools."""


def freeze_cli(args: argparse.Namespace) -> int:
    """Run `medstress freeze`."""
    chosen = {"sample": args.sample, "sample_seed": args.sample_seed, "victim": args.victim}
    with Run(args.folder).opened() as stored:
        if args.universal is not None and args.form != OWN:
            raise UsageError("--universal writes a set of medstress's own: leave out --as")
        if args.universal is not None:
            found = write_universal(stored, Path(args.to), args.universal, **chosen)
        elif args.form == OWN:
            found = freeze(stored, Path(args.to), **chosen)
        else:
            found, tasks = write_tasks(stored, Path(args.to), args.form, **chosen)
            print(f"tasks: {', '.join(tasks)}")
            print(f"ask them with: {how_to_ask(args.form, Path(args.to), tasks)}")
    for note in found.notes:
        print(f"! {one_line(note)}")
    print(
        f"{plural(found.n_items, 'item')} with {plural(found.n_queries, 'edit')} of "
        f"{plural(found.n_trials, 'trial')}, {found.n_flipped:,} of them flipped "
        f"({one_line(', '.join(found.arms))}): {args.to}"
    )
    return 0
