"""The command that looks at data before a model is asked."""

from __future__ import annotations

import argparse

from medstress.cli.flags import Parser, entities_flag, reading_flags, settings_flag


def add_check(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress check`."""
    check = commands.add_parser(
        "check",
        help="how your data are read, what of them can be attacked, and why the rest cannot",
        description="Read data as a run would and show the first five items as understood, how "
        "many each attack can attack, and why it cannot attack the rest. Mentions of drugs and "
        "diseases are found by the built-in tables of names. No model is asked, and nothing is "
        "written but the file of --to. The last line is the next command to type. Exit code 2 if "
        "rows cannot be read.",
    )
    check.add_argument(
        "data",
        metavar="DATA",
        help="a file or folder, a data set of `medstress list datasets`, or owner/name on the "
        "Hugging Face hub",
    )
    check.add_argument(
        "--limit", type=int, metavar="N", help="check a random sample of N items (default: 5,000)"
    )
    reading_flags(check)
    entities_flag(check)
    settings_flag(check)
    check.add_argument(
        "--to",
        metavar="FILE",
        help="FILE.jsonl or FILE.parquet: write the questions with typed mentions and group "
        "labels; --set entities.recogniser=... says what finds them",
    )
    check.add_argument("--json", action="store_true", help="as JSON (format 1)")
