"""`medstress test`: significance of MedFuzz successes."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from medstress.cli.confirming import confirming
from medstress.cli.display import display
from medstress.cli.screen import screen
from medstress.cli.streams import one_line
from medstress.core.errors import UsageError


def test_cli(args: argparse.Namespace) -> int:
    """Run `medstress test`."""
    from medstress.analyses.run import Run
    from medstress.analyses.significance import SIGNIFICANCE
    from medstress.experiment.asking import run_tests
    from medstress.experiment.kept_summary import keep_summary
    from medstress.experiment.medfuzz_tests import Selection
    from medstress.report.terminal import print_table

    names = ("null", "max_calls", "generator", "adjust")
    changes = {name: getattr(args, name) for name in names} | {"controls": _controls(args.controls)}
    plan: list[str] = []
    with display(quiet=args.quiet, stop=args.stop) as watcher:
        stopped = run_tests(
            Path(args.folder),
            args.experiment,
            Selection(items=tuple(args.item), trial=args.trial),
            {key: value for key, value in changes.items() if value is not None},
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
    for table in tests.tables() if tests else ():
        print_table(out.console, table)
        print()
    for remark in tests.remarks() if tests else ():
        out.say(remark.sentence)
    if stopped is not None:
        out.say(stopped)
    return 0


# Otherwise pytest would collect it as a test in modules that import it.
test_cli.__test__ = False  # type: ignore[attr-defined]


def _controls(given: str | None) -> int | str | None:
    if given is None or given == "adaptive":
        return given
    if not given.isdigit() or int(given) < 1:
        raise UsageError(f"--controls {given}: expected a number from 1, or adaptive")
    return int(given)
