"""A comparison as tables: for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medstress.comparison.answered import is_mostly_open
from medstress.comparison.compare import ADJUSTMENTS, Comparison
from medstress.comparison.names import SENTENCE
from medstress.comparison.rows import Row
from medstress.comparison.sides import Arm
from medstress.metrics.old_stats.verdicts import UNDECIDED
from medstress.results.formats import decimal, plural
from medstress.results.junit import Case, Outcome
from medstress.results.root import root_line
from medstress.results.table import Cell, Column, Format, Table, as_row, columns


def comparison_table(found: Comparison) -> Table:
    """Return all rows, those that decide first."""
    rows = [
        as_row(
            "yes" if row.decides else "",
            row.label,
            *_place(row),
            Cell(value=row.values[0]),
            Cell(value=row.values[1]),
            Cell(value=row.difference),
            "–" if row.only_a is None else f"{row.only_a:,} / {row.only_b:,}",
            row.p_adjusted,
            row.verdict,
            rule_above=i > 0 and row.decides != found.rows[i - 1].decides,
        )
        for i, row in enumerate(found.rows)
    ]
    return Table(
        name="comparison",
        caption="B against A, on the same items and seeds",
        columns=(
            *columns(Format.TEXT, "Decides", "Measure", "Data set", "Group", "Victim", "Attack"),
            *columns(Format.SCORE, "A", "B", "B minus A"),
            Column(heading="Only A / only B"),
            Column(heading="p, adjusted", format=Format.PROBABILITY),
            Column(heading="Verdict"),
        ),
        rows=tuple(rows),
        n_labels=6,
    )


def _place(row: Row) -> list[str]:
    fields = ("dataset", "group", "victim", "attack")
    return [_both(getattr(row.a, name), getattr(row.b, name)) for name in fields]


def _both(a: str, b: str) -> str:
    return a if a == b else f"{a} → {b}"


def lines_of(found: Comparison) -> Iterator[str]:
    """Yield the comparison in sentences: verdict, factor, deciding rows, families, notes."""
    yield f"verdict: {found.verdict}"
    for row in found.deciding_rows:
        yield row.sentence
        yield _like_these(row)
    told = f" ({'; '.join(each.what for each in found.factors)})" if found.factors else ""
    why = "" if found.factors else ": nothing that is recorded differs"
    yield f"factor: {found.factor}{told}{why}"
    if found.also:
        shown = (f"{key} {a}, {b}" for key, (a, b) in found.also.items())
        yield f"also different in A, B (no factor): {'; '.join(shown)}"
    yield f"decides: {found.deciding_rows[0].label}; {found.why}"
    for family in found.families():
        tests = plural(family["size"], "test")
        untested = family["without_pairs"]
        beside = (
            f"; {plural(untested, 'row')} without a pair, so without a test" if untested else ""
        )
        yield f"family {family['name']}: {tests}, {ADJUSTMENTS[family['adjust']]}{beside}"
    yield from found.notes


def _like_these(row: Row) -> str:
    if row.names is None:
        return f"no interval over names: {row.names_reason}"
    low, high = row.names.low, row.names.high
    ends = f"{decimal(row.names.value)} [{decimal(low)}, {decimal(high)}]"
    return f"{SENTENCE}: difference {ends}, items and names both taken to be drawn"


def place_of(row: Row) -> str:
    """Return the arms of a row in one line."""
    return ", ".join(filter(None, _place(row)))


def _origin(source: str, found: Comparison, side: int) -> str:
    manifest = found.sides[side].manifest
    arms = dict.fromkeys(_arm(row, side) for row in found.rows)
    label = labels_of([*arms])
    state = "" if manifest["complete"] else ", not complete"
    return f"{source} ({label}{state})"


def _arm(row: Row, side: int) -> Arm:
    return row.b if side else row.a


def labels_of(arms: Sequence[Arm]) -> str:
    """Return victims and attacks of some arms."""
    victims = ", ".join(dict.fromkeys(arm.victim for arm in arms))
    return f"{victims} under {', '.join(dict.fromkeys(arm.attack for arm in arms))}"


def origins_of(found: Comparison) -> list[str]:
    """Return a line for each side: its folder, victims and attacks."""
    return [
        "; ".join(
            filter(
                None,
                (
                    f"{side.name}: {_origin(side.source, found, i)}",
                    root_line(side.about_root),
                ),
            )
        )
        for i, side in enumerate(found.sides)
    ]


def _outcome(found: Comparison, row: Row) -> Outcome:
    if is_mostly_open(row) and row.verdict == UNDECIDED:
        return Outcome.ERROR
    return Outcome.FAILED if found.row_fails(row) else Outcome.OK


def cases_of(found: Comparison) -> list[Case]:
    """Return a case for each row that decides: failed where its verdict is one to stop at.

    It is an error if failed calls leave more than half of its pairs open.
    """
    return [
        Case(
            name=f"{row.label}: {place_of(row)}",
            outcome=_outcome(found, row),
            message=row.sentence,
        )
        for row in found.deciding_rows
    ]
