"""The list of cases: its lines, what is searched, filtered and sorted, and its pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medstress.core.rows import TrialRow
from medstress.report.cases.building import Cases
from medstress.report.cases.words import VERDICTS
from medstress.results.formats import clean

Line = dict[str, Any]
"""One line of the list, as JSON."""

FACTORS = ("verdict", "attack", "dataset", "group", "victim", "valid", "confidence", "slice")
"""What the list is filtered by."""
SORTS = ("verdict", "attack", "dataset", "group", "item", "change", "valid", "confidence", "slice")
"""What the list is sorted by."""
MOST_VALUES = 500
"""Most values of one filter; a run may have thousands of groups."""
LONGEST = 200
"""Characters of a name in the list; the case itself has all of it."""
_VALID = {True: "yes", False: "no", None: "unknown"}
_ORDER = {verdict: place for place, verdict in enumerate(VERDICTS)}


def line_of(cases: Cases, trial: TrialRow) -> Line:
    """Return a trial's line of the list."""
    short = [None if text is None else _short(text) for text in (trial.replaced, trial.replacement)]
    return {
        "id": cases.ids[trial.trial_id],
        "verdict": trial.verdict.value,
        "attack": clean(trial.attack),
        "dataset": clean(trial.dataset),
        "group": clean(trial.group),
        "victim": clean(trial.victim),
        "item": _short(trial.item_id),
        "seed": trial.seed,
        "replaced": short[0],
        "replacement": short[1],
        "key": _short(trial.key),
        "before": _optional(trial.answer_before),
        "after": _optional(trial.answer_after),
        "confidence": _rounded(trial.score_before),
        "valid": trial.valid,
        "reason": _optional(trial.validity_reason),
        "slices": [[clean(by), clean(value)] for by, value in cases.slices(trial)],
    }


def _short(text: str) -> str:
    cleaned = clean(text)
    return cleaned if len(cleaned) <= LONGEST else cleaned[: LONGEST - 1] + "…"


def _optional(text: str | None) -> str | None:
    return None if text is None else _short(text)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def band(confidence: float | None) -> str:
    """Return the class of a clean P(key) that the list is filtered by.

    >>> band(0.3), band(0.95), band(None)
    ('below .5', '.9 and more', 'unknown')
    """
    if confidence is None:
        return "unknown"
    return "below .5" if confidence < 0.5 else ".5 to .9" if confidence < 0.9 else ".9 and more"


def values_of(line: Mapping[str, Any], factor: str) -> list[str]:
    """Return the values of a line that a filter may ask for."""
    if factor == "valid":
        return [_VALID[line["valid"]]]
    if factor == "confidence":
        return [band(line["confidence"])]
    if factor == "slice":
        return [f"{by} = {value}" for by, value in line["slices"]]
    return [line[factor]]


def facets(lines: Iterable[Line]) -> dict[str, list[list[Any]]]:
    """Return the values of each filter with how many lines have them, the most frequent first."""
    counted: dict[str, Counter[str]] = {factor: Counter() for factor in FACTORS}
    for line in lines:
        for factor in FACTORS:
            counted[factor].update(values_of(line, factor))
    return {
        factor: [[value, n] for value, n in found.most_common(MOST_VALUES)]
        for factor, found in counted.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Which lines a reader asks for."""

    filters: Mapping[str, str] = field(default_factory=dict)
    """Factor -> value."""
    search: str = ""
    """A text that the line or its question must hold, in any letter case."""
    sort: str = "verdict"
    """One of `SORTS`."""
    descending: bool = False


def wished(
    lines: Sequence[Line], wish: Wish, question_of: Callable[[int], str], names: Callable[..., str]
) -> list[Line]:
    """Return the lines that a reader asks for, in the order asked for.

    Args:
        lines: all lines.
        wish: filters, search and order.
        question_of: the text of the item of the i-th line.
        names: factor and key -> name in words, which is searched as well.
    """
    text = " ".join(wish.search.casefold().split())
    kept = [
        line
        for i, line in enumerate(lines)
        if all(value in values_of(line, factor) for factor, value in wish.filters.items())
        and (not text or text in _searched(line, names) or text in question_of(i))
    ]
    kept.sort(key=lambda line: _sort_key(line, "verdict"))
    kept.sort(key=lambda line: _sort_key(line, wish.sort), reverse=wish.descending)
    return kept


def _searched(line: Line, names: Callable[..., str]) -> str:
    keys = ("id", "item", "replaced", "replacement", "key", "before", "after", "reason")
    texts = [str(line[key]) for key in keys if line[key] is not None]
    for factor in ("attack", "dataset", "group", "victim"):
        texts += (line[factor], names(factor, line[factor]))
    texts += [f"{by} = {value}" for by, value in line["slices"]]
    return "\n".join(texts).casefold()


def _sort_key(line: Line, sort: str) -> tuple[Any, ...]:
    if sort == "verdict":
        place = (line["attack"], line["dataset"], line["group"], line["item"])
        return (_ORDER.get(line["verdict"], len(_ORDER)), *place)
    if sort == "confidence":
        return (line["confidence"] is None, line["confidence"] or 0.0)
    if sort == "change":
        return ((line["replaced"] or "").casefold(), (line["replacement"] or "").casefold())
    if sort in ("valid", "slice"):
        return tuple(values_of(line, sort))
    return (str(line[sort]).casefold(),)
