"""Show a run to look at: one case in the terminal, all of it in a browser."""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from functools import partial
from pathlib import Path

from medstress.analyses.run import Run
from medstress.cli.screen import screen
from medstress.page.case_text import print_case, print_cases
from medstress.page.cases import Cases, json_of


def case_cli(args: argparse.Namespace) -> int:
    """Run `medstress case`: one case, or without an id the list of them."""
    run = Run.open(Path(args.folder))
    cases, out = Cases(run), screen()
    if args.id is None:
        if args.json:
            print(json.dumps([json_of(cases.line(trial)) for trial in cases.trials], indent=1))
            return 0
    else:
        (case,) = cases.cases([cases.find(args.id)], most_tried=None)
        if args.json:
            print(json.dumps(json_of(case), indent=1))
            return 0
    if args.id is None:
        print_cases(out.console, cases, wide=args.wide)
    else:
        print_case(out.console, case)
    return 0


def view_cli(args: argparse.Namespace) -> int:
    """Run `medstress view`."""
    from medstress.page.view import view
    from medstress.serving.local import refuse_port

    refuse_port(args.port)
    announce = partial(print, flush=True)
    # Ctrl+C is how it ends: nothing was interrupted.
    with suppress(KeyboardInterrupt):
        view(Path(args.folder), port=args.port, show=not args.no_browser, announce=announce)
    return 0
