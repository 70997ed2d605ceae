"""What attacks that put in names tried, which names succeed, and how success goes with the edit.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025 (Appendix: words replaced and inserted).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from medstress.analyses.diversity import Diversity
from medstress.analyses.results import diversity_of
from medstress.analyses.run import Analysis, Cell, Run
from medstress.analyses.shown import (
    Chart,
    Field,
    OfAttack,
    Point,
    Shown,
    Table,
    attack_labels,
    column,
    label,
    panel,
    table,
)
from medstress.core.items import Question
from medstress.core.text import Edit, edit_distance
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate
from medstress.stats.resampling import item_mean
from medstress.stats.shares import number_units, rate
from medstress.store.trials import Substitutions

EDIT_DISTANCE = "edit_distance"
"""Reason for leaving out a name that depends on the span."""
CHARACTERS = (0, 5, 10, 15, 20, 30)
"""Lower ends of the classes of edit distance in characters; the last is open."""
MOST_WORDS = 6
"""The largest number of words with a class of its own; the last class is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(OfAttack):
    """The names of one attack's successes."""

    n_successes: int
    n_names: int
    """Different names among them, case ignored."""
    indices: Diversity


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage(OfAttack):
    """How much of what it may put in an attack tried; a name counts once a span.

    Spans of an item that were never asked count in the denominator: an attack that tries all names
    in one of three options has not tried "every allowed name".
    """

    n_items: int
    """Items with a query."""
    n_spans: int
    """Their spans that names may replace."""
    n_spans_asked: int
    n_tried: int
    """Different (span, name)."""
    n_allowed: int
    """All (span, name), in spans that were never asked too."""
    n_distinct: int
    """Different names over all items."""
    n_names: int
    """Names of the vocabulary."""
    share: Estimate
    """Mean over items of tried / allowed, over all spans."""
    share_of_asked: Estimate
    """The same over the spans that were asked."""


Unit: TypeAlias = Literal["words", "characters", "tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BySize(OfAttack):
    """Success of first queries by the size of their edit.

    Later queries are asked only where earlier ones failed: their success is that of ever harder
    items.
    """

    unit: Unit
    """`words`: replaced by inserted, white-space words; else an edit distance."""
    low: int
    """Least distance of the class; words replaced."""
    high: int | None
    """Largest distance, None in an open class; words inserted."""
    n_items: int
    asr_at_1: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Names(Shown):
    """Names that succeed, names that were tried, and the size of edits."""

    named: Sequence[Named]
    coverage: Sequence[Coverage]
    sizes: Sequence[BySize]
    title = "Names and edits"

    def tables(self) -> Sequence[Table]:
        """Diversity, coverage, and success by the size of the edit."""
        by_seed = "Within a seed, then averaged; the plain index grows with the successes."
        of_spans = (
            "A name counts once a span; spans that were never asked count too. What was not tried "
            "may succeed."
        )
        sizes: Mapping[Unit, tuple[str, Sequence[Field[BySize]]]] = {
            "words": ("words replaced and inserted", WORDS),
            "characters": ("edit distance in characters", DISTANCES),
            "tokens": ("edit distance in words", DISTANCES),
        }
        named, tried = (
            "How many different names succeed",
            "How much of what may be put in was tried",
        )
        return [
            table("diversity", named, self.named, NAMED, notes=[by_seed]),
            table("coverage", tried, self.coverage, COVERAGE, notes=[of_spans]),
            *(
                table(
                    f"edit-{unit}",
                    f"Success of the first query by {words}",
                    [row for row in self.sizes if row.unit == unit],
                    fields,
                )
                for unit, (words, fields) in sizes.items()
            ),
        ]

    def charts(self) -> Sequence[Chart]:
        """Success of first queries by words replaced and inserted."""
        rows = [row for row in self.sizes if row.unit == "words"]
        if len({(row.low, row.high) for row in rows}) < 2:
            return ()
        points = [
            Point(
                _words(row.high or 0),
                row.asr_at_1,
                _words(row.low),
                f"{label(row.attack).words}, {panel(row, rows)}",
            )
            for row in rows
        ]
        title = "Lost at the first query, by words replaced (rows) and inserted (columns)"
        y = "share of right answers lost"
        return [Chart("words", title, "heat", "words inserted", y, points)]


def names_of(run: Run) -> Names | None:
    """Compute it for attacks on questions; None where no attack edits one."""
    cells = [
        cell
        for cell in run.attacks
        if cell.eligible.any() and cell.trials[0].item.kind == Question.kind
    ]
    sizes = by_size(run, cells)
    naming = [cell for cell in cells if cell.attack.draws_names]
    if not (naming or sizes):
        return None
    named = [_named(run, cell) for cell in naming]
    return Names(named=named, coverage=coverage(run, naming), sizes=sizes)


NAMES = Analysis("names", names_of)


def _named(run: Run, cell: Cell) -> Named:
    names = [t.first.name for t in cell.trials if t.first is not None and t.first.name is not None]
    indices, n = diversity_of(run, cell), len(set(names))
    return Named(**cell.labels, n_successes=len(names), n_names=n, indices=indices)


# Coverage --------------------------------------------------------------------------------------


def coverage(run: Run, cells: Sequence[Cell]) -> list[Coverage]:
    """Return the coverage of every attack that asked something."""
    groups: Mapping[str, Mapping[str, Any]] = run.manifest["groups"]
    counted = [cell for cell in cells if groups.get(cell.place.group, {}).get("n_names")]
    reader = _Spans(run, counted)
    return [row for cell in counted if (row := reader.coverage(cell)) is not None]


class _Spans:
    """Reads what was tried, and what may be put in, span by span."""

    def __init__(self, run: Run, cells: Sequence[Cell]) -> None:
        lines = run.folder.substitutions
        self._lines, self._groups = lines, run.manifest["groups"]
        numbers: dict[str, int] = {}
        folded = [numbers.setdefault(name.casefold(), len(numbers)) for name in lines.names]
        self._names, self._n_names = np.array(folded, dtype=np.int64)[lines.name], len(numbers)
        trials, starts = np.unique(lines.trial, return_index=True)
        self._start = dict(zip(trials.tolist(), starts.tolist(), strict=True))
        self._spans = {span: i for i, span in enumerate(lines.spans)}
        """Numbers of spans, those that were never asked as well."""
        trial_of = {t.number: t for cell in cells for t in cell.trials}
        pairs = np.unique(lines.trial * max(len(lines.spans), 1) + lines.span).tolist()
        asked = {
            (trial.arm.place.group, trial.item.id, pair % len(lines.spans)): trial.item
            for pair in pairs
            if (trial := trial_of.get(pair // len(lines.spans))) is not None
        }
        self._types: dict[str, set[str]] = defaultdict(set)
        """Types of the entities that were replaced, by group: others of these may be replaced."""
        for (group, _, span), item in asked.items():
            self._types[group].update(
                m.type for m in item.mentions if (m.field, m.start, m.end) == lines.spans[span]
            )

    def coverage(self, cell: Cell) -> Coverage | None:
        """Return the coverage of an attack; None if it asked nothing."""
        lines, field = self._lines, str(cell.attack.params.get("field") or "options")
        n_names = int(self._groups[cell.place.group]["n_names"])
        asked = [trial for trial in cell.trials if trial.number in self._start]
        if not asked:
            return None
        items = {item: i for i, item in enumerate(sorted({t.item.id for t in asked}))}
        spans: list[set[int]] = [set() for _ in items]
        allowed = np.zeros(len(items), dtype=np.int64)
        within: dict[tuple[int, int], int] = {}
        for trial in asked:
            i, excluded = items[trial.item.id], trial.excluded or {}
            beyond = excluded.get(EDIT_DISTANCE)
            n = max(n_names - sum(excluded.values()) + (beyond or 0), 0)
            allowed[i] = max(allowed[i], n)
            if beyond is not None:
                # What lies beyond the limit of edit distance is counted for the first span alone.
                at = i, int(lines.span[self._start[trial.number]])
                within[at] = max(within.get(at, 0), n - beyond, 0)
            spans[i].update(self._replaceable(trial, field))
        place_of_trial = np.full(int(lines.trial.max()) + 1, -1)
        place_of_trial[[t.number for t in asked]] = [items[t.item.id] for t in asked]
        item = place_of_trial[lines.trial]
        kept = item >= 0
        place_of = item[kept] * len(lines.spans) + lines.span[kept]
        pairs = np.unique(place_of * self._n_names + self._names[kept])
        keys, counts = np.unique(pairs // self._n_names, return_counts=True)
        tried = {
            divmod(key, len(lines.spans)): n
            for key, n in zip(keys.tolist(), counts.tolist(), strict=True)
        }
        for i, span in tried:
            spans[i].add(span)
        every = [
            [
                (tried.get((i, span), 0), within.get((i, span), int(allowed[i])))
                for span in sorted(of_item)
            ]
            for i, of_item in enumerate(spans)
        ]
        return Coverage(
            **cell.labels,
            n_items=len(items),
            n_spans=sum(map(len, every)),
            n_spans_asked=len(tried),
            n_tried=len(pairs),
            n_allowed=sum(allowed for of_item in every for _, allowed in of_item),
            n_distinct=len(np.unique(self._names[kept])),
            n_names=n_names,
            share=_mean_share(every),
            share_of_asked=_mean_share([[one for one in of_item if one[0]] for of_item in every]),
        )

    def _replaceable(self, trial: Trial, field: str) -> Iterator[int]:
        """Yield the spans of an item's field that names of the group may replace, asked or not."""
        item = trial.item
        key = set(item.key_text.casefold().split())
        for m in item.mentions:
            if m.type not in self._types[trial.arm.place.group]:
                continue
            if m.field in item.letters:
                fits = field == "options" and m.field != item.key
            else:
                # In a text, an entity that shares a word with the right answer gives it away.
                words = item.text_of(m.field)[m.start : m.end].casefold().split()
                fits = m.field == field and not key.intersection(words)
            if fits:
                yield self._spans.setdefault((m.field, m.start, m.end), len(self._spans))


def _mean_share(items: Sequence[Sequence[tuple[int, int]]]) -> Estimate:
    """Return the mean over items of names tried / allowed, given by span."""
    sums = np.array([np.sum(spans, axis=0) if spans else (0, 0) for spans in items]).reshape(-1, 2)
    n, of = sums.astype(np.float64).T
    return item_mean(np.divide(n, of, out=np.zeros(len(n)), where=of > 0))


# The size of edits -----------------------------------------------------------------------------


_Class: TypeAlias = tuple[Unit, int, int | None]
"""Unit, low and high of a `BySize`."""
_UNITS: Sequence[Unit] = ("words", "characters", "tokens")


def by_size(run: Run, cells: Sequence[Cell]) -> list[BySize]:
    """Return ASR(1) by words replaced x inserted, and by edit distance."""
    lines = run.folder.substitutions
    trials, starts = np.unique(lines.trial, return_index=True)
    bounds = [*starts.tolist(), len(lines.trial)]
    of_trial = dict(zip(trials.tolist(), pairwise(bounds), strict=True))
    rows: list[BySize] = []
    for cell in cells:
        classes: dict[_Class, list[tuple[Trial, bool]]] = defaultdict(list)
        for trial in (trial for trial in cell.trials if trial.number in of_trial):
            start, end = of_trial[trial.number]
            query = int(lines.query[start])
            is_success = trial.first is not None and trial.first.query == query
            for one in _sizes(_first_edits(trial, lines, start, end)):
                classes[one].append((trial, is_success))
        for unit, low, high in sorted(
            classes, key=lambda one: (_UNITS.index(one[0]), one[1], one[2] or 0)
        ):
            members = classes[unit, low, high]
            units = number_units([trial.path for trial, _ in members])
            rows.append(
                BySize(
                    **cell.labels,
                    unit=unit,
                    low=low,
                    high=high,
                    n_items=len(set(units[1].tolist())),
                    asr_at_1=rate(np.array([is_success for _, is_success in members]), units),
                )
            )
    return rows


def _first_edits(
    trial: Trial, lines: Substitutions, start: int, end: int
) -> Iterator[tuple[str, str]]:
    """Yield what the first query of a trial replaces, and what it puts in."""
    for i in range(start, end):
        if lines.query[i] != lines.query[start]:
            break
        new, (where, first, last) = lines.names[lines.name[i]], lines.spans[lines.span[i]]
        yield trial.item.replaced(Edit(field=where, start=first, end=last, replacement=new)), new


def _sizes(edits: Iterable[tuple[str, str]]) -> tuple[_Class, ...]:
    """Return the classes of one query's edits, given as (old, new)."""
    pairs = list(edits)
    replaced, inserted = (sum(len(pair[i].split()) for pair in pairs) for i in (0, 1))
    tokens = sum(edit_distance(old.split(), new.split()) for old, new in pairs)
    return (
        ("words", min(replaced, MOST_WORDS), min(inserted, MOST_WORDS)),
        ("characters", *_class_of(sum(edit_distance(old, new) for old, new in pairs))),
        ("tokens", min(tokens, MOST_WORDS), tokens if tokens < MOST_WORDS else None),
    )


def _class_of(characters: int) -> tuple[int, int | None]:
    """Return the ends of a class of edit distance.

    >>> _class_of(7), _class_of(99)
    ((5, 9), (30, None))
    """
    low = max(end for end in CHARACTERS if end <= characters)
    above = [end - 1 for end in CHARACTERS if end > low]
    return low, above[0] if above else None


# What is shown ---------------------------------------------------------------------------------


def _words(n: int) -> str:
    return f"{n} or more" if n == MOST_WORDS else str(n)


NAMED: Sequence[Field[Named]] = (
    *attack_labels(),
    column("Successes", "n_successes", "count"),
    column("Different names", "n_names", "count"),
    column("Diversity", "indices.diversity_unbiased", "score", "Gini-Simpson index, unbiased"),
    column("plain", "indices.diversity", "score", "as in the paper", wide=True),
    column("Prompt similarity", "indices.prompt_similarity", "score", "mean cosine", wide=True),
)
COVERAGE: Sequence[Field[Coverage]] = (
    *attack_labels(),
    column("Items", "n_items", "count", wide=True),
    column("Spans asked", "n_spans_asked", "count"),
    column("of", "n_spans", "count"),
    column("Tried", "share", "score", "of all allowed names, in all spans"),
    column("in asked spans", "share_of_asked", "score"),
    column("Different names", "n_distinct", "count"),
    column("of", "n_names", "count"),
)
_SUCCESS: Sequence[Field[BySize]] = (
    column("Items", "n_items", "count"),
    column("Lost at once", "asr_at_1", "share"),
)
WORDS: Sequence[Field[BySize]] = (
    *attack_labels(),
    column("Words replaced", lambda row: _words(row.low)),
    column("inserted", lambda row: _words(row.high or 0)),
    *_SUCCESS,
)
DISTANCES: Sequence[Field[BySize]] = (
    *attack_labels(),
    column("From", lambda row: str(row.low)),
    column("to", lambda row: "more" if row.high is None else str(row.high)),
    *_SUCCESS,
)
