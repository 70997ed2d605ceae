"""The command that decides between two runs: compare."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from medstress.cli import flags
from medstress.core.errors import MedstressError

if TYPE_CHECKING:
    from medstress.analyses.shown import Decision, Table

_decide = partial(flags.app.command, cls=flags.Command, rich_help_panel="Decide")
_FACTOR = "what is compared: models, attacks, or the groups that these draw names from"
_METRIC = (
    "the measure that decides: accuracy_after (the default for models), accuracy, asr (the default "
    "for attacks and groups), asr_net, or a score such as f1_after"
)


@_decide()
def compare(
    a: Annotated[
        str, flags.argument("A", "a run, or DIR#victim for a model of a run with several")
    ],
    b: Annotated[str, flags.argument("B", "the run that the verdict is about")],
    factor: Annotated[Literal["victim", "attack", "group"], flags.option(None, _FACTOR)] = "victim",
    metric: Annotated[str | None, flags.option("NAME", _METRIC)] = None,
    margin: Annotated[
        float | None, flags.option("M", "the largest loss that does not matter")
    ] = None,
    as_json: flags.Json = False,
    junit: flags.Junit = None,
    markdown: flags.Markdown = None,
) -> int:
    """Is B worse than A? Two runs, or two models of one, on the same items.

    Compares item by item and seed by seed. Exit code 3 only if B is worse; with --margin, unless B
    is shown to be no worse than the margin.
    """
    from medstress.analyses.compare import LABELS, fails
    from medstress.analyses.shown import Decision
    from medstress.analyses.summary import MISSED
    from medstress.api.results import compare as compared
    from medstress.cli.terminal import screen, write_file
    from medstress.report.summary_page import junit as junit_of
    from medstress.report.summary_page import markdown as markdown_of
    from medstress.report.terminal import print_table, say

    def write(cases: Sequence[Decision], lines: Sequence[str], tables: Sequence[Table]) -> None:
        if junit is not None:
            write_file("--junit", junit, junit_of("medstress compare", cases))
        if markdown is not None:
            write_file("--markdown", markdown, markdown_of("medstress compare", lines, tables))

    try:
        comparison = compared(a, b, factor=factor, metric=metric, margin=margin)
    except MedstressError as error:
        case = Decision(name=f"{a} and {b}", outcome="error", sentence=str(error))
        write([case], [f"Nothing could be compared: {error}"], [])
        raise
    cases = []
    for row in comparison.deciding:
        fails_here = fails(row.verdict, comparison.margin)
        # Failed calls may leave more than half of the pairs open.
        is_open = row.verdict == "undecided" and 2 * row.n_open > row.n_pairs
        cases.append(
            Decision(
                name=f"{row.measure}: {', '.join(map(row.labels, LABELS))}",
                outcome="error" if is_open else "failed" if fails_here else "ok",
                sentence=row.sentence,
            )
        )
    lines, tables, out = comparison.lines(), comparison.tables(), screen()
    write(cases, lines, tables)
    if as_json:
        print(json.dumps(comparison.as_json(), indent=1, allow_nan=False))
    else:
        say(out, lines[0], "bold")
        for table in tables:
            print(flush=True)
            print_table(out, table, whole="compare --json")
        print()
        for line in lines[1:]:
            say(out, line)
    return MISSED if comparison.fails else 0
