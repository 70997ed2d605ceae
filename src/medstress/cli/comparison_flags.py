"""The flags of comparisons, and those that write verdicts."""

from __future__ import annotations

import argparse
from typing import Any, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[Any]"


def verdict_flags(command: argparse.ArgumentParser) -> None:
    """Add --junit and --markdown."""
    command.add_argument("--junit", metavar="FILE", help="write the verdicts as JUnit XML")
    command.add_argument("--markdown", metavar="FILE", help="write the verdicts as Markdown")


def compare_command(commands: Commands) -> None:
    """Add `medstress compare`."""
    compare = commands.add_parser(
        "compare",
        help="is B worse than A? Two runs, or two arms of one, on the same items",
        description="Compare two runs in which exactly one thing differs, or the two arms that "
        "[compare] names in the experiment file of one run, item by item and seed by seed. Exit "
        "code 3 without --margin only if B is worse; with it unless B is shown to be no worse than "
        "the margin.",
    )
    compare.add_argument("folder", metavar="DIR_A", help="the run that B is compared with")
    compare.add_argument(
        "other", metavar="DIR_B", nargs="?", help="default: the arms that [compare] names in DIR_A"
    )
    compare.add_argument(
        "--margin", type=float, metavar="M", help="the largest difference that does not matter"
    )
    compare.add_argument(
        "--on-undecided",
        choices=("pass", "fail"),
        default="fail",
        help="whether an undecided comparison with a margin passes (default: fail)",
    )
    compare.add_argument(
        "--adjust",
        choices=("holm", "bh"),
        help="how p-values are adjusted over a family (default: holm)",
    )
    compare.add_argument(
        "--sequential",
        metavar="STATE",
        help="the nightly gate: DIR_A of the baseline, DIR_B of tonight's build, and a file that "
        "remembers the nights; exit code 3 once they show that builds are behind",
    )
    compare.add_argument(
        "--afresh",
        action="store_true",
        help="with --sequential: both victims were sampled anew tonight, so every item may be bet "
        "on again",
    )
    compare.add_argument("--json", action="store_true", help="as JSON (format 1)")
    verdict_flags(compare)


def freeze_command(commands: Commands) -> None:
    """Add `medstress freeze`."""
    freeze = commands.add_parser(
        "freeze",
        help="write the attacked questions of a run with the edits that were asked",
        description="Write every attacked question of a run with its edits, held and flipped, and "
        'where they come from. [[dataset]] name = "frozen" reads the file and [[attack]] name = '
        '"frozen" asks its edits of another victim. Nothing is asked.',
    )
    freeze.add_argument("folder", metavar="RUN")
    freeze.add_argument("--to", required=True, metavar="FILE.jsonl")
    freeze.add_argument("--sample", type=int, metavar="N", help="draw N questions")
    freeze.add_argument(
        "--sample-seed", type=int, default=0, metavar="S", help="seed of the draw (default: 0)"
    )
    freeze.add_argument("--victim", metavar="V", help="whose attacks, if the run has several")
