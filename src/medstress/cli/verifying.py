"""`medstress verify`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from medstress.cli.flags import Parser

if TYPE_CHECKING:
    from medstress.experiment.audit.kept import Verification

BROKEN = 2
"""Exit code of a folder that does not agree, or that could not be judged."""


def add_verify(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress verify`."""
    verify = commands.add_parser(
        "verify",
        help="whether a run's numbers are those that were measured",
        description="Check a run folder: schema, chain of commits, digests of all answers, root; "
        "plan its work again and replay every trial and follow-up on the stored answers, by the "
        "attack itself where what it reads is here; compare the kept summary with one computed "
        "again. Names the first thing that does not agree. Asks no model and changes nothing. Exit "
        "code 0, or 2.",
    )
    verify.add_argument("folder", metavar="DIR")
    verify.add_argument(
        "--root",
        metavar="DIGEST",
        help="a root kept elsewhere, such as in a paper: also check that the run once had it, and "
        "say what was added since",
    )
    verify.add_argument(
        "--experiment",
        metavar="FILE",
        help="the run's own experiment file: names what it reads of yours (vocabularies, synonyms, "
        "templates), so that attacks run again; nothing that only the folder names is opened",
    )
    verify.add_argument("--json", action="store_true", help="as JSON")


def verify_cli(args: argparse.Namespace) -> int:
    """Run `medstress verify`."""
    from medstress.experiment.audit.verify import verify_folder
    from medstress.experiment.prepare import prepare

    given = Path(args.folder)
    own = None if args.experiment is None else prepare(args.experiment)
    found = verify_folder(given, root=args.root, own=own)
    if args.json:
        print(json.dumps(found.as_json(), indent=1))
    elif found.broken is None:
        print(f"{args.folder}: {'verified' if found.holds else 'not verified'}")
        for sentence in found.sentences():
            print(sentence)
    if found.holds:
        return 0
    print(f"medstress: {args.folder} {_refusal(found, given, args.root)}", file=sys.stderr)
    return BROKEN


def _refusal(found: Verification, given: Path, root: str | None) -> str:
    """Return in one sentence why a folder is not verified, with what helps."""
    if found.broken is None:
        return f"is not verified: {'; '.join(found.doubts())}"
    told = f"does not agree: {found.broken}"
    if root is not None and found.broken.expected.lower() == f"root {root.lower()}":
        # What the folder holds may agree with itself.
        return f"{told}; next: {shlex.join(['medstress', 'verify', str(given)])}"
    return told
