"""Tables of the report, each a pure function of the summary's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from medstress.metrics.old_stats.estimates import Estimate, is_estimate, read_share
from medstress.report.labels import LABELS, Row, labels, measured, number
from medstress.report.validity import valid_cell
from medstress.results import measures
from medstress.results.formats import NONE, as_text, count, interval, probability
from medstress.results.measures import measure
from medstress.results.names import key_of
from medstress.results.table import Cell, Column, Format, Table, Value, as_row, columns

RATES = ("accuracy", "accuracy_after", "asr", "asr_decided", "asr_valid")
ELSEWHERE = {*RATES, "asr_asked", "asr_gated", "asr_judged", "asr_unjudged"}
"""Estimates that other tables show: rates, attempts and tests."""
OF_ANSWERS = ("letter_mass", "chose_edited", "key_probability_change")
"""Shown only if a row has them."""
ODD_QUERIES = ("n_unchanged", "n_ties")
"""Shown only if a row has them."""


def headline_rows(summary: Mapping[str, Any]) -> list[Row]:
    """Return one row per (data set, group, victim, attack): of its only seed, or pooled.

    Control arms are left out: each stands in the row of its attack.
    """
    return [row for row in all_rows(summary) if "control_of" not in row]


def all_rows(summary: Mapping[str, Any]) -> list[Row]:
    """Return what `headline_rows` does, and the rows of control arms."""
    by_key: dict[tuple[Any, ...], list[Row]] = {}
    for row in summary.get("results") or ():
        by_key.setdefault(_key(row), []).append(row)
    pooled = {_key(row): row for row in summary.get("pooled") or ()}
    chosen: list[Row] = []
    for key in [*by_key, *(key for key in pooled if key not in by_key)]:
        of_key = by_key.get(key, [])
        chosen += of_key if len(of_key) == 1 or key not in pooled else [pooled[key]]
    return chosen


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("dataset", "group", "victim", "attack"))


def by_seed_and_pooled(summary: Mapping[str, Any], *, with_controls: bool = False) -> list[Row]:
    """Return the results of a summary, then its rows pooled over two or more seeds.

    A pooled row of one seed would repeat its result row and is left out, as are control arms
    unless they are asked for.
    """
    pooled = (each for each in summary["pooled"] if len(each["seeds"]) > 1)
    rows = (*summary["results"], *pooled)
    return [row for row in rows if with_controls or "control_of" not in row]


def summary_table(rows: Sequence[Row]) -> Table:
    """Return the results in short, one line per row."""
    table = Table(
        name="summary",
        caption="Results",
        columns=(
            *LABELS,
            *_columns("accuracy", "chance", "accuracy_after", "asr"),
            *columns(Format.TEXT, "Queries asked/paid/cached/failed"),
            *_columns("queries_to_success.median", "diversity", "n_not_attackable"),
            *_columns("n_already_wrong"),
            *columns(Format.COUNT, "Unreadable", "Failed"),
        ),
        rows=tuple(
            as_row(
                *labels(each),
                *_read(each, "accuracy", "chance", "accuracy_after"),
                _asr(each),
                "/".join(str(each["queries"][name]) for name in _LEDGER),
                *_read(each, "queries_to_success.median", "diversity", "n_not_attackable"),
                *_read(each, "n_already_wrong"),
                Cell(
                    value=number(each, "n_unreadable_at_baseline"),
                    lines=(*_more_answers(each), *_cut_off(each, *_LENGTHS)),
                ),
                number(each, "n_failed_at_baseline") + number(each, "n_failed"),
            )
            for each in rows
        ),
        n_labels=len(LABELS),
    )
    return judged_only(table, rows)


_LEDGER = ("asked", "paid", "cached", "failed")
_LENGTHS = ("n_length_at_baseline", "n_length_answers")


def _columns(*names: str) -> list[Column]:
    return [measure(name).column for name in names]


def _read(each: Row, *names: str) -> list[Value]:
    return [measure(name).read(each) for name in names]


def _more_answers(each: Row) -> tuple[str, ...]:
    unread = number(each, "n_unreadable_answers")
    return (f"+{count(unread)} answers",) * bool(unread)


def rates_table(rows: Sequence[Row]) -> Table:
    """Return all rates of every row, with the counts of excluded trials."""
    table = Table(
        name="rates",
        caption="Attack success rate (ASR), and accuracy before and after",
        columns=(
            *LABELS,
            *_columns("asr", "asr_decided", "asr_valid", "accuracy", "chance", "accuracy_after"),
            *_columns("n_not_attackable", "n_already_wrong"),
            *columns(Format.COUNT, "Unreadable", "Failed"),
        ),
        rows=tuple(as_row(*labels(each), *_rates(each)) for each in rows),
        notes=(
            "Each rate: value, numerator/denominator, 95 % interval; below it, if answers were "
            "unreadable or failed, the ends of the interval with all of them at their worst.",
            *_methods(rows),
        ),
        n_labels=len(LABELS),
    )
    return judged_only(table, rows)


def judged_only(table: Table, rows: Sequence[Row]) -> Table:
    """Leave out the columns of rates if no row has answers that are right or wrong.

    Args:
        table: a table of them.
        rows: of the summary; those of pairs without `max_change` are measured only.
    """
    if not rows or any(not each.get("n_measured") for each in rows):
        return table
    left_out = {measure(name).label for name in (*RATES, "chance")}
    kept = [i for i, column in enumerate(table.columns) if column.heading not in left_out]
    return replace(
        table,
        columns=tuple(table.columns[i] for i in kept),
        rows=tuple(replace(row, cells=tuple(row.cells[i] for i in kept)) for row in table.rows),
    )


def _rates(each: Row) -> list[Value | Cell]:
    above = each.get("above_chance") or {}
    p = () if above.get("p") is None else (f"p {_equals(above['p'])}",)
    at_baseline, in_attack = number(each, "n_failed_at_baseline"), number(each, "n_failed")
    return [
        _asr(each, *_at_worst(each, "asr")),
        *_read(each, "asr_decided"),
        valid_cell(each),
        Cell(value=measure("accuracy").read(each), lines=_at_worst(each, "accuracy")),
        Cell(value=measures.CHANCE.read(each), lines=p),
        Cell(value=measure("accuracy_after").read(each), lines=_at_worst(each, "accuracy_after")),
        number(each, "n_not_attackable"),
        number(each, "n_already_wrong"),
        Cell(
            value=number(each, "n_unreadable_at_baseline"),
            lines=_cut_off(each, "n_length_at_baseline"),
        ),
        Cell(
            value=at_baseline + in_attack,
            lines=(
                *((f"{count(at_baseline)} at baseline",) * bool(at_baseline)),
                *((f"{count(in_attack)} in attack",) * bool(in_attack)),
            ),
        ),
    ]


def _asr(each: Row, *lines: str) -> Cell:
    """Return ASR, and the rate over trials that tried an edit if some did not."""
    never, asked = number(each, "n_never_asked"), each.get("asr_asked")
    if never and is_estimate(asked):
        cell = Cell(value=read_share(asked))
        rate = f"{cell.text(Format.SHARE)} {cell.interval(Format.SHARE)}".strip()
        lines = (*lines, f"{rate} without {count(never)} never asked")
    return Cell(value=measure("asr").read(each), lines=lines)


def _at_worst(each: Row, name: str) -> tuple[str, ...]:
    return at_worst(each.get(name), each.get(f"{name}_bounds"))


def at_worst(
    estimate: Mapping[str, Any] | None, bounds: Sequence[float | None] | None
) -> tuple[str, ...]:
    """Return a line with the ends of an interval if open answers count at their worst.

    Args:
        estimate: the estimate with the interval.
        bounds: `[low, high]`; no line if they equal the interval's ends.
    """
    if not estimate or not bounds or None in bounds:
        return ()
    if list(bounds) == [estimate.get("low"), estimate.get("high")]:
        return ()
    return (f"at worst {interval({'low': bounds[0], 'high': bounds[1]})}",)


def _cut_off(each: Row, *fields: str, what: str = "") -> tuple[str, ...]:
    """Return a line with the number of replies cut off at `max_new_tokens`, if any."""
    n = sum(number(each, field) for field in fields)
    return (f"{count(n)} {what}cut off",) if n else ()


def _equals(p: float) -> str:
    text = probability(p)
    return text if text.startswith("<") else f"= {text}"


def _methods(rows: Sequence[Row]) -> tuple[str, ...]:
    found = {
        str(each[name].get("method"))
        for each in rows
        for name in RATES
        if is_estimate(each.get(name)) and each[name].get("method")
    }
    chance = [each.get("above_chance") or {} for each in rows]
    tests = {str(each["method"]) for each in chance if each.get("method")}
    intervals = (f"Intervals: {'; '.join(sorted(found))}.",) if found else ()
    return (*intervals, f"p beside chance: {'; '.join(sorted(tests))}.") if tests else intervals


def verdicts_table(rows: Sequence[Row]) -> Table:
    """Return how the trials ended; the counts add up."""
    shown = [measure(name) for name in _VERDICTS]
    return Table(
        name="verdicts",
        caption="Outcome of every trial",
        columns=(*LABELS, *(each.column for each in shown), *_columns("n_unreadable_answers")),
        rows=tuple(
            as_row(
                *labels(each),
                *_read(each, "n_items", "n_trials"),
                *(number(each, name) for name in _VERDICTS[2:]),
                Cell(
                    value=measure("n_unreadable_answers").read(each),
                    lines=(
                        *_cut_off(each, "n_length_answers"),
                        *_cut_off(each, "n_length_confidences", what="confidences "),
                    ),
                ),
            )
            for each in rows
        ),
        notes=(
            "Trials = already wrong + not attackable + unreadable at baseline + failed at "
            "baseline + eligible; eligible = flipped + held + measured + cut short + failed.",
            "Unreadable answers are answers to perturbed queries; cut off are those that ended at "
            "max_new_tokens (finish_reason = length).",
        ),
        n_labels=len(LABELS),
    )


_VERDICTS = tuple(each.name for each in measures.COUNTS)


def queries_table(rows: Sequence[Row]) -> Table:
    """Return the query ledger of every row."""
    odd = [name for name in ODD_QUERIES if any(number(each, name) for each in rows)]
    shown = [*measures.QUERIES, *measures.TO_SUCCESS, *map(measure, odd)]
    return measured(
        "queries",
        "Queries, and how many a success took",
        rows,
        shown,
        "Asked = paid + cached + failed. Ahead, baseline, other and interrupted are not part of "
        "asked.",
        *(f"{measure(name).label}: {measure(name).meaning}." for name in odd),
    )


def diversity_table(rows: Sequence[Row]) -> Table:
    """Return diversity and similarity of the successes, and any estimate in no other table."""
    names = ["diversity", "diversity_unbiased"]
    if any(is_estimate(each.get("prompt_similarity")) for each in rows):
        names.append("prompt_similarity")
    names += [
        name
        for name in OF_ANSWERS
        if any((each.get(name) or {}).get("value") is not None for each in rows)
    ]
    hidden = {*names, *ELSEWHERE, *OF_ANSWERS}
    hidden |= {one.name for one in measures.FAITHFULNESS}
    others = {
        name: None
        for each in rows
        for name, value in each.items()
        if is_estimate(value) and name not in hidden
    }
    return measured(
        "diversity",
        "Diversity of the successful replacements, and other measures",
        rows,
        [measure(name) for name in (*names, *others)],
        "Diversity is the Gini-Simpson index over the names that succeeded, within each seed and "
        "then averaged; the plain form is too low where successes are few.",
    )


def variants_table(rows: Sequence[Row]) -> Table | None:
    """Return ASR by class of the replacement; None if only `different` occurs."""
    classes = [each.get("asr_by_variant") or {} for each in rows]
    named = (one.read(each) for each in classes for one in measures.VARIANTS[:-1])
    if not any(isinstance(found, Estimate) and found.value for found in named):
        return None
    return Table(
        name="variants",
        caption="ASR by class of the replacement against the key; the classes sum to ASR",
        columns=(*LABELS, *(one.column for one in measures.VARIANTS)),
        rows=tuple(
            as_row(*labels(each), *(one.read(found) for one in measures.VARIANTS))
            for each, found in zip(rows, classes, strict=True)
        ),
        n_labels=len(LABELS),
    )


def tests_table(tests: Sequence[Mapping[str, Any]]) -> Table:
    """Return the paired comparisons, with raw and adjusted p."""
    names = ("comparison", "against", "dataset", "group", "victim")
    return Table(
        name="tests",
        caption="Paired comparisons",
        columns=(
            *columns(Format.TEXT, "Comparison", "Against", "Data set", "Group", "Victim"),
            *columns(Format.SCORE, "Only first, only second flipped"),
            *columns(Format.PROBABILITY, "p", "p, adjusted"),
            *columns(Format.TEXT, "Method"),
        ),
        rows=tuple(
            as_row(
                *(as_text(test.get(name)) for name in names),
                _statistic(test.get("statistic")),
                test.get("p"),
                test.get("p_adjusted"),
                as_text(test.get("method")),
            )
            for test in tests
        ),
        notes=("p is adjusted within its family.",),
    )


def _statistic(value: Any) -> Value:
    return value if isinstance(value, int | float) else as_text(value)


def specs_table(rows: Sequence[Row]) -> Table:
    """Return the parameters of every attack."""
    specs = {key_of(each.get("attack")): each for each in rows}
    return Table(
        name="specs",
        caption="Attacks and their parameters",
        columns=columns(Format.TEXT, "Attack", "Parameters"),
        rows=tuple(
            as_row(as_text(each.get("attack")), as_text(each.get("attack_spec") or NONE))
            for each in specs.values()
        ),
    )
