"""`medstress test`: significance of MedFuzz successes."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from medstress.cli.confirming import confirming
from medstress.cli.display import display
from medstress.cli.screen import screen
from medstress.cli.streams import one_line


def test_cli(args: argparse.Namespace) -> int:
    """Run `medstress test`."""
    from medstress.analyses.run import Run
    from medstress.analyses.significance import SIGNIFICANCE
    from medstress.experiment.asking import run_tests
    from medstress.experiment.kept_summary import keep_summary
    from medstress.report.terminal import print_table

    plan: list[str] = []
    with display(quiet=args.quiet, stop=args.stop) as watcher:
        stopped = run_tests(
            Path(args.folder),
            args.experiment,
            replace(watcher, announce=plan.append) if args.dry_run else watcher,
            args.set,
            confirm=confirming(args),
            dry_run=args.dry_run,
        )
    if args.dry_run:
        for line in plan:
            print(one_line(line))
        return 0
    keep_summary(Path(args.folder))
    tests, out = Run.open(Path(args.folder)).of(SIGNIFICANCE), screen()
    for table in [one for one in tests.tables() if one.rows] if tests else ():
        print_table(out.console, table)
        print()
    for remark in tests.remarks() if tests else ():
        out.say(remark.sentence)
    if stopped is not None:
        out.say(stopped)
    return 0


# Otherwise pytest would collect it as a test in modules that import it.
test_cli.__test__ = False  # type: ignore[attr-defined]
