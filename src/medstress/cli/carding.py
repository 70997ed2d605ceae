"""`medstress card`: one page about a victim, in several forms."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from medstress.cli.flags import Parser
from medstress.core.errors import UsageError

FORMS = ("md", "json", "html", "chai", "huggingface", "every_eval_ever")
"""What `--format` takes."""
_BY_ENDING = {
    ".md": "md",
    ".json": "json",
    ".html": "html",
    ".xml": "chai",
    ".yaml": "huggingface",
    ".yml": "huggingface",
}


def add_card(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `medstress card`."""
    card = commands.add_parser(
        "card",
        help="one page about a victim: attacked how, lost, valid, criteria, limits, root",
        description="Print or write the robustness card of a victim: what was attacked and how, "
        "what was lost and what harmless edits take, how much of it is valid, the worst slice, "
        "criteria and when they were fixed, limits, the root, and the command that repeats it. "
        "Also as the block SafetyReliability of CHAI's Applied Model Card (chai), as metadata of a "
        "model card on the Hugging Face hub (huggingface), and as a record of Every Eval Ever.",
    )
    card.add_argument("folder", metavar="DIR")
    card.add_argument(
        "--victim",
        metavar="NAME",
        help="its label (default: the only one; of several the one that loses most)",
    )
    card.add_argument(
        "--format",
        choices=FORMS,
        help="default: by the name of --to, else md",
    )
    card.add_argument(
        "--to",
        metavar="FILE",
        help="FILE.md, .json, .html, .xml (chai), .yaml (huggingface); default: print it",
    )


def card_cli(args: argparse.Namespace) -> int:
    """Print or write the card."""
    from medstress.card import pages
    from medstress.card.applied_model_card import applied_model_card
    from medstress.card.content import Card, card_of
    from medstress.card.every_eval_ever import every_eval_ever
    from medstress.card.model_index import model_index
    from medstress.files.writing import Access, write_text
    from medstress.results.load import open_run

    form = _form(args)
    written: dict[str, Callable[[Card], str]] = {
        "md": pages.markdown,
        "json": pages.as_json,
        "html": pages.html,
        "chai": applied_model_card,
        "huggingface": model_index,
        "every_eval_ever": every_eval_ever,
    }
    with open_run(Path(args.folder)) as run:
        card = card_of(run, args.victim)
    text = written[form](card)
    if args.to is None:
        print(text, end="")
    else:
        try:
            write_text(Path(args.to), text, Access.ORDINARY)
        except OSError as error:
            raise UsageError(f"--to {args.to}: cannot write it: {error.strerror}") from error
        print(f"card: {args.to}")
    if args.victim is None and card.others:
        others = ", ".join(card.others)
        print(f"card of {card.victim}; --victim for {others}", file=sys.stderr)
    return 0


def _form(args: argparse.Namespace) -> str:
    """Return the form that is wanted.

    Raises:
        UsageError: neither --format nor the name of the file says it.
    """
    if args.format is not None or args.to is None:
        return str(args.format or FORMS[0])
    ending = Path(args.to).suffix.casefold()
    if ending not in _BY_ENDING:
        raise UsageError(
            f"--to {args.to}: the name must end in {', '.join(_BY_ENDING)}; or say --format"
        )
    return _BY_ENDING[ending]
