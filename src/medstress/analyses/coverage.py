"""What attacks that put in names tried, which names succeed, and how success goes with the edit.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025 (Appendix: words replaced and inserted).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from medstress.analyses import diversity
from medstress.analyses.as_json import FLAT
from medstress.analyses.run import Cell, Run
from medstress.analyses.shown import (
    Chart,
    Field,
    OfAttack,
    Point,
    Shown,
    Table,
    attack_labels,
    column,
    if_any,
    label,
    panel,
    place_labels,
    table,
)
from medstress.core.arms import Place
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Outcome, Verdict
from medstress.core.text import Edit, edit_distance
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate, with_worst
from medstress.stats.resampling import item_mean
from medstress.stats.shares import number_units, rate
from medstress.store.trials import Substitutions

R = TypeVar("R")
EDIT_DISTANCE = "edit_distance"
"""Reason for leaving out a name that depends on the span."""
CHARACTERS = (0, 5, 10, 15, 20, 30)
"""Lower ends of the classes of edit distance in characters; the last is open."""
BINS = 20
"""Equally large classes of names in a sweep."""
MOST_ITEMS = 100
"""Items of a sweep that are listed one by one."""
MOST_WORDS = 6
"""The largest number of words with a class of its own; the last class is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(OfAttack):
    """The names of one attack's successes."""

    n_successes: int
    n_names: int
    """Different names among them, case ignored."""
    indices: diversity.Diversity = field(metadata=FLAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of what it may put in an attack tried; a name counts once a span.

    Spans of an item that were never asked count in the denominator: an attack that tries all names
    in one of three options has not tried "every allowed name".
    """

    dataset: str
    group: str
    victim: str
    attack: str | None
    """None: all attacks of the place together."""
    n_items: int
    """Items with a query."""
    n_spans: int
    """Their spans that names may replace."""
    n_spans_asked: int
    n_tried: int
    """Different (span, name)."""
    n_allowed: int
    """All (span, name), in spans that were never asked too."""
    is_exact: bool
    """Whether `n_allowed` is known; else it is a vocabulary for each span."""
    n_distinct: int
    """Different names over all items."""
    n_names: int
    """Names of the vocabulary."""
    share: Estimate
    """Mean over items of tried / allowed, over all spans."""
    share_of_asked: Estimate
    """The same over the spans that were asked."""
    is_complete: bool
    """Whether every allowed name was tried in every span of every item."""

    @property
    def statement(self) -> str:
        """What was tried, in a sentence without its full stop."""
        if self.is_complete:
            return "every allowed name was tried in every span of every item"
        of = "allowed names" if self.is_exact else "names of the vocabulary (exclusions not known)"
        tried, allowed = self.n_tried / self.n_items, self.n_allowed / self.n_items
        spans = f"{self.n_spans_asked:,} of {self.n_spans:,} spans were asked"
        return (
            f"{tried:.4g} of {allowed:.6g} {of} were tried on an item "
            f"({self.share.value or 0:.2%}; {spans}); what was not tried may succeed"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """One of `BINS` equally large classes of names, from the nearest to the farthest."""

    low: float
    """Where it begins, as a share of the order of names."""
    high: float
    distance: tuple[float, float] | None
    """Mean distance at its ends over items; None where it is not stored."""
    success: Estimate
    """Share of its names on which the model errs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneItem:
    """One item of a sweep."""

    item_id: str
    distances: tuple[float, ...]
    """At the `BINS` + 1 ends of the classes; empty where they are not stored."""
    success: Sequence[float | None]
    """Of each class; None for a class without names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(OfAttack):
    """Success by distance, of an attack that asks every name."""

    n_items: int
    n_asked: int
    n_wrong: int
    classes: Sequence[Class]
    items: Sequence[OneItem]
    """The first `MOST_ITEMS`; all count in the shares."""


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
    sweeps: Sequence[Sweep]
    title = "Names and edits"

    def tables(self) -> Sequence[Table]:
        """Diversity, coverage, and success by the size of the edit."""
        by_seed = "Within a seed, then averaged; the plain index grows with the successes."
        of_spans = (
            "A name counts once a span; spans that were never asked count too. What was not tried "
            "may succeed."
        )
        by_class = "The names of every item, nearest first, in classes of equal size."
        classes = [(sweep, one) for sweep in self.sweeps for one in sweep.classes]
        sizes = [
            table(
                f"edit-{unit}",
                f"Success of the first query by {words}",
                [row for row in self.sizes if row.unit == unit],
                WORDS if unit == "words" else DISTANCES,
                n_labels=6,
            )
            for unit, words in (
                ("words", "words replaced and inserted"),
                ("characters", "edit distance in characters"),
                ("tokens", "edit distance in words"),
            )
        ]
        return [
            table(
                "diversity",
                "How many different names succeed",
                self.named,
                NAMED,
                n_labels=4,
                notes=[by_seed],
            ),
            table(
                "coverage",
                "How much of what may be put in was tried",
                self.coverage,
                COVERAGE,
                n_labels=4,
                notes=[of_spans],
            ),
            *sizes,
            table(
                "sweeps",
                "Names on which the model errs, by their distance to the right answer",
                classes,
                CLASSES,
                n_labels=4,
                notes=[by_class],
            ),
        ]

    def charts(self) -> Sequence[Chart]:
        """Success by distance, and of first queries by words replaced and inserted."""
        is_distance = all(one.distance is not None for row in self.sweeps for one in row.classes)
        rows = [row for row in self.sizes if row.unit == "words"]
        has_sizes = len({(row.low, row.high) for row in rows}) > 1
        return [
            Chart(
                name="sweeps",
                title="Names on which the model errs, by distance to the right answer",
                kind="lines",
                x="distance" if is_distance else "names, nearest first (share)",
                y="share of names",
                points=tuple(point for row in self.sweeps for point in _points(row)),
            ),
            Chart(
                name="words",
                title="Lost at the first query, by words replaced (rows) and inserted (columns)",
                kind="heat",
                x="words inserted",
                y="share of right answers lost",
                points=tuple(
                    Point(
                        x=_words(row.high or 0),
                        y=row.asr_at_1,
                        series=_words(row.low),
                        panel=f"{label(row.attack).words}, {panel(row, rows)}",
                    )
                    for row in rows
                    if has_sizes
                ),
            ),
        ]


class NamesOfRun:
    """Names that succeed, names that were tried, and the size of edits."""

    name = "names"

    def compute(self, run: Run) -> Names | None:
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
        return Names(
            named=[_named(run, cell) for cell in naming],
            coverage=coverage(run, naming),
            sizes=sizes,
            sweeps=sweeps(run, naming),
        )


NAMES = NamesOfRun()


def _named(run: Run, cell: Cell) -> Named:
    names = [t.first.name for t in cell.trials if t.first is not None and t.first.name is not None]
    return Named(
        **cell.place._asdict(),
        attack=cell.attack.label,
        n_successes=len(names),
        n_names=len(set(names)),
        indices=diversity.part(run, cell),
    )


# Coverage --------------------------------------------------------------------------------------


class _Tried(NamedTuple):
    """One span of one item under some attacks."""

    n_names: int
    """Different names that were put in; 0 where it was never asked."""
    n_allowed: int
    is_exact: bool


def coverage(run: Run, cells: Sequence[Cell]) -> list[Coverage]:
    """Return the coverage of every attack, then of all attacks of each place together."""
    groups: Mapping[str, Mapping[str, Any]] = run.manifest["groups"]
    counted = [cell for cell in cells if groups.get(cell.place.group, {}).get("n_names")]
    together: dict[Place, list[Cell]] = defaultdict(list)
    for cell in counted:
        together[cell.place].append(cell)
    rows = [(cell.attack.label, [cell]) for cell in counted]
    both = [*rows, *((None, arms) for arms in together.values() if len(arms) > 1)]
    reader = _Spans(run, counted)
    made = (reader.coverage(attack, arms) for attack, arms in both)
    return [row for row in made if row is not None]


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

    def coverage(self, attack: str | None, cells: Sequence[Cell]) -> Coverage | None:
        """Return the coverage of some attacks of one place; None if none of them asked anything."""
        place, lines = cells[0].place, self._lines
        n_names = int(self._groups[place.group]["n_names"])
        asked = [t for cell in cells for t in cell.trials if t.number in self._start]
        if not asked:
            return None
        items = {item: i for i, item in enumerate(sorted({t.item.id for t in asked}))}
        spans: list[set[int]] = [set() for _ in items]
        allowed, exact = np.zeros(len(items), dtype=np.int64), np.ones(len(items), dtype=bool)
        within: dict[tuple[int, int], int] = {}
        read: set[tuple[int, str]] = set()
        for trial in asked:
            i, excluded = items[trial.item.id], trial.excluded or {}
            beyond = excluded.get(EDIT_DISTANCE)
            n = max(n_names - sum(excluded.values()) + (beyond or 0), 0)
            allowed[i] = max(allowed[i], n)
            exact[i] &= trial.excluded is not None and beyond is None
            if beyond is not None:
                # What lies beyond the limit of edit distance is counted for the first span alone.
                at = i, int(lines.span[self._start[trial.number]])
                within[at] = max(within.get(at, 0), n - beyond, 0)
            field_of = trial.arm.attack.params.get("field") or "options"
            if (i, field_of) not in read:
                read.add((i, field_of))
                spans[i].update(self._replaceable(trial, field_of))
        of_item = np.full(int(lines.trial.max()) + 1, -1)
        of_item[[t.number for t in asked]] = [items[t.item.id] for t in asked]
        item = of_item[lines.trial]
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
                _Tried(
                    tried.get((i, span), 0),
                    within.get((i, span), int(allowed[i])),
                    bool(exact[i]) or (i, span) in within,
                )
                for span in sorted(spans[i])
            ]
            for i in range(len(items))
        ]
        flat = [one for of_one in every for one in of_one]
        is_exact = all(one.is_exact for one in flat)
        return Coverage(
            **place._asdict(),
            attack=attack,
            n_items=len(items),
            n_spans=len(flat),
            n_spans_asked=len(tried),
            n_tried=len(pairs),
            n_allowed=sum(one.n_allowed for one in flat),
            is_exact=is_exact,
            n_distinct=len(np.unique(self._names[kept])),
            n_names=n_names,
            share=_mean_share(every, unasked=True),
            share_of_asked=_mean_share(every, unasked=False),
            is_complete=is_exact and all(0 < one.n_allowed <= one.n_names for one in flat),
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


def _mean_share(items: Sequence[Collection[_Tried]], *, unasked: bool) -> Estimate:
    kept = [[t for t in spans if unasked or t.n_names] for spans in items]
    pairs = [(sum(t.n_names for t in spans), sum(t.n_allowed for t in spans)) for spans in kept]
    return item_mean(np.array([n / of if of else 0.0 for n, of in pairs]))


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
                    **cell.place._asdict(),
                    attack=cell.attack.label,
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


# Attacks that ask every name -------------------------------------------------------------------


class Swept(NamedTuple):
    """The answers to one item with every name, nearest first."""

    trial: Trial
    outcomes: Sequence[Outcome]


def sweeps(run: Run, cells: Sequence[Cell]) -> list[Sweep]:
    """Return success by distance for `exhaustive` attacks.

    Trials that did not end asked only the nearest names and are left out.
    """
    exhaustive = [cell for cell in cells if cell.attack.params.get("sampler") == "exhaustive"]
    rows = (sweep(cell, list(_swept(run, cell))) for cell in exhaustive)
    return [row for row in rows if row is not None]


def _swept(run: Run, cell: Cell) -> Iterator[Swept]:
    # A task reads the answers; only these attacks need one.
    from medstress.store.prompts import Prompts

    ended = {t.number: t for t in cell.trials if t.verdict in (Verdict.FLIPPED, Verdict.HELD)}
    prompts = Prompts(run.manifest)
    for number, queries in run.folder.answers([*ended]).items():
        trial = ended[number]
        # Deletions are probes, no names.
        outcomes = [
            prompts.prediction(
                cell.place.victim,
                cell.place.dataset,
                Candidate(item=trial.item, edits=edits),
                answers,
            ).outcome
            for edits, answers in queries
            if edits and all(edit.replacement for edit in edits)
        ]
        if outcomes:
            yield Swept(trial, outcomes)


def sweep(cell: Cell, swept: Sequence[Swept]) -> Sweep | None:
    """Return success by distance of one attack; None without an answer.

    Args:
        cell: the attack.
        swept: its trials with all their answers. An unreadable answer is not wrong, and may be.
    """
    # Sorted, so that sums of an extended run equal those of a fresh one.
    order = sorted(swept, key=lambda one: one.trial.item.id)
    if not order:
        return None
    classes = [np.array_split(np.array(one.outcomes, dtype=object), BINS) for one in order]
    ends = [one.trial.distances for one in order if len(one.trial.distances) == BINS + 1]
    mean_ends = np.mean(ends, axis=0).tolist() if ends else None
    return Sweep(
        **cell.place._asdict(),
        attack=cell.attack.label,
        n_items=len(order),
        n_asked=sum(len(one.outcomes) for one in order),
        n_wrong=sum(outcome is Outcome.WRONG for one in order for outcome in one.outcomes),
        classes=[
            Class(
                low=i / BINS,
                high=(i + 1) / BINS,
                distance=(mean_ends[i], mean_ends[i + 1]) if mean_ends else None,
                success=_errs([(one, parts[i]) for one, parts in zip(order, classes, strict=True)]),
            )
            for i in range(BINS)
        ],
        items=[
            OneItem(
                item_id=one.trial.item.id,
                distances=one.trial.distances if len(one.trial.distances) == BINS + 1 else (),
                success=[
                    float((part == Outcome.WRONG).mean()) if part.size else None for part in parts
                ],
            )
            for one, parts in [*zip(order, classes, strict=True)][:MOST_ITEMS]
        ],
    )


def _errs(parts: Sequence[tuple[Swept, NDArray[np.object_]]]) -> Estimate:
    """Estimate the share of names on which the model errs."""
    units = number_units([one.trial.path for one, part in parts for _ in part])
    answers = np.concatenate([part for _, part in parts])
    wrong, is_open = answers == Outcome.WRONG, answers == Outcome.UNREADABLE
    estimate = rate(wrong, units)
    return with_worst(estimate, estimate, rate(wrong | is_open, units))


# What is shown ---------------------------------------------------------------------------------


def _points(row: Sweep) -> Iterator[Point]:
    at = f"{label(row.attack).words}, {label(row.victim).words}, {row.group}"
    for one in row.classes:
        ends = one.distance or (one.low, one.high)
        # One item estimates nothing about others, so it has no interval.
        share = one.success if row.n_items > 1 else one.success.value
        if share is not None and one.success.value is not None:
            yield Point(x=sum(ends) / 2, y=share, series=at, panel=row.dataset)


def _words(n: int) -> str:
    return f"{n} or more" if n == MOST_WORDS else str(n)


NAMED: Sequence[Field[Named]] = (
    *attack_labels(lambda row: row),
    column("Successes", lambda row: row.n_successes, "count"),
    column("Different names", lambda row: row.n_names, "count"),
    column(
        "Diversity",
        lambda row: row.indices.diversity_unbiased,
        "score",
        tip="Gini-Simpson index, unbiased",
    ),
    column("plain", lambda row: row.indices.diversity, "score", tip="as in the paper", wide=True),
    column(
        "Prompt similarity",
        lambda row: if_any(row.indices.prompt_similarity),
        "score",
        tip="mean cosine",
        wide=True,
    ),
)
COVERAGE: Sequence[Field[Coverage]] = (
    column("Attack", lambda row: "all of them" if row.attack is None else label(row.attack)),
    *place_labels(lambda row: row),
    column("Items", lambda row: row.n_items, "count", wide=True),
    column("Spans asked", lambda row: row.n_spans_asked, "count"),
    column("of", lambda row: row.n_spans, "count", key="n_spans"),
    column("Tried", lambda row: row.share, "score", tip="of all allowed names, in all spans"),
    column("in asked spans", lambda row: row.share_of_asked, "score"),
    column("Different names", lambda row: row.n_distinct, "count"),
    column("of", lambda row: row.n_names, "count", key="n_names"),
)
_SUCCESS: Sequence[Field[BySize]] = (
    column("Items", lambda row: row.n_items, "count"),
    column("Lost at once", lambda row: row.asr_at_1, "share"),
)
WORDS: Sequence[Field[BySize]] = (
    *attack_labels(lambda row: row),
    column("Words replaced", lambda row: _words(row.low)),
    column("inserted", lambda row: _words(row.high or 0)),
    *_SUCCESS,
)
DISTANCES: Sequence[Field[BySize]] = (
    *attack_labels(lambda row: row),
    column("From", lambda row: row.low, "count"),
    column("to", lambda row: "more" if row.high is None else str(row.high)),
    *_SUCCESS,
)


CLASSES: Sequence[Field[tuple[Sweep, Class]]] = (
    *attack_labels(itemgetter(0)),
    column("Names from", lambda pair: pair[1].low, "number"),
    column("to", lambda pair: pair[1].high, "number"),
    column(
        "Distance from",
        lambda pair: pair[1].distance[0] if pair[1].distance else None,
        "number",
        wide=True,
    ),
    column(
        "to",
        lambda pair: pair[1].distance[1] if pair[1].distance else None,
        "number",
        key="distance_to",
        wide=True,
    ),
    column("Errs", lambda pair: pair[1].success, "share"),
)
