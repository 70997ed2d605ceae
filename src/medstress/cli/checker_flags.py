"""The flags of `medstress checker`; imports nothing heavy, so that --help is instant."""

from __future__ import annotations

import argparse

from medstress.cli.flags import Parser

THRESHOLD, EMBEDDING = 0.2, "minilm"
"""Defaults of --threshold, fitted to nothing, and of --embedding."""


def add_checker(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress checker`."""
    checker = commands.add_parser(
        "checker",
        help="measure a checker of names on labelled pairs",
        description="Measure how many pairs of names a checker can place, and its sensitivity and "
        "specificity among those, with 95 % intervals, by entity type and stratum of distance. "
        "Each line of the file is a JSON object with the keys a, b and same (true or false), and "
        "if known type and distance. With --run, let the checker judge the successes of a finished "
        "run: its words are stored as evidence and, with --measured, corrected by its errors; "
        "the same command goes on where it stopped.",
    )
    checker.add_argument("pairs", metavar="PAIRS.jsonl", nargs="?", help="labelled pairs")
    checker.add_argument("--run", metavar="DIR", help="judge the successes of this run")
    checker.add_argument(
        "--measured",
        metavar="FILE.json",
        help="run: what the same checker printed on labelled pairs with --json",
    )
    checker.add_argument(
        "--checker",
        default="rules",
        metavar="NAME",
        help="rules (the shipped tables, the default), embedding, judge, combined (rules, then a "
        "judge or an embedding), or module:function or file.py:function of two names",
    )
    checker.add_argument(
        "--synonyms",
        action="append",
        metavar="FILE",
        help="rules: further synonyms, such as MRCONSO.RRF or an .obo file; may be repeated",
    )
    checker.add_argument("--embedding", metavar="NAME", help=f"embedding (default: {EMBEDDING})")
    checker.add_argument(
        "--threshold",
        type=float,
        metavar="H",
        help=f"embedding: largest cosine distance of the same (default: {THRESHOLD})",
    )
    checker.add_argument("--model", metavar="NAME", help="judge: the model, as of `medstress run`")
    checker.add_argument("--base-url", metavar="URL", help="judge: the address of its server")
    checker.add_argument(
        "--api-key-env", metavar="NAME", help="judge: the environment variable with its key"
    )
    checker.add_argument("--json", action="store_true", help="as JSON")
    checker.add_argument("--quiet", action="store_true", help="no progress display")
