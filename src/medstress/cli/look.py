"""Commands that show what a run holds: summary, report, view, case."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated

from medstress.cli import flags
from medstress.core.errors import StoreError
from medstress.core.words import command, quoted

_look = partial(flags.app.command, cls=flags.Command, rich_help_panel="Look")
_ID = "a trial's id or its beginning, the id that the report shows, or an item with one attack"


@_look()
def summary(
    folder: flags.Folder,
    wide: Annotated[bool, flags.option(None, "all columns of all tables", "--wide")] = False,
    as_json: flags.Json = False,
    junit: flags.Junit = None,
    markdown: flags.Markdown = None,
) -> int:
    """The numbers of a run, also of one in progress."""
    flags.only_one(wide=wide, json=as_json)
    from medstress.analyses.run import Run
    from medstress.analyses.summary import exit_code
    from medstress.analyses.summary import summary as numbers
    from medstress.cli.terminal import show, write_file
    from medstress.experiment.kept_summary import renew_summary
    from medstress.report.summary_page import junit_page, markdown_page

    run = Run.open(Path(folder))
    if as_json:
        print(json.dumps(numbers(run), indent=1, allow_nan=False))
        code = exit_code(run)
    else:
        code = show(run, wide=wide)
        if not wide:
            print(f"All tables and columns: {command('summary', folder, '--wide')}")
    if junit is not None:
        write_file("--junit", junit, junit_page(run, None))
    if markdown is not None:
        write_file("--markdown", markdown, markdown_page(run))
    with suppress(StoreError):  # it may be read-only
        renew_summary(run)
    return code


@_look()
def report(
    folders: Annotated[list[str], flags.argument("DIR", "run folders")],
    out: Annotated[
        str | None, flags.option("FILE", "default: DIR/report.html, or ./report.html")
    ] = None,
) -> int:
    """One self-contained HTML file, readable offline.

    Several runs go into one file. Whether one is worse than another says `compare`.
    """
    from medstress.cli.terminal import write_report

    page = write_report([Path(folder) for folder in folders], out)
    n = f" ({len(folders)} runs)" if len(folders) > 1 else ""
    print(f"report: {quoted(page)}{n}")
    return 0


@_look()
def view(
    folder: flags.Folder,
    port: Annotated[int, flags.option("PORT", "0: any free one", min=0, max=65535)] = 0,
) -> int:
    """The report in a browser, with all cases, also while the run goes on.

    Serves the report on this machine, under a secret address. It follows a run in
    progress and writes no file. Ctrl+C ends it.
    """
    from medstress.report.view import Viewer, routes, serve

    # Ctrl+C is how it ends: nothing was interrupted.
    with suppress(KeyboardInterrupt):
        serve(routes(Viewer(Path(folder))), port=port, announce=partial(print, flush=True))
    return 0


@_look()
def case(
    folder: flags.Folder,
    id_: Annotated[str | None, flags.argument("ID", _ID)] = None,
) -> int:
    """One case: what changed, what was sent, what was answered.

    What was [-removed-] and {+added+} is marked. Without ID, a list of cases, the worst arm first.
    """
    from medstress.analyses.run import Run
    from medstress.cli.terminal import screen
    from medstress.report.cases import Cases, print_case, print_cases

    cases, console = Cases(Run.open(Path(folder))), screen()
    if id_ is None:
        print_cases(console, cases)
    else:
        (one,) = cases.cases([cases.find(id_)], most_tried=None)
        print_case(console, one)
    return 0
