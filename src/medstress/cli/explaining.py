"""`medstress explain`: Shapley values of prompts before and after an attack."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medstress.cli.flags import Parser, settings_flag
from medstress.core.errors import UsageError

if TYPE_CHECKING:
    from medstress.analyses.explanations import Explanations

PAGE = ".html"


def add_explain(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress explain`."""
    explain = commands.add_parser(
        "explain",
        help="which words carry an answer, before and after an attack (Shapley values)",
        description="Compute token-wise Shapley (Owen) values of prompts before and after an "
        "attack, for successes and for attacks that failed. The models and their keys come from "
        "your experiment, never from the folder; the folder must be a run of it. The values go "
        "into the folder; the same command resumes.",
    )
    explain.add_argument("folder", metavar="DIR")
    explain.add_argument(
        "--experiment",
        metavar="EXPERIMENT.toml",
        help="the experiment of this run (default: what you ran in this folder)",
    )
    explain.add_argument("--yes", action="store_true", help="ask the models without a question")
    settings_flag(explain)
    which = explain.add_mutually_exclusive_group()
    which.add_argument(
        "--trial",
        nargs="+",
        default=[],
        metavar="ID",
        help="trials by id, the start of one or their item, as for case; flipped or held",
    )
    which.add_argument(
        "--all",
        action="store_true",
        help="all successes, and as many attacks of the same arms that failed",
    )
    explain.add_argument(
        "--limit", type=int, metavar="N", help="with --all: draw N successes, and as many failures"
    )
    explain.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of the draw (default: 0)"
    )
    explain.add_argument(
        "--max-calls",
        type=int,
        metavar="N",
        help="most masked texts of one prompt; each trial has two (default: 500)",
    )
    explain.add_argument(
        "--mask",
        metavar="TEXT",
        help="stands for masked tokens; empty leaves them out (default: ...)",
    )
    explain.add_argument(
        "--out",
        metavar="FILE",
        help="also write FILE.html (heat maps) or FILE.jsonl, .csv, .parquet",
    )
    explain.add_argument("--json", action="store_true", help="as JSON")
    explain.add_argument(
        "--dry-run", action="store_true", help="print how much would be asked at most; ask nothing"
    )
    explain.add_argument("--quiet", action="store_true", help="no progress display")


def explain_cli(args: argparse.Namespace) -> int:
    """Run `medstress explain`."""
    _check(args)
    from medstress.cli.confirming import confirming
    from medstress.cli.display import display
    from medstress.cli.streams import one_line
    from medstress.experiment.explain.explanation import Settings
    from medstress.experiment.explain.plan import Selection
    from medstress.experiment.explain.run import run_explanations
    from medstress.experiment.kept_summary import keep_summary

    given = {"evaluations": args.max_calls, "mask": args.mask}
    settings = Settings(**{key: value for key, value in given.items() if value is not None})
    selection = Selection(trials=tuple(args.trial), limit=args.limit, seed=args.seed)
    folder, plan = Path(args.folder), list[str]()
    with display(quiet=args.quiet, stop=args.stop) as watcher:
        stopped = run_explanations(
            folder,
            args.experiment,
            selection,
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


def _check(args: argparse.Namespace) -> None:
    """Refuse flags before anything is loaded.

    Raises:
        UsageError: a flag is missing, or its value makes no sense.
    """
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
    if args.out is not None and Path(args.out).suffix not in (PAGE, ".jsonl", ".csv", ".parquet"):
        raise UsageError(f"--out {args.out}: the name must end in .html, .jsonl, .csv or .parquet")


def _show(args: argparse.Namespace, stopped: str | None) -> None:
    from medstress.analyses.explanations import EXPLANATIONS
    from medstress.analyses.run import Run
    from medstress.analyses.shown import as_json
    from medstress.cli.screen import screen
    from medstress.report.terminal import print_table

    run = Run.open(Path(args.folder))
    explanations = run.of(EXPLANATIONS)
    if args.out is not None:
        _write(run.name, explanations, Path(args.out))
    if args.json:
        print(json.dumps(explanations and as_json(explanations)))
        return
    out = screen()
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
        print(f"written: {args.out}")


def _write(name: str, explanations: Explanations | None, to: Path) -> None:
    from medstress.analyses.exported import TOKENS, token_rows
    from medstress.analyses.shown import Shown
    from medstress.files.frames import write_rows
    from medstress.files.writing import write_text
    from medstress.report.page import page_of

    if to.suffix != PAGE:
        write_rows(token_rows(explanations), to, TOKENS)
        return
    try:
        write_text(to, page_of(explanations or Shown(), name))
    except OSError as error:
        raise UsageError(f"cannot write {to}: {error.strerror}; give another --out") from None
