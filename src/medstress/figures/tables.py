"""The table of results, and the table of attacks beside their controls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medstress.figures import notes
from medstress.figures.outputs import Made, table_made
from medstress.figures.rows import SHOWN, Row, Rows, last_budget
from medstress.metrics.old_stats.estimates import Estimate, read_score, read_share, unknown
from medstress.metrics.success import at_budget
from medstress.results.measures import measure
from medstress.results.names import CONTROL_WORDS
from medstress.results.table import Column, Format, Table, as_row, columns
from medstress.results.table import Row as TableRow

RESULTS, CONTROLS = "results", "controls"
_HEADINGS = {"victim": "Model", "dataset": "Data", "group": "Group"}
_MEASURES = ("accuracy", "accuracy_after", "asr")
_SCORES = (
    ("macro_f1", "Macro F1"),
    ("f1", "F1"),
    ("pearson", "Pearson"),
)


def results(run: Rows) -> Made | None:
    """Return one line for each attack: accuracy or scores before and after, and success."""
    if not run.attacks:
        return None
    factors = _varying(run)
    budgets = len({last_budget(row) for row in run.attacks}) > 1
    table = Table(
        name=RESULTS,
        caption=f"Results; each attack had {notes.budgets(run.attacks)} for an item",
        columns=(
            *_labels(factors),
            *columns(Format.COUNT, *(("Queries",) if budgets else ()), "Answered"),
            *(_column(name) for name in _MEASURES),
            *(
                column
                for _, label in _SCORES
                for column in columns(Format.SCORE, label, f"{label} attacked")
            ),
            *columns(Format.COUNT, "Median queries to success"),
        ),
        rows=tuple(
            as_row(
                *_place(run, row, factors),
                *((last_budget(row),) if budgets else ()),
                None if row.get("n_measured") else (row.get("accuracy") or {}).get("n"),
                *(_share(row, name) for name in _MEASURES),
                *(_score(row, name + end) for name, _ in _SCORES for end in ("", "_after")),
                (row.get("queries_to_success") or {}).get("median"),
            )
            for row in run.attacks
        ),
        notes=tuple(notes.sentences(run, run.attacks)),
        n_labels=len(factors) + 1,
    )
    return table_made(table, "Results")


def controls(run: Rows) -> Made | None:
    """Return every attack beside each of its controls, at its whole budget; None without any."""
    lines = [line for row in run.attacks for line in _beside(run, row, _varying(run))]
    if not lines:
        return None
    factors = _varying(run)
    table = Table(
        name=CONTROLS,
        caption="Attacks beside controls with the same budget",
        columns=(
            *_labels(factors),
            *columns(Format.TEXT, "Control"),
            *columns(Format.COUNT, "Queries"),
            _column("asr"),
            *columns(Format.SHARE, "Control's rate"),
            *columns(Format.SCORE, "Net"),
            *columns(Format.TEXT, "Lost to the attack"),
        ),
        rows=tuple(lines),
        notes=(
            "Net: success minus the control's rate, paired on the items of both (Tango's "
            "interval). Lost to the attack: from the low end of net, at least 0, to the high end "
            "of success.",
            *notes.state(run.summary),
        ),
        n_labels=len(factors) + 2,
    )
    return table_made(table, "Controls")


def _varying(run: Rows) -> list[str]:
    """Return the factors that have several values in the run; victims are always named."""
    return [
        name
        for name in SHOWN
        if name == "victim" or len({str(row.get(name)) for row in run.attacks}) > 1
    ]


def _labels(factors: Sequence[str]) -> tuple[Column, ...]:
    return columns(Format.TEXT, *(_HEADINGS[name] for name in factors), "Attack")


def _place(run: Rows, row: Row, factors: Sequence[str]) -> list[str]:
    return [run.name(row, name) for name in (*factors, "attack")]


def _column(name: str) -> Column:
    return Column(heading=measure(name).label, format=Format.SHARE)


def _share(row: Row, name: str) -> Estimate:
    found = row.get(name)
    return read_share(found) if found else unknown("not measured")


def _score(row: Row, name: str) -> Estimate:
    found = row.get(name)
    return read_score(found) if found else unknown("not measured")


def _beside(run: Rows, row: Row, factors: Sequence[str]) -> Iterator[TableRow]:
    queries = last_budget(row)
    point = at_budget(row["asr_at"], queries) if queries else None
    for name, rate in ((point or {}).get("control") or {}).items():
        assert point is not None
        low, high = point["loss_bounds"][name]
        lost = "" if low is None or high is None else f"{100 * low:.0f} to {100 * high:.0f} %"
        yield as_row(
            *_place(run, row, factors),
            CONTROL_WORDS.get(name, name),
            queries,
            read_share(point),
            read_share(rate),
            read_score(point["asr_net"][name]),
            lost,
        )
