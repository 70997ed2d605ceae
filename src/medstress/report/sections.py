"""The tables of the report, each a pure function of the summary's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from medstress.metrics.success import at_budget
from medstress.report.formats import NONE, count, decimal, probability
from medstress.report.tables import (
    Cell,
    Row,
    Table,
    at_worst,
    is_estimate,
    label_cell,
    measure,
    number,
    p_cell,
    score_cell,
    share_cell,
    short_labels,
    tally,
    words,
)
from medstress.report.validity import valid_cell

VERDICTS = (
    ("already wrong", "n_already_wrong"),
    ("not attackable", "n_not_attackable"),
    ("unreadable at baseline", "n_unreadable_at_baseline"),
    ("failed at baseline", "n_failed_at_baseline"),
    ("eligible", "n_eligible"),
    ("flipped", "n_flipped"),
    ("held", "n_held"),
    ("measured", "n_measured"),
    ("cut short", "n_cut_short"),
    ("failed", "n_failed"),
)
QUERIES = ("asked", "paid", "cached", "failed", "ahead", "baseline", "other", "interrupted")
VARIANTS = ("same_words", "key_plus_words", "key_subset", "synonym", "different")
RATES = ("accuracy", "accuracy_after", "asr", "asr_decided", "asr_valid")
SHARES = (*RATES, "asr_gated", "control")
"""Metrics that are shares of trials, with hits to show."""
OF_ATTEMPTS = ("asr_gated", "mention_rate", "unfaithful")
"""Shown beside attempts and tests."""
OF_ANSWERS = {"letter_mass": "Mass on option letters", "chose_edited": "Chose the edited option"}
"""Shown where some row has them."""
_COLUMN = "Attack, data, victim"


def headline_rows(summary: Mapping[str, Any]) -> list[Row]:
    """One row per (data set, group, victim, attack): its only seed's, else the pooled one."""
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


def rates_table(rows: Sequence[Row]) -> Table:
    """Every rate of every row, with what was left out beside it."""
    return Table(
        name="rates",
        caption="Attack success rate (ASR), and accuracy before and after",
        columns=(
            _COLUMN,
            "ASR",
            "ASR, decided trials",
            "ASR, valid successes",
            "Accuracy before",
            "Chance",
            "Accuracy after",
            "Not attackable",
            "Already wrong",
            "Unreadable",
            "Failed",
        ),
        rows=tuple(_rates(row) for row in rows),
        note="Each rate: value, numerator/denominator, 95 % interval; below it, where answers were "
        "unreadable or failed, its ends with all of them at their worst. " + _methods(rows),
    )


def _rates(row: Row) -> tuple[Cell, ...]:
    eligible, flipped = number(row, "n_eligible"), number(row, "n_flipped")
    asked = eligible + number(row, "n_already_wrong") + number(row, "n_unreadable_at_baseline")
    above = row.get("above_chance") or {}
    p = () if above.get("p") is None else (f"p {_equals(above['p'])}",)
    at_baseline, in_attack = number(row, "n_failed_at_baseline"), number(row, "n_failed")
    asr = at_worst(
        share_cell(row.get("asr"), flipped, eligible), row.get("asr"), row.get("asr_bounds")
    )
    return (
        label_cell(row),
        replace(asr, lines=asr.lines + _never_asked(row)),
        share_cell(row.get("asr_decided"), flipped, flipped + number(row, "n_held")),
        valid_cell(row),
        at_worst(
            share_cell(row.get("accuracy"), eligible, asked),
            row.get("accuracy"),
            row.get("accuracy_bounds"),
        ),
        measure(row.get("chance"), *p),
        at_worst(
            share_cell(row.get("accuracy_after"), eligible - flipped, asked),
            row.get("accuracy_after"),
            row.get("accuracy_after_bounds"),
        ),
        tally(number(row, "n_not_attackable")),
        tally(number(row, "n_already_wrong")),
        tally(number(row, "n_unreadable_at_baseline"), *_cut_off(row, "n_length_at_baseline")),
        tally(
            at_baseline + in_attack,
            *((f"{count(at_baseline)} at baseline",) * bool(at_baseline)),
            *((f"{count(in_attack)} in attack",) * bool(in_attack)),
        ),
    )


def _cut_off(row: Row, field: str, what: str = "") -> tuple[str, ...]:
    """How many replies ended at the most tokens they might have, where some did."""
    n = number(row, field)
    return (f"{count(n)} {what}cut off",) if n else ()


def _never_asked(row: Row) -> tuple[str, ...]:
    """What ASR is among the trials that tried an edit, where some did not."""
    never, asked = number(row, "n_never_asked"), row.get("asr_asked")
    if not never or not is_estimate(asked):
        return ()
    return (f"{decimal(asked['value'])} without {count(never)} never asked",)


def _equals(p: float) -> str:
    text = probability(p)
    return text if text.startswith("<") else f"= {text}"


def _methods(rows: Sequence[Row]) -> str:
    found = {
        str(row[name].get("method"))
        for row in rows
        for name in RATES
        if is_estimate(row.get(name)) and row[name].get("method")
    }
    chance = [row.get("above_chance") or {} for row in rows]
    tests = {str(each["method"]) for each in chance if each.get("method")}
    said = f"Intervals: {'; '.join(sorted(found))}. " if found else ""
    return said + (f"p beside chance: {'; '.join(sorted(tests))}." if tests else "")


def verdicts_table(rows: Sequence[Row]) -> Table:
    """How the trials ended; the counts add up."""
    return Table(
        name="verdicts",
        caption="What became of every trial",
        columns=(
            _COLUMN,
            "Items",
            "Trials",
            *(name.capitalize() for name, _ in VERDICTS),
            "Unreadable answers",
        ),
        rows=tuple(
            (
                label_cell(row),
                tally(row.get("n_items")),
                tally(row.get("n_trials")),
                *(tally(number(row, field)) for _, field in VERDICTS),
                tally(
                    row.get("n_unreadable_answers"),
                    *_cut_off(row, "n_length_answers"),
                    *_cut_off(row, "n_length_confidences", "confidences "),
                ),
            )
            for row in rows
        ),
        note="Trials = already wrong + not attackable + unreadable at baseline + failed at "
        "baseline + eligible; eligible = flipped + held + measured + cut short + failed. "
        "Unreadable answers are answers to perturbed queries; cut off are those that ended at "
        "max_new_tokens (finish_reason = length).",
    )


def queries_table(rows: Sequence[Row]) -> Table:
    """The query ledger of every row."""
    odd = {"n_unchanged": "Unchanged", "n_ties": "Ties"}
    shown = {name: head for name, head in odd.items() if any(number(row, name) for row in rows)}
    return Table(
        name="queries",
        caption="Queries, and how many a success took",
        columns=(
            _COLUMN,
            *(name.capitalize() for name in QUERIES),
            "To success, median",
            "To success, mean",
            *shown.values(),
        ),
        rows=tuple(
            (
                label_cell(row),
                *(tally((row.get("queries") or {}).get(name)) for name in QUERIES),
                tally((row.get("queries_to_success") or {}).get("median")),
                tally((row.get("queries_to_success") or {}).get("mean")),
                *(tally(row.get(name)) for name in shown),
            )
            for row in rows
        ),
        note="Asked = paid + cached + failed. Ahead, baseline, other and interrupted stand "
        "beside them and are not part of asked."
        + " Unchanged: queries that put in the name that stood there." * ("n_unchanged" in shown)
        + " Ties: answers, to clean items too, in which a hash chose among equal scores."
        * ("n_ties" in shown),
    )


def diversity_table(rows: Sequence[Row]) -> Table:
    """Diversity and similarity of the successes, and any estimate named nowhere else."""
    known = {"diversity": "Diversity, plain", "diversity_unbiased": "Diversity, unbiased"}
    if any(is_estimate(row.get("prompt_similarity")) for row in rows):
        known["prompt_similarity"] = "Prompt similarity"
    known |= {
        name: head
        for name, head in OF_ANSWERS.items()
        if any((row.get(name) or {}).get("value") is not None for row in rows)
    }
    shown = {*known, *RATES, *OF_ATTEMPTS, *OF_ANSWERS, "asr_asked"}
    others = {
        name: name.replace("_", " ").capitalize()
        for row in rows
        for name, value in row.items()
        if is_estimate(value) and name not in shown
    }
    columns = known | others
    return Table(
        name="diversity",
        caption="Diversity of the successful replacements, and other measures",
        columns=(_COLUMN, *columns.values()),
        rows=tuple(
            (label_cell(row), *(score_cell(row.get(name)) for name in columns)) for row in rows
        ),
        note="Diversity is the Gini-Simpson index over the names that succeeded, within each seed "
        "and then averaged; the plain form is too low where successes are few.",
    )


def variants_table(rows: Sequence[Row]) -> Table | None:
    """ASR by class of the replacement, where a class other than `different` occurs."""
    classes = [row.get("asr_by_variant") or {} for row in rows]
    named = (each.get(name) for each in classes for name in VARIANTS[:-1])
    if not any(is_estimate(found) and found["value"] for found in named):
        return None
    return Table(
        name="variants",
        caption="ASR by class of the replacement against the key; the classes sum to ASR",
        columns=(_COLUMN, *(name.replace("_", " ").capitalize() for name in VARIANTS)),
        rows=tuple(
            (label_cell(row), *(share_cell(each.get(name)) for name in VARIANTS))
            for row, each in zip(rows, classes, strict=True)
        ),
    )


def slices_table(rows: Sequence[Row]) -> Table:
    """Accuracy and ASR of every slice."""
    return Table(
        name="slices",
        caption="Slices of the data (simultaneous intervals)",
        columns=(_COLUMN, "Slice", "Items", "Accuracy", "ASR"),
        rows=tuple(
            (
                label_cell(row),
                Cell(text=f"{row.get('by')} = {row.get('value')}", numeric=False),
                tally(row.get("n_items")),
                share_cell(row.get("accuracy")),
                share_cell(row.get("asr")),
            )
            for row in rows
        ),
    )


def tests_table(tests: Sequence[Mapping[str, Any]]) -> Table:
    """The paired comparisons, with raw and adjusted p."""
    return Table(
        name="tests",
        caption="Paired comparisons",
        columns=(
            "Comparison",
            "Against",
            "Data set",
            "Group",
            "Victim",
            "Only first, only second flipped",
            "p",
            "p, adjusted",
            "Method",
        ),
        rows=tuple(
            (
                words(test.get("comparison")),
                words(test.get("against")),
                words(test.get("dataset")),
                words(test.get("group")),
                words(test.get("victim")),
                _statistic(test.get("statistic")),
                p_cell(test.get("p")),
                p_cell(test.get("p_adjusted")),
                words(test.get("method")),
            )
            for test in tests
        ),
        note="p is adjusted within its family.",
    )


def _statistic(value: Any) -> Cell:
    return measure(value) if isinstance(value, int | float) else words(value)


def requirements_table(requirements: Sequence[Mapping[str, Any]]) -> Table:
    """The acceptance criteria and whether each is met."""
    return Table(
        name="requirements",
        caption="Acceptance criteria, fixed before the first query",
        columns=("Metric", "At budget", "Where", "Bound", "Estimate", "Met"),
        rows=tuple(
            (
                words(each.get("metric")),
                tally(each.get("at_budget")),
                words(each.get("where")),
                words(each.get("bound")),
                _judged(each),
                Cell(text="met" if each.get("met") else "not met", numeric=False),
            )
            for each in requirements
        ),
    )


def _judged(requirement: Mapping[str, Any]) -> Cell:
    """What a criterion was judged by: the estimate, and its ends at their worst."""
    is_share = requirement.get("metric") in SHARES
    cell = (share_cell if is_share else score_cell)(requirement.get("estimate"))
    return at_worst(cell, requirement.get("estimate"), requirement.get("bounds"))


def forest_data(rows: Sequence[Row]) -> Table:
    """The numbers of the forest plot."""
    return Table(
        name="forest-data",
        caption="Attack success rate with 95 % interval, as plotted",
        columns=("Row", "ASR"),
        rows=tuple(
            (
                Cell(text=label, numeric=False),
                share_cell(row.get("asr"), number(row, "n_flipped"), number(row, "n_eligible")),
            )
            for label, row in zip(short_labels(rows), rows, strict=True)
        ),
    )


def curves_data(name: str, title: str, rows: Sequence[Row]) -> Table:
    """The numbers of one panel of ASR-by-budget curves."""
    budgets = sorted({point["budget"] for row in rows for point in row.get("asr_at") or ()})
    curves = [row.get("asr_at") or () for row in rows]
    return Table(
        name=name,
        caption=f"ASR within a budget of queries, as plotted: {title}",
        columns=("Budget", *short_labels(rows)),
        rows=tuple(
            (
                Cell(text=count(budget), sort=budget),
                *(share_cell(at_budget(points, budget)) for points in curves),
            )
            for budget in budgets
        ),
    )


def specs_table(rows: Sequence[Row]) -> Table:
    """The parameters of every attack."""
    specs = {str(row.get("attack")): row.get("attack_spec") for row in rows}
    return Table(
        name="specs",
        caption="Attacks and their parameters",
        columns=("Attack", "Parameters"),
        rows=tuple((words(name), words(spec or NONE)) for name, spec in specs.items()),
    )
