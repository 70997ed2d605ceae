"""Acceptance criteria and slices of a summary: sentences, cases and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from medstress.metrics.criteria import NOTHING_ATTACKED, PLACE
from medstress.metrics.old_stats.estimates import read_score, read_share
from medstress.metrics.slices import WIDE, is_too_small, told_cuts
from medstress.metrics.unreadable import victims_unread
from medstress.report.labels import LABELS, Row, labels
from medstress.report.sections import at_worst
from medstress.results.formats import as_text, decimal, plural
from medstress.results.junit import Case, Outcome
from medstress.results.measures import measure
from medstress.results.names import Names
from medstress.results.table import Cell, Column, Format, Table, as_row, columns

COMPLETE = "complete"
"""Name of the case of a run that may not be complete."""
MARKS = {True: "met", False: "missed", None: "not judged"}
"""How a verdict is written."""


def verdict(summary: Mapping[str, Any]) -> str | None:
    """Return the verdict on all criteria in one sentence; None without criteria."""
    names = Names(**summary.get("names") or {})
    judged = [_worded(each, names) for each in summary.get("requirements") or ()]
    if not judged:
        return None
    missed = [each for each in judged if each["met"] is False]
    if missed:
        is_are = "is" if len(missed) == 1 else "are"
        reasons = "; ".join(f"{name_of(each)}: {found_in(each)}" for each in missed)
        if len(judged) == 1:
            return f"The criterion is missed: {reasons}."
        return f"{len(missed)} of {_criteria(len(judged))} {is_are} missed: {reasons}."
    undecided = [each for each in judged if each["met"] is None]
    if any(not _is_idle(each) for each in undecided):
        return f"{_criteria(len(judged))}, not judged yet: the run is not complete."
    if undecided:
        reasons = "; ".join(f"{name_of(each)}: {found_in(each)}" for each in undecided)
        if len(judged) == 1:
            return f"The criterion is not judged: {reasons}."
        is_are = "is" if len(undecided) == 1 else "are"
        return f"{len(undecided)} of {_criteria(len(judged))} {is_are} not judged: {reasons}."
    found = "; ".join(f"{name_of(each)}: {found_in(each)}" for each in judged)
    if len(judged) == 1:
        return f"The criterion is met: {found}."
    return f"All {_criteria(len(judged))} are met: {found}."


def _is_idle(judged: Row) -> bool:
    """Return whether a criterion can never be judged, because nothing was attacked."""
    return judged["met"] is None and judged.get("reason") == NOTHING_ATTACKED


def _worded(judged: Row, names: Names) -> Row:
    """Return a criterion with names in words where it speaks of an attack or a place."""
    found = {**judged}
    for part in ("where", "row"):
        if judged.get(part):
            found[part] = {
                name: names.of(name, value) if name in PLACE else value
                for name, value in judged[part].items()
            }
    return found


def _criteria(n: int) -> str:
    return plural(n, "criterion", "criteria")


def name_of(judged: Row) -> str:
    """Return what a criterion demands, in a few words; shares in per cent, as sentences say them.

    >>> name_of({"metric": "asr", "at_budget": 8, "where": {"group": "drugs"},
    ...          "bound": {"max_high": 0.2}})
    'ASR at 8 queries of drugs at most 20 %'
    """
    ((kind, limit),) = judged["bound"].items()
    return f"{wanted(judged)} {_AT[kind]} {_said(judged, limit)}"


_AT = {"max_high": "at most", "min_low": "at least"}


def _said(judged: Row, value: float) -> str:
    """Write a number as a sentence on a criterion says it: shares in per cent."""
    is_share = measure(judged["metric"].rpartition(".")[2]).format is Format.SHARE
    if not is_share or judged.get("against") is not None:
        return decimal(value)
    return f"{100 * value:.1f}".removesuffix(".0") + " %"


def limit_of(judged: Row) -> str:
    """Return the limit of a criterion, such as `at most .200`."""
    ((kind, limit),) = judged["bound"].items()
    return f"{_AT[kind]} {decimal(limit)}"


def wanted(judged: Row) -> str:
    """Return what a criterion limits, such as `ASR of drugs`."""
    words = [measure(judged["metric"].rpartition(".")[2]).label]
    if judged.get("control") is not None:
        words.append(f"({judged['control']})")
    if judged.get("at_budget") is not None:
        words.append(f"at {plural(judged['at_budget'], 'query', 'queries')}")
    if judged.get("where"):
        words.append(f"of {', '.join(judged['where'].values())}")
    if judged.get("slice") is not None:
        asked = judged["slice"]
        words.append(f"in every slice by {asked['by']}")
    if judged.get("against") is not None:
        words.append(f"minus that of {judged['against']['run']}")
    return " ".join(words)


def found_in(judged: Row) -> str:
    """Return what a criterion found, and in which row."""
    parts = []
    if (estimate := judged.get("estimate")) and estimate["value"] is not None:
        parts.append(_said(judged, estimate["value"]))
        parts += _ends_said(judged, estimate)
    if reason := _end_missed(judged) or judged.get("reason"):
        parts.append(str(reason))
    if row := judged.get("row"):
        sliced = judged.get("slice") or {}
        where = [row[name] for name in PLACE]
        if "value" in sliced:
            where.append(f"{sliced['by']} = {sliced['value']}")
        parts.append(f"in {', '.join(where)}")
    note = f"; note: {judged['caution']}" if judged.get("caution") else ""
    return ", ".join(parts) + note


def _ends_said(judged: Row, estimate: Row) -> Iterator[str]:
    """Say the interval that is judged, and why it is wider than that of the estimate."""
    low, high = judged.get("bounds") or (None, None)
    if low is None or high is None:
        return
    ends = f"{_said(judged, low).removesuffix(' %')} to {_said(judged, high)}"
    own = (estimate["low"], estimate["high"])
    if None in own or (low >= own[0] and high <= own[1]):
        yield ends
    else:
        open_ = "unreadable or failed answer"
        if judged["metric"] == "asr_valid":
            open_ += " and every open label"
        yield f"{ends} if every {open_} went the worst way"


def _end_missed(judged: Row) -> str | None:
    """Say which end of the interval misses the limit; None if that is not why it is missed."""
    ((kind, limit),) = judged["bound"].items()
    low, high = judged.get("bounds") or (None, None)
    if judged["met"] is not False or low is None or high is None:
        return None
    if kind == "max_high" and high > limit:
        return f"so the upper end is above {_said(judged, limit)}"
    if kind == "min_low" and low < limit:
        return f"so the lower end is below {_said(judged, limit)}"
    return None


def _ends(judged: Row) -> str:
    low, high = judged.get("bounds") or (None, None)
    return "" if low is None or high is None else f"[{decimal(low)}, {decimal(high)}]"


def _estimated(judged: Row) -> Cell:
    """Return the estimate that a criterion judges, and its ends at their worst."""
    estimate, name = judged.get("estimate"), str(judged["metric"]).rpartition(".")[2]
    if estimate is None:
        return Cell(value=None)
    is_share = measure(name).format is Format.SHARE and judged.get("against") is None
    value = read_share(estimate) if is_share else read_score(estimate)
    return Cell(value=value, lines=at_worst(estimate, judged.get("bounds")))


def faults(summary: Mapping[str, Any], allowed: int) -> Iterator[Case]:
    """Yield what kept a run from measuring, as errors; what is in order, as cases that are ok.

    Args:
        summary: as `summary --json`.
        allowed: `max_failed` of the experiment.
    """
    failed = sum(row["n_failed"] + row["n_failed_at_baseline"] for row in summary["results"])
    yield _case(
        "trials", failed <= allowed, f"{plural(failed, 'trial')} failed, {allowed:,} may fail"
    )
    unread = list(victims_unread(summary))
    found = f"every answer of {', '.join(unread)} is unreadable" if unread else "answers are read"
    yield _case("answers", not unread, found)
    is_final = bool(summary["experiment"]["complete"])
    yield _case(COMPLETE, is_final, "complete" if is_final else "the run is not complete")


def _case(name: str, is_ok: bool, message: str) -> Case:
    return Case(name=name, outcome=Outcome.OK if is_ok else Outcome.ERROR, message=message)


def cases(summary: Mapping[str, Any], allowed: int) -> list[Case]:
    """Return the verdicts of a run: its criteria, then what may have kept it from measuring."""
    outcomes = {True: Outcome.OK, False: Outcome.FAILED, None: Outcome.ERROR}
    judged = [
        Case(
            name=f"{wanted(each)} {limit_of(each)}",
            outcome=Outcome.ERROR if each.get("fault") else outcomes[each["met"]],
            message=found_in(each),
        )
        for each in summary.get("requirements") or ()
    ]
    return [*judged, *faults(summary, allowed)]


def misses(summary: Mapping[str, Any]) -> bool:
    """Return True if a criterion is missed, or cannot be judged although the run is complete."""
    return any(each["met"] is False or _is_idle(each) for each in summary.get("requirements") or ())


def requirements_table(requirements: Sequence[Mapping[str, Any]]) -> Table:
    """Return the acceptance criteria and whether each is met."""
    return Table(
        name="requirements",
        caption="Acceptance criteria",
        columns=(
            *columns(Format.TEXT, "Verdict", "Criterion"),
            *columns(Format.SHARE, "Estimate"),
            *columns(Format.TEXT, "Worst row", "Why"),
        ),
        rows=tuple(
            as_row(
                MARKS[each["met"]],
                f"{wanted(each)} {limit_of(each)}",
                _estimated(each),
                _worst_row(each),
                as_text(each.get("reason")),
            )
            for each in requirements
        ),
        notes=(
            "A criterion is judged by the end of the 95 % interval in the row that is worst off, "
            "unreadable and failed answers at their worst.",
        ),
    )


def _worst_row(judged: Row) -> str:
    row, sliced = judged.get("row"), judged.get("slice") or {}
    shown = [row[name] for name in PLACE] if row else []
    if "value" in sliced:
        shown.append(f"{sliced['by']} = {sliced['value']}")
    return as_text(", ".join(shown) or None)


def _columns(*names: str) -> list[Column]:
    return [measure(name).column for name in names]


def slices_table(rows: Sequence[Row], slicing: Mapping[str, Any] | None = None) -> Table:
    """Return accuracy and ASR of every slice."""
    return Table(
        name="slices",
        caption=f"Slices of the data, {(slicing or {}).get('label', 'simultaneous intervals')}",
        columns=(
            *LABELS,
            *columns(Format.TEXT, "Slice"),
            *_columns("n_items", "accuracy", "asr"),
            *columns(Format.SCORE, "ASR, shrunken"),
        ),
        rows=tuple(_slice(each) for each in rows),
        notes=slice_notes(slicing),
        n_labels=len(LABELS),
    )


def worst_table(slicing: Mapping[str, Any]) -> Table:
    """Return the worst slice of every attack and property."""
    return Table(
        name="worst-slices",
        caption="The worst slice by each property",
        columns=(
            *LABELS,
            *columns(Format.TEXT, "Slice"),
            *_columns("n_items", "accuracy", "asr"),
            *columns(Format.SCORE, "ASR, shrunken"),
        ),
        rows=tuple(_slice(each) for each in slicing["worst"]),
        notes=("The highest ASR after shrinkage; of those that tie, the highest plain ASR.",),
        n_labels=len(LABELS),
    )


def _slice(each: Row) -> Any:
    is_measured = each["asr"]["value"] is not None
    small = ("too few items to say anything",) * (is_measured and is_too_small(each))
    return as_row(
        *labels(each),
        f"{each['by']} = {each['value']}",
        *(measure(name).read(each) for name in ("n_items", "accuracy")),
        Cell(value=measure("asr").read(each), lines=(*_at_worst(each), *small)),
        Cell(value=each.get("asr_shrunken"), lines=compared(each)),
    )


def compared(each: Row) -> tuple[str, ...]:
    """Say of a worst slice that it is not worse than others, or that there are none."""
    if each.get("differs", True):
        return ()
    if each["differs"] is None:
        only = "the only slice" if each["n_slices"] == 1 else "no other slice to compare with"
        return (only,)
    return ("no slice differs from the others beyond chance",)


def _at_worst(each: Row) -> tuple[str, ...]:
    return at_worst(each["asr"], each.get("asr_bounds"))


def slice_notes(slicing: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return sentences on how slices were made and estimated."""
    if slicing is None:
        return ()
    cuts = told_cuts(slicing["cuts"])
    return (
        "The intervals of all slices of one attack hold at once; slices by type may overlap.",
        f"ASR, shrunken: {slicing['shrinkage']}. It picks the worst slice.",
        f"Too few items to say anything: the interval of ASR is wider than {WIDE:g}.",
        *((f"Thirds, cut before the first query: {cuts}.",) if cuts else ()),
    )
