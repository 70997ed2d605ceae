"""Show a run to look at: one case in the terminal, all of it in a browser."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from medstress.api.run import Run
from medstress.cli.streams import plain_stream, visible
from medstress.results.root import UNVERIFIED

WIDTH = 80
_STYLES = {"": "", "head": "bold", "removed": "red strike", "added": "green", "soft": "dim"}
_WITHOUT_COLOUR = {"removed": "", "added": "", "soft": ""}


def case_cli(args: argparse.Namespace) -> int:
    """Run `medstress case`."""
    from medstress.report.cases.building import cases_of
    from medstress.report.cases.finding import find_trial, others_of_item
    from medstress.report.cases.lines import Line, case_lines

    with Run(args.folder).opened() as stored:
        cases = cases_of(stored)
        trial = find_trial(cases, args.id, folder=args.folder)
        record = cases.record(trial, most_tried=None)
        others = others_of_item(cases, trial, args.id)
        doubt = {UNVERIFIED: stored.doubt} if stored.doubt else {}
    if args.json:
        print(json.dumps(record.as_json() | doubt, indent=1))
        return 0
    from rich.console import Console
    from rich.text import Text

    console = Console(file=plain_stream(sys.stdout), highlight=False)
    console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH

    # Who wants no colour gets signs alone: struck-through text is hard to read without its colour.
    styles = {**_STYLES, **_WITHOUT_COLOUR} if console.no_color else _STYLES

    def shown(line: Line) -> Text:
        return Text.assemble(*((visible(text), styles[style]) for style, text in line))

    warnings: list[Line] = [(("head", f"! {name}: {why}"),) for name, why in doubt.items()]
    for line in (*warnings, *case_lines(record)):
        console.print(shown(line), overflow="fold")
    if others:
        console.print(Text(visible(others)), overflow="fold")
    return 0


def view_cli(args: argparse.Namespace) -> int:
    """Run `medstress view`."""
    from medstress.serving.local import refuse_port
    from medstress.viewing.view import view

    refuse_port(args.port)
    announce = partial(print, flush=True)
    # Ctrl+C is how it ends: nothing was interrupted.
    with suppress(KeyboardInterrupt):
        view(Path(args.folder), port=args.port, show=not args.no_browser, announce=announce)
    return 0
