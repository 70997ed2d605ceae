"""`medstress import`: logs of other tools as run folders."""

from __future__ import annotations

import argparse
from pathlib import Path

from medstress.cli.flags import Parser
from medstress.cli.streams import one_line
from medstress.results.formats import plural


def add_import(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress import`."""
    parser = commands.add_parser(
        "import",
        help="make a run folder of a log of lm-evaluation-harness or inspect_ai",
        description="Read the per-item results of another tool as a run, so that summary, compare, "
        "criteria and slices work on them: samples_TASK_TIME.jsonl of lm-evaluation-harness "
        "(--log_samples), or a .eval or .json of inspect_ai. Nothing is asked: every query counts "
        "as cached, and the run says where its answers come from.",
    )
    parser.add_argument("log", metavar="LOG", help="answers to the clean questions")
    parser.add_argument("--out", required=True, metavar="DIR", help="the run folder")
    parser.add_argument(
        "--perturbed",
        nargs="+",
        default=[],
        metavar="LOG",
        help="answers of the same model to the same questions with changes; each log is an attack",
    )
    parser.add_argument(
        "--experiment",
        metavar="FILE.toml",
        help="whose [[require]] and [slices] are used; they count as post hoc",
    )
    parser.add_argument("--victim", metavar="NAME", help="the model's name in results")
    parser.add_argument(
        "--filter", metavar="F", help="lm-evaluation-harness: which filter's answers are read"
    )
    parser.add_argument("--scorer", metavar="S", help="inspect_ai: which scorer judges")
    parser.add_argument("--epoch", type=int, metavar="N", help="inspect_ai: which epoch is read")


def import_cli(args: argparse.Namespace) -> int:
    """Run `medstress import`."""
    from medstress.importing.log import LogOptions
    from medstress.importing.run import import_logs

    folder, told = import_logs(
        Path(args.log),
        Path(args.out),
        perturbed=[Path(path) for path in args.perturbed],
        options=LogOptions(filter=args.filter, scorer=args.scorer, epoch=args.epoch),
        victim=args.victim,
        experiment=Path(args.experiment) if args.experiment else None,
    )
    for log in told["logs"]:
        n = plural(log["n_answers"], "answer")
        print(one_line(f"{log['file']}: {n} of {log['model']} to {log['task']} ({log['tool']})"))
        for note in log["notes"]:
            print(f"  {one_line(note)}")
    for note in told["notes"]:
        print(f"! {one_line(note)}")
    print(f"{folder}: nothing was asked; next: medstress summary {folder}")
    return 0
