"""The commands that decide: comparisons of runs, and tests of successes."""

from __future__ import annotations

import argparse

from medstress.cli.flags import Parser, settings_flag, verdict_flags


def add_compare(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress compare`."""
    compare = commands.add_parser(
        "compare",
        help="is B worse than A? Two runs, or two models of one, on the same items",
        description="Compare two runs, or two models of one run, item by item and seed by seed. "
        "Exit code 3 without --margin only if B is worse; with it unless B is shown to be no worse "
        "than the margin.",
    )
    compare.add_argument(
        "folder",
        metavar="A",
        help="the run that B is compared with; DIR#victim for a model of a run with several",
    )
    compare.add_argument("other", metavar="B", help="the run that the verdict is about")
    compare.add_argument(
        "--factor",
        choices=("victim", "attack", "group"),
        default="victim",
        help="what is compared: models (the default), attacks, or what these draw names from",
    )
    compare.add_argument(
        "--metric",
        metavar="NAME",
        help="the measure that decides: accuracy_after (the default), accuracy, asr (the default "
        "for attacks and groups), asr_net, or a score such as f1_after",
    )
    compare.add_argument(
        "--margin", type=float, metavar="M", help="the largest difference that does not matter"
    )
    compare.add_argument("--json", action="store_true", help="as JSON (format 3)")
    verdict_flags(compare)


def add_test(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress test`."""
    test = commands.add_parser(
        "test",
        help="significance of MedFuzz successes",
        description="Compare successes of MedFuzz with control fuzzes: is the victim misled by "
        "what the attack says, or would any change do? The models, their keys and the settings "
        "([test]) come from your experiment, never from the folder; the folder must be a run of "
        "it. The same command resumes; other settings add to the folder.",
    )
    test.add_argument("folder", metavar="DIR")
    test.add_argument(
        "--experiment",
        metavar="EXPERIMENT.toml",
        help="the experiment of this run (default: what you ran in this folder)",
    )
    test.add_argument("--yes", action="store_true", help="ask the models without a question")
    settings_flag(test)
    which = test.add_mutually_exclusive_group()
    which.add_argument(
        "--item", nargs="+", default=[], metavar="ID", help="the successes on these items"
    )
    which.add_argument(
        "--trial", metavar="ID", help="one success, by its trial_id or the start of it"
    )
    which.add_argument("--all", action="store_true", help="all successes (the default)")
    test.add_argument(
        "--null", choices=("matched", "neutral"), help="what a control is (default: matched)"
    )
    test.add_argument(
        "--controls",
        metavar="N",
        help="controls per success, or adaptive: as many as --max-calls allows (the default)",
    )
    test.add_argument(
        "--max-calls", type=int, metavar="N", help="most calls per success (default: 2000)"
    )
    test.add_argument(
        "--generator",
        choices=("lexicon", "attacker"),
        help="who writes neutral insertions (default: lexicon)",
    )
    test.add_argument(
        "--adjust", choices=("bh", "holm", "none"), help="how p-values are adjusted (default: bh)"
    )
    test.add_argument(
        "--dry-run", action="store_true", help="print how much would be asked at most; ask nothing"
    )
    test.add_argument("--quiet", action="store_true", help="no progress display")
