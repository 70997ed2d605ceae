"""`medstress test` and `medstress explain`, which ask the models of a run again."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from medstress.cli.display import display
from medstress.cli.screen import screen
from medstress.cli.streams import one_line
from medstress.core.errors import UsageError


def confirming(args: argparse.Namespace) -> Callable[[Sequence[str]], None]:
    """Return what shows who is asked and wants a yes, unless --yes says it.

    Raises:
        UsageError: the answer is another, or nobody is there to give one.
    """

    def confirm(models: Sequence[str]) -> None:
        print("This asks the models of your run again:", file=sys.stderr)
        for line in models:
            print(f"  {one_line(line)}", file=sys.stderr)
        if args.yes:
            return
        if not sys.stdin.isatty():
            raise UsageError(f"{args.command}: nobody is there to say yes: add --yes to ask them")
        print("Go on? (yes/no) ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().casefold() not in ("y", "yes"):
            raise UsageError(f"{args.command}: nothing was asked")

    return confirm


def test_cli(args: argparse.Namespace) -> int:
    """Run `medstress test`."""
    from medstress.analyses.run import Run
    from medstress.analyses.significance import SIGNIFICANCE
    from medstress.experiment.kept_summary import keep_summary
    from medstress.experiment.run import run_tests
    from medstress.report.terminal import print_table

    folder, plan = Path(args.folder), list[str]()
    with display(quiet=args.quiet, stop=args.stop) as watcher:
        stopped = run_tests(
            folder,
            args.experiment,
            replace(watcher, announce=plan.append) if args.dry_run else watcher,
            args.set,
            confirm=confirming(args),
            dry_run=args.dry_run,
        )
    for line in plan:
        print(one_line(line))
    if args.dry_run:
        return 0
    keep_summary(folder)
    tests, out = Run.open(folder).of(SIGNIFICANCE), screen()
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


def explain_cli(args: argparse.Namespace) -> int:
    """Run `medstress explain`."""
    if not args.trial and not args.all:
        raise UsageError("say what to explain: --trial ID, or --all for all successes")
    if args.limit is not None and (args.trial or args.limit < 1):
        expected = "a number from 1" if not args.trial else "--all with it: it draws successes"
        raise UsageError(f"--limit {args.limit}: expected {expected}")
    if args.max_calls is not None and args.max_calls < 2:
        raise UsageError(
            f"--max-calls {args.max_calls}: expected a number from 2: the prompt itself and the "
            "prompt with everything masked"
        )
    if args.out is not None and Path(args.out).suffix not in (
        ".html",
        ".jsonl",
        ".csv",
        ".parquet",
    ):
        raise UsageError(f"--out {args.out}: the name must end in .html, .jsonl, .csv or .parquet")
    from medstress.experiment.explain.run import Selection, Settings, run_explanations
    from medstress.experiment.kept_summary import keep_summary

    folder, plan = Path(args.folder), list[str]()
    settings = Settings() if args.max_calls is None else Settings(evaluations=args.max_calls)
    with display(quiet=args.quiet, stop=args.stop) as watcher:
        stopped = run_explanations(
            folder,
            args.experiment,
            Selection(trials=tuple(args.trial), limit=args.limit),
            settings,
            replace(watcher, announce=plan.append) if args.dry_run else watcher,
            args.set,
            confirm=confirming(args),
            dry_run=args.dry_run,
        )
    for line in plan:
        print(one_line(line))
    if not args.dry_run:
        keep_summary(folder)
        _show(args, stopped)
    return 0


def _show(args: argparse.Namespace, stopped: str | None) -> None:
    """Print what explanations show, and write the file of --out."""
    from medstress.analyses.explanations import EXPLANATIONS
    from medstress.analyses.exported import TOKENS, token_rows
    from medstress.analyses.run import Run
    from medstress.analyses.shown import Shown
    from medstress.cli.showing import write_file
    from medstress.files.frames import write_rows
    from medstress.report.page import page_of
    from medstress.report.terminal import print_table

    run, out = Run.open(Path(args.folder)), screen()
    explanations = run.of(EXPLANATIONS)
    remarks = explanations.remarks() if explanations else ()
    for remark in remarks:
        if remark.level == "note":
            out.say(remark.sentence)
    for table in (explanations.tables() if explanations else ())[:1]:
        print()
        print_table(out.console, table)
        print()
        out.say(
            "Heat maps, intervals and other places: medstress report DIR, or --out maps.html; all "
            "numbers: medstress summary DIR --json"
        )
    for remark in remarks:
        if remark.level == "warning":
            out.say(remark.sentence)
    if stopped:
        out.say(stopped)
    if args.out is not None:
        if args.out.endswith(".html"):
            write_file("--out", args.out, page_of(explanations or Shown(), run.name))
        else:
            write_rows(token_rows(explanations), Path(args.out), TOKENS)
        print(f"written: {args.out}")
