"""How success goes with queries, the exponent n, the model's size, the names and the size of edits.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, sections 4 and 5, Figures 2 to 4; Appendix:
    words replaced and inserted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, Literal, TypeAlias

import numpy as np

from medstress.analyses.choice import competitors
from medstress.analyses.results import diversity_of
from medstress.analyses.run import Analysis, Cell, Run
from medstress.analyses.shown import (
    FLAT,
    Chart,
    Entry,
    Field,
    OfAttack,
    Point,
    Shown,
    Table,
    as_entry,
    attack_labels,
    column,
    label,
    named,
    panel,
    place_labels,
    table,
)
from medstress.analyses.success import Diversity
from medstress.core.arms import Place
from medstress.core.items import Question
from medstress.core.text import Edit, edit_distance
from medstress.core.trials import Trial
from medstress.stats.curves import Hits, Inflection, TwoCurves, inflection, two_curves
from medstress.stats.estimate import Estimate
from medstress.stats.resampling import item_mean
from medstress.stats.shares import rate_of
from medstress.store.trials import Span

MOST = 1_000
"""Up to this budget success is counted for every budget, beyond it as far as anybody asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(OfAttack):
    """Where the curve of one attack levels off."""

    budget: int
    n_items: int
    shape: Inflection = field(metadata=FLAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePair(OfAttack):
    """The curves of two attacks with one goal in one place."""

    against: str
    both: TwoCurves = field(metadata=FLAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtExponent(OfAttack):
    """One attack of PDWS, or random sampling with it."""

    n: float
    """The exponent; 0 for random sampling."""
    rule: str
    """Budget, and the parameters in which the attacks of a run differ."""
    asr: Estimate
    asr_at_1: Estimate
    diversity_unbiased: Estimate
    prompt_similarity: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized(OfAttack):
    """One model of known size under one attack."""

    parameters: float
    victim_group: str | None
    """`generalist` or `specialist`."""
    asr: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(Shown):
    """Curves over the budget, series over n, models by size."""

    curves: Sequence[Curve]
    pairs: Sequence[CurvePair]
    exponents: Sequence[AtExponent]
    """By ascending n in each place."""
    size: Sequence[Sized]
    """The smallest model of each attack first."""
    title = "Queries, exponents and sizes"

    def tables(self) -> Sequence[Table]:
        """Where curves level off and cross; success by n; sizes."""
        recommended = "Recommended: from this budget on more queries bring little, beyond chance."
        bring = "Where more queries bring little"
        return [
            table("scaling", bring, self.curves, CURVES, notes=[recommended]),
            table("curve-pairs", "Two attacks over the budget", self.pairs, PAIRS),
            table("exponents", "Success by the exponent n", self.exponents, POINTS),
            table("size", "Lost under attack, by size of the model", self.size, SIZES),
        ]

    def charts(self) -> Sequence[Chart]:
        """Success and diversity against n, and success against size."""
        n = Counter((row.place, row.rule) for row in self.exponents)
        shown = [row for row in self.exponents if n[row.place, row.rule] > 1]
        lost, charts = "share of right answers lost", []
        x = "n (near names below 0, random names at 0, far names above)"
        for name, title, y in (
            ("asr_at_1", "Lost at the first query, by exponent", lost),
            ("diversity_unbiased", "Different names that succeed, by exponent", "diversity"),
            ("prompt_similarity", "What successes keep of the prompt, by exponent", "mean cosine"),
        ):
            points = [
                Point(row.n, value, row.rule, panel(row, shown))
                for row in shown
                if (value := getattr(row, name)).value is not None
            ]
            charts.append(
                Chart(f"exponents-{name.replace('_', '-')}", title, "lines", x, y, points)
            )
        places = Counter((row.dataset, row.group, row.attack) for row in self.size)
        sizes = [
            Point(row.parameters, row.asr, row.victim, f"{label(attack).words}, {group}, {dataset}")
            for (dataset, group, attack), n in places.items()
            if n > 1
            for row in self.size
            if (row.dataset, row.group, row.attack) == (dataset, group, attack)
        ]
        title, x = "Lost under attack, by size of the model", "parameters"
        size = Chart("size", title, "dots", x, lost, sizes, log_x=True, by_model=True)
        return [*charts, size]


def scaling_of(run: Run) -> Scaling | None:
    """Compute what there is of the three; None where there is nothing."""
    judged = [c for c in run.attacks if c.attack.judged and not c.attack.asks_clean_only]
    by_place: dict[Place, list[Cell]] = defaultdict(list)
    for cell in judged:
        if cell.eligible.any():
            by_place[cell.place].append(cell)
    curves: list[Curve] = []
    pairs: list[CurvePair] = []
    for cells in by_place.values():
        _add_curves(cells, curves, pairs)
    exponents = sorted(_at_exponents(run), key=lambda row: (row.place, row.rule, row.n))
    size = _by_size(judged, run.manifest["victims"])
    if not (curves or exponents or size):
        return None
    return Scaling(curves=curves, pairs=pairs, exponents=exponents, size=size)


SCALING = Analysis("scaling", scaling_of, is_quiet=True)


# Curves over the budget ------------------------------------------------------------------------


def budget_of(cell: Cell) -> int:
    """Return the largest budget worth counting; nothing changes beyond what was asked."""
    budget = cell.attack.budget
    if budget <= MOST:
        return budget
    return min(budget, max(MOST, *(trial.queries.asked for trial in cell.trials)))


def hits_of(cell: Cell, units: Sequence[str], budget: int, *, by_item: bool = False) -> Hits:
    """Count the successes within every budget, unit by unit.

    Args:
        cell: trials of one attack in one place.
        units: the documents (where known, else items) in the order of the rows.
        budget: the largest budget to count for.
        by_item: True if the units are items.
    """
    place = {unit: i for i, unit in enumerate(units)}
    first, counts = np.zeros((len(units), budget)), np.zeros(len(units))
    for trial, query in zip(cell.trials, cell.first, strict=True):
        i = place.get(trial.item.id if by_item else trial.cluster)
        if i is None or not trial.is_eligible:
            continue
        counts[i] += 1
        if query <= budget:
            first[i, query - 1] += 1
    return Hits(successes=first.cumsum(axis=1), counts=counts)


def curves_of(cells: Sequence[Cell]) -> Iterator[tuple[Curve, Cell, Hits]]:
    """Yield the curves of one place over the same units: of attacks with a budget of 2 or more."""
    # An attack that asks every name has no budget to recommend.
    limited = [c for c in cells if c.attack.params.get("budget") is not None and budget_of(c) >= 2]
    units = sorted({t.cluster for c in cells for t in c.trials if t.is_eligible})
    for cell in limited:
        arm = hits_of(cell, units, budget_of(cell))
        n = int((arm.counts > 0).sum())
        yield Curve(**cell.labels, budget=arm.budget, n_items=n, shape=inflection(arm)), cell, arm


def _add_curves(cells: Sequence[Cell], curves: list[Curve], pairs: list[CurvePair]) -> None:
    """Add the curves of one place, and their pairs."""
    made = [*curves_of(cells)]
    curves += [curve for curve, *_ in made]
    for (_, first, ours), (_, second, others) in combinations(made, 2):
        # Reaching one goal sooner than another says nothing.
        if first.attack.goal == second.attack.goal:
            labels = first.attack.label, second.attack.label
            both = two_curves(ours, others, labels)
            pairs.append(CurvePair(**first.labels, against=labels[1], both=both))


# Success over n --------------------------------------------------------------------------------


def _at_exponents(run: Run) -> Iterator[AtExponent]:
    """Yield the attacks of every place in which PDWS was run."""
    drawing = [
        one
        for one in competitors(run)
        if one.method in ("near", "zero", "far", "random") and one.cell.eligible.any()
    ]
    places = {one.cell.place for one in drawing if one.n is not None}
    for one in (one for one in drawing if one.cell.place in places):
        names = diversity_of(run, one.cell)
        yield AtExponent(
            **one.cell.labels,
            n=one.n or 0.0,
            rule=", ".join(filter(None, (f"{one.budget} queries", one.setting.rule))),
            asr=one.share(one.budget),
            asr_at_1=one.share(1),
            diversity_unbiased=names.diversity_unbiased,
            prompt_similarity=names.prompt_similarity,
        )


# Models by size --------------------------------------------------------------------------------


def _by_size(cells: Sequence[Cell], victims: Mapping[str, Any]) -> list[Sized]:
    """Return ASR of the models of known size."""
    rows = [
        Sized(
            **cell.labels,
            parameters=float(size),
            victim_group=victims[cell.place.victim].get("group"),
            asr=cell.share(cell.read("asr")),
        )
        for cell in cells
        if (size := victims.get(cell.place.victim, {}).get("parameters")) is not None
    ]
    return sorted(rows, key=lambda r: (r.dataset, r.group, r.attack, r.parameters, r.victim))


# What is shown ---------------------------------------------------------------------------------


def _why(estimate: Estimate) -> Entry:
    """Return an estimate, and where it has no value why."""
    has_value = estimate.value is not None
    return as_entry(estimate) if has_value else Entry(value=estimate, lines=(estimate.method,))


CURVES = (
    *attack_labels(),
    column("Budget", "budget", "count"),
    column("Items", "n_items", "count", wide=True),
    column("Levels off at", lambda row: _why(row.shape.inflection), "score", "queries"),
    column("Rise before", "shape.slope_before", "score", "per unit of ln(budget)", wide=True),
    column("Rise after", "shape.slope_after", "score", "per unit of ln(budget)", wide=True),
    column("Recommended budget", "shape.recommended_budget", "count"),
)
PAIRS = (
    named("Attack", "attack"),
    named("Against", "against"),
    *place_labels(),
    column("Items", "both.n_items", "count", wide=True),
    column("Largest gap", "both.gap", "score", "first minus second"),
    column("at query", "both.gap_budget", "number"),
    column(
        "Overtakes",
        lambda row: row.both.leads_after and label(row.both.leads_after),
        tip="trails at first and leads in the end, beyond chance",
    ),
    column("from query", "both.crossover", "number"),
)
POINTS = (
    *attack_labels(),
    column("n", "n", "number"),
    column("Lost (ASR)", "asr", "share"),
    column("at the first query", "asr_at_1", "share"),
    column("Diversity", "diversity_unbiased", "score", "unbiased Gini-Simpson index"),
    column("Prompt similarity", "prompt_similarity", "score", wide=True),
)
SIZES = (
    *attack_labels(),
    column("Kind", "victim_group"),
    column("Parameters", "parameters", "number"),
    column("Lost (ASR)", "asr", "share"),
)


# Names and edits -------------------------------------------------------------------------------

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
        sizes: Mapping[Unit, tuple[str, Sequence[Field]]] = {
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
    lines = Lines(run)
    sizes = by_size(cells, lines)
    naming = [cell for cell in cells if cell.attack.draws_names]
    if not (naming or sizes):
        return None
    named = [_named(run, cell) for cell in naming]
    return Names(named=named, coverage=coverage(run, naming, lines), sizes=sizes)


NAMES = Analysis("names", names_of)


def _named(run: Run, cell: Cell) -> Named:
    names = [t.first.name for t in cell.trials if t.first is not None and t.first.name is not None]
    indices, n = diversity_of(run, cell), len(set(names))
    return Named(**cell.labels, n_successes=len(names), n_names=n, indices=indices)


# Coverage --------------------------------------------------------------------------------------


class Lines:
    """The edits of every trial's queries."""

    def __init__(self, run: Run) -> None:
        self._all = run.folder.substitutions
        trials, starts = np.unique(self._all.trial, return_index=True)
        bounds = pairwise([*starts.tolist(), len(self._all.trial)])
        self._of_trial = dict(zip(trials.tolist(), bounds, strict=True))

    def __contains__(self, trial: Trial) -> bool:
        return trial.number in self._of_trial

    def of(self, trial: Trial) -> Iterator[tuple[int, Span, str]]:
        """Yield (query, what it replaces, name that it puts in) of each edit, in order."""
        spans, names = self._all.spans, self._all.names
        part = slice(*self._of_trial.get(trial.number, (0, 0)))
        columns = [one[part].tolist() for one in (self._all.query, self._all.span, self._all.name)]
        for query, span, name in zip(*columns, strict=True):
            yield query, spans[span], names[name]

    def spans(self, trial: Trial) -> set[Span]:
        """Return what its queries replace."""
        places = set(self._all.span[slice(*self._of_trial[trial.number])].tolist())
        return {self._all.spans[place] for place in places}


def coverage(run: Run, cells: Sequence[Cell], lines: Lines) -> list[Coverage]:
    """Return the coverage of every attack that asked something."""
    sizes = {group: part.get("n_names") for group, part in run.manifest["groups"].items()}
    counted = [cell for cell in cells if sizes.get(cell.place.group)]
    # Other entities of the types that were replaced may be replaced too.
    types: dict[str, set[str]] = defaultdict(set)
    for cell in counted:
        asked = {
            (trial.item.id, span): trial.item
            for trial in cell.trials
            if trial in lines
            for span in lines.spans(trial)
        }
        for (_, span), item in asked.items():
            own = (m.type for m in item.mentions if (m.field, m.start, m.end) == span)
            types[cell.place.group].update(own)
    rows = (
        _coverage(cell, lines, types[cell.place.group], int(sizes[cell.place.group]))
        for cell in counted
    )
    return [row for row in rows if row is not None]


def _coverage(cell: Cell, lines: Lines, types: Collection[str], n_names: int) -> Coverage | None:
    """Return the coverage of an attack; None if it asked nothing."""
    field = str(cell.attack.params.get("field") or "options")
    spans: dict[str, set[Span]] = defaultdict(set)
    tried: dict[tuple[str, Span], set[str]] = defaultdict(set)
    allowed: dict[str, int] = {}
    within: dict[tuple[str, Span], int] = {}
    for trial in (trial for trial in cell.trials if trial in lines):
        item, excluded = trial.item.id, trial.excluded or {}
        beyond = excluded.get(EDIT_DISTANCE)
        n = max(n_names - sum(excluded.values()) + (beyond or 0), 0)
        if item not in allowed:
            spans[item].update(_replaceable(trial.item, field, types))
        allowed[item] = max(allowed.get(item, 0), n)
        if beyond is not None:
            # What lies beyond the limit of edit distance is counted for the first span alone.
            at = item, next(lines.of(trial))[1]
            within[at] = max(within.get(at, 0), n - beyond, 0)
        for _, span, name in lines.of(trial):
            tried[item, span].add(name.casefold())
            spans[item].add(span)
    if not allowed:
        return None
    every = [
        [(len(tried.get((item, x), ())), within.get((item, x), allowed[item])) for x in spans[item]]
        for item in sorted(spans)
    ]
    return Coverage(
        **cell.labels,
        n_items=len(every),
        n_spans=sum(map(len, every)),
        n_spans_asked=len(tried),
        n_tried=sum(map(len, tried.values())),
        n_allowed=sum(allowed for of_item in every for _, allowed in of_item),
        n_distinct=len(set().union(*tried.values())),
        n_names=n_names,
        share=_mean_share(every),
        share_of_asked=_mean_share([[one for one in of_item if one[0]] for of_item in every]),
    )


def _replaceable(item: Any, field: str, types: Collection[str]) -> Iterator[Span]:
    """Yield the spans of an item's field that names of some types may replace, asked or not."""
    key = set(item.key_text.casefold().split())
    for m in item.mentions:
        if m.field in item.letters:
            fits = field == "options" and m.field != item.key
        else:
            # In a text, an entity that shares a word with the right answer gives it away.
            words = item.text_of(m.field)[m.start : m.end].casefold().split()
            fits = m.field == field and not key.intersection(words)
        if fits and m.type in types:
            yield m.field, m.start, m.end


def _mean_share(items: Sequence[Sequence[tuple[int, int]]]) -> Estimate:
    """Return the mean over items of names tried / allowed, given by span."""
    sums = np.array([np.sum(spans, axis=0) if spans else (0, 0) for spans in items]).reshape(-1, 2)
    n, of = sums.astype(np.float64).T
    return item_mean(np.divide(n, of, out=np.zeros(len(n)), where=of > 0))


# The size of edits -----------------------------------------------------------------------------


_Class: TypeAlias = tuple[Unit, int, int | None]
"""Unit, low and high of a `BySize`."""
_UNITS: Sequence[Unit] = ("words", "characters", "tokens")


def by_size(cells: Sequence[Cell], lines: Lines) -> list[BySize]:
    """Return ASR(1) by words replaced x inserted, and by edit distance."""
    rows: list[BySize] = []
    for cell in cells:
        classes: dict[_Class, list[tuple[Trial, bool]]] = defaultdict(list)
        for trial in (trial for trial in cell.trials if trial in lines):
            edits = list(lines.of(trial))
            query = edits[0][0]
            is_success = trial.first is not None and trial.first.query == query
            for one in _sizes(
                (trial.item.replaced(Edit(field=f, start=start, end=end, replacement=new)), new)
                for at, (f, start, end), new in edits
                if at == query
            ):
                classes[one].append((trial, is_success))
        for unit, low, high in sorted(
            classes, key=lambda one: (_UNITS.index(one[0]), one[1], one[2] or 0)
        ):
            members = classes[unit, low, high]
            rows.append(
                BySize(
                    **cell.labels,
                    unit=unit,
                    low=low,
                    high=high,
                    n_items=len({trial.path[:2] for trial, _ in members}),
                    asr_at_1=rate_of((trial.path, is_success) for trial, is_success in members),
                )
            )
    return rows


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


NAMED = (
    *attack_labels(),
    column("Successes", "n_successes", "count"),
    column("Different names", "n_names", "count"),
    column("Diversity", "indices.diversity_unbiased", "score", "Gini-Simpson index, unbiased"),
    column("plain", "indices.diversity", "score", "as in the paper", wide=True),
    column("Prompt similarity", "indices.prompt_similarity", "score", "mean cosine", wide=True),
)
COVERAGE = (
    *attack_labels(),
    column("Items", "n_items", "count", wide=True),
    column("Spans asked", "n_spans_asked", "count"),
    column("of", "n_spans", "count"),
    column("Tried", "share", "score", "of all allowed names, in all spans"),
    column("in asked spans", "share_of_asked", "score"),
    column("Different names", "n_distinct", "count"),
    column("of", "n_names", "count"),
)
_SUCCESS = (
    column("Items", "n_items", "count"),
    column("Lost at once", "asr_at_1", "share"),
)
WORDS = (
    *attack_labels(),
    column("Words replaced", lambda row: _words(row.low)),
    column("inserted", lambda row: _words(row.high or 0)),
    *_SUCCESS,
)
DISTANCES = (
    *attack_labels(),
    column("From", lambda row: str(row.low)),
    column("to", lambda row: "more" if row.high is None else str(row.high)),
    *_SUCCESS,
)
