"""The claims of Xian et al. (2025), tested on a run: an effect with its interval, and a finding.

A claim is supported where the whole interval lies on its side, contradicted where it lies on the
other side, and undecided where it lies on both. Two attacks differ where p is at most .05 as well.
What cannot be tested says why. Unreadable and missing answers count at their worst.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, sections 4 and 5, Appendix M.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import combinations, pairwise
from math import isqrt
from statistics import fmean
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from medstress.analyses.choice import (
    EXPONENT,
    LEARNING_RATE,
    METHODS,
    NO_ITEMS,
    REGIMES,
    Competitor,
    Items,
    Setting,
    choose,
    competitors,
    minus,
    notes_on,
    told_apart,
    tuning_items,
    without,
    zoo_searches,
)
from medstress.analyses.explanations import EXPLANATIONS
from medstress.analyses.run import NEVER, Analysis, Cell, Run, compared
from medstress.analyses.scaling import Lines, hits_of
from medstress.analyses.shown import Shown, Table, column, table
from medstress.analyses.success import knowledge
from medstress.analyses.transfer import cross_fitted, folds
from medstress.core.arms import Place
from medstress.core.items import Question
from medstress.stats.curves import LEAST_BUDGET, bend, plateau
from medstress.stats.estimate import Estimate, benjamini_hochberg, unknown
from medstress.stats.paired import FEW, Difference, exact_p
from medstress.stats.resampling import (
    RESAMPLES,
    around,
    bootstrapped,
    in_words,
    item_mean,
    resampled_mean,
)
from medstress.stats.shares import Numbers, rate_of, tally

LEAST = 10
"""The fewest items, or successes a side, for which an effect is estimated."""
MARGIN = 0.05
"""Two success rates are close where they differ by no more than this."""
NEARBY = 2.0
"""Two budgets are near where neither is more than this many times the other."""
LEVEL = 0.05
"""Two attacks differ where p is at most this."""
TOP, MOST = 10, 0.5
"""Names that would dominate, and the share of the successes that they would make at least."""
ALL_MODELS, DEFAULT = "all models", "default"
WORST = "open answers at their worst"
NOT_EXPLAINED = "no success was explained: medstress explain"
OF_ZOO = ("similarity_threshold", "word_ranking")
"""Rules of DiscreteZOO alone."""
_ROUNDED, _UNDER = 12, " under the rules "
Side: TypeAlias = Sequence[Cell]
"""Attacks of one side; its value is the mean over them."""
Effect: TypeAlias = Estimate | Difference
"""A `Difference` has a p of no effect."""


class Finding(StrEnum):
    """What a run says of a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOT_TESTED = "not tested"


Judge: TypeAlias = Callable[[Estimate], Finding]


def _judged(
    estimate: Estimate,
    supports: Callable[[float, float], bool],
    contradicts: Callable[[float, float], bool],
) -> Finding:
    """Judge a claim by the ends of an estimate; both functions take the low and the high end."""
    low, high = estimate.ends
    if estimate.value is None or low is None or high is None:
        return Finding.NOT_TESTED
    low, high = round(low, _ROUNDED), round(high, _ROUNDED)
    if supports(low, high):
        return Finding.SUPPORTED
    return Finding.CONTRADICTED if contradicts(low, high) else Finding.UNDECIDED


def above(estimate: Estimate, bound: float = 0.0) -> Finding:
    """Judge the claim that an effect lies above a bound.

    >>> above(Estimate(value=0.1, n=50, low=-0.02, high=0.2, method="")).value
    'undecided'
    """
    return _judged(estimate, lambda low, _: low > bound, lambda _, high: high < bound)


def inside(estimate: Estimate, least: float, most: float) -> Finding:
    """Judge the claim that an effect lies between two bounds.

    >>> inside(Estimate(value=0.0, n=50, low=-0.02, high=0.04, method=""), -0.05, 0.05).value
    'supported'
    """
    return _judged(
        estimate,
        lambda low, high: least <= low and high <= most,
        lambda low, high: high < least or low > most,
    )


def outside(estimate: Estimate, same: float, least: float, most: float) -> Finding:
    """Judge the claim that an effect differs from `same`; between two bounds it hardly does.

    >>> outside(Estimate(value=0.02, n=50, low=0.01, high=0.04, method=""), 0, -0.05, 0.05).value
    'contradicted'
    """

    def hardly(low: float, high: float) -> bool:
        return least <= low and high <= most

    def differs(low: float, high: float) -> bool:
        return (low > same or high < same) and not hardly(low, high)

    return _judged(estimate, differs, hardly)


def holding_0(estimate: Estimate) -> Estimate:
    """Widen an interval, and its worst ends, so that they hold 0."""
    low, high = estimate.low, estimate.high
    least, most = estimate.ends
    if low is None or high is None or least is None or most is None:
        return estimate
    worst = estimate.worst and (min(least, 0.0), max(most, 0.0))
    return replace(estimate, low=min(low, 0.0), high=max(high, 0.0), worst=worst)


CLOSE: Judge = partial(inside, least=-MARGIN, most=MARGIN)
DIFFERENT: Judge = partial(outside, same=0.0, least=-MARGIN, most=MARGIN)
NEAR: Judge = partial(inside, least=1 / NEARBY, most=NEARBY)
MOVED: Judge = partial(outside, same=1.0, least=1 / NEARBY, most=NEARBY)
LATER: Judge = partial(above, bound=1.0)


class At(NamedTuple):
    """Where a claim is tested."""

    dataset: str
    group: str
    victim: str
    arms: str = DEFAULT
    """Rules of the attacks in which those of the run differ; `default` where they do not."""
    caution: str = ""
    """Why one may not rely on the model's answers; empty where one may."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim in one place."""

    at: At
    number: int
    statement: str
    """What is claimed, whatever the run says of it."""
    quantity: str
    """What the effect measures."""
    budget: int | None
    measured: Effect
    judge: Judge = above
    p_adjusted: float | None = None
    """p after Benjamini-Hochberg over all claims of a run."""
    on_few: Sequence[str] = ()
    """Sentences that say that few items chose n or the learning rate."""

    @property
    def effect(self) -> Estimate:
        """What was measured."""
        return self.measured.estimate if isinstance(self.measured, Difference) else self.measured

    @property
    def p(self) -> float | None:
        """Of no difference, which says nothing of closeness."""
        measured = self.measured
        return measured.p if isinstance(measured, Difference) and self.judge is not CLOSE else None

    @property
    def finding(self) -> Finding:
        """What the run says of the claim; an effect that p does not find may be 0."""
        effect = self.effect
        return self.judge(effect if self.p is None or self.p <= LEVEL else holding_0(effect))

    @property
    def reason(self) -> str:
        """Why it was not tested; empty where it was."""
        return self.effect.method if self.finding is Finding.NOT_TESTED else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims(Shown):
    """All claims in all places."""

    rows: Sequence[Claim]
    on_few: Sequence[str]
    """Sentences that say that few items chose n before the run."""
    title = "Claims of Xian et al. (TMLR 2025)"

    @property
    def tested(self) -> list[Claim]:
        """The claims that the run can test."""
        return [row for row in self.rows if row.finding is not Finding.NOT_TESTED]

    @property
    def reasons(self) -> list[str]:
        """Why claims are not tested, each reason once, whatever the rules of the attacks."""
        return list(dict.fromkeys(r.reason.partition(_UNDER)[0] for r in self.rows if r.reason))

    def tables(self) -> Sequence[Table]:
        """One table with every claim; those that are not tested say why."""
        cautions = dict.fromkeys(
            f"{at.victim} on {at.dataset}, {at.group}, is {at.caution}."
            for at in (row.at for row in self.rows)
            if at.caution
        )
        few = dict.fromkeys([*self.on_few, *(few for row in self.rows for few in row.on_few)])
        notes = [*self._notes(), *few, *cautions]
        made = table("claims", self.title, self.rows, _FIELDS, n_labels=2, notes=notes)
        rules = {i for i, (a, b) in enumerate(pairwise(self.rows), start=1) if a.at != b.at}
        return [replace(made, rules=frozenset(rules))]

    def _notes(self) -> Iterator[str]:
        n = Counter(row.finding for row in self.rows)
        yield (
            "A claim is a sentence of the paper; the finding says what this run shows. Supported: "
            "the whole 95 % interval lies on the claimed side; contradicted: on the other; "
            f"undecided: on both, or p (not adjusted) is above {LEVEL:g}. Close: within "
            f"±{MARGIN:g} in ASR; near: within a factor of {NEARBY:g}. What is close, or near, "
            "contradicts claims 12 and 14."
        )
        yield (
            f"Not tested: an attack or analysis is missing, or a side has fewer than {LEAST} items "
            "or successes. A chosen n is chosen on a fifth of the items and measured on the others."
        )
        yield (
            f"{', '.join(f'{n[one]} {one}' for one in Finding)}. Findings are not corrected for "
            "multiplicity: without any effect one in twenty would still get a direction."
        )


def claims_of(run: Run) -> Claims | None:
    """Test every claim and adjust all p-values together; None without attacks on questions."""
    attacks = [
        one
        for one in competitors(run)
        if one.cell.trials[0].item.kind == Question.kind and one.cell.eligible.any()
    ]
    if not attacks:
        return None
    series = series_of(attacks)
    lines = Lines(run)
    rows = [row for one in series for row in _of_series(one, lines)]
    rows += _of_embeddings(attacks)
    rows += _of_explanations(run)
    adjusted = iter(benjamini_hochberg([row.p for row in rows if row.p is not None]))
    return Claims(
        rows=[row if row.p is None else replace(row, p_adjusted=next(adjusted)) for row in rows],
        on_few=notes_on(run, [one.cell for one in attacks]),
    )


CLAIMS = Analysis("claims", claims_of)


# Attacks that can be compared ------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Attacks of one place that differ only in method, exponent and budget."""

    label: str
    attacks: tuple[Competitor, ...]
    """By method; PDWS by ascending n, one attack for each."""
    split: Items
    """The items that choose n."""
    caution: str

    def of(self, method: str) -> list[Competitor]:
        """Return the attacks of a method."""
        return [one for one in self.attacks if one.method == method]

    def side(self, method: str, budget: int = 1) -> list[Cell]:
        """Return the cells of a method's attacks with at least this budget."""
        return [one.cell for one in self.of(method) if one.budget >= budget]

    def missing(self, *methods: str) -> str:
        """Return which methods the run lacks under these rules; empty where it has all."""
        lacking = [METHODS[m] for m in dict.fromkeys(methods) if not self.of(m)]
        if not lacking:
            return ""
        rules = "" if self.label == DEFAULT else f"{_UNDER}{self.label}"
        return f"no {' and no '.join(lacking)} in this run{rules}"

    def budgets(self, *methods: str) -> tuple[int, ...]:
        """Return 1, and the largest budget that every method has where it is larger."""
        most = min(max((one.budget for one in self.of(m)), default=1) for m in methods)
        return (1, most) if most > 1 else (1,)

    @property
    def at(self) -> At:
        """Where its claims are tested."""
        return At(*self.attacks[0].setting.place, self.label, self.caution)


def series_of(attacks: Sequence[Competitor]) -> list[Series]:
    """Group attacks into series: places in the order of their first attack, then by rules.

    DiscreteZOO has other parameters; it joins every series whose rules hold its own. Of an attack
    with several budgets the largest counts.
    """
    places: dict[Place, list[Competitor]] = defaultdict(list)
    for one in attacks:
        if one.method in METHODS:
            places[one.setting.place].append(one)
    series = []
    for members in places.values():
        groups: dict[str, list[Competitor]] = defaultdict(list)
        for one in sorted(members, key=lambda one: one.method == "discrete_zoo"):
            rules = [shared_rule(one.setting)]
            if one.method == "discrete_zoo":
                own = set(filter(None, rules[0].split(", ")))
                rules = [rule for rule in groups if own <= set(rule.split(", "))] or rules
            for rule in rules:
                groups[rule].append(one)
        caution = _caution_of([one.cell for one in members])
        series += [
            Series(
                label=rule or DEFAULT,
                attacks=_largest(groups[rule]),
                split=tuning_items(one.cell for one in groups[rule]),
                caution=caution,
            )
            for rule in sorted(groups)
        ]
    return series


def shared_rule(setting: Setting) -> str:
    """Return the rules of a setting without those that DiscreteZOO alone has."""
    parts = setting.rule.split(", ")
    return ", ".join(part for part in parts if part.partition(" = ")[0] not in OF_ZOO)


def _largest(attacks: Iterable[Competitor]) -> tuple[Competitor, ...]:
    """Keep the largest budget of each method and n, and all of DiscreteZOO."""
    best: dict[Any, Competitor] = {}
    for one in attacks:
        key = (one.method, one.n, one.label if one.method == "discrete_zoo" else "")
        if key not in best or one.budget > best[key].budget:
            best[key] = one
    order = list(METHODS)
    return tuple(sorted(best.values(), key=lambda a: (order.index(a.method), a.n or 0.0, a.label)))


def _caution_of(cells: Sequence[Cell]) -> str:
    """Return why the model's answers may not be relied on; empty where they may."""
    knows = knowledge(Cell.of([trial for cell in cells for trial in cell.trials]))
    if not knows.is_near_chance:
        return ""
    accuracy, chance = knows.accuracy.value or 0.0, knows.chance or 0.0
    return (
        f"not above chance (accuracy {accuracy:.3f}, chance {chance:.3f}): its losses cannot be "
        "told from guessing"
    )


# Effects ---------------------------------------------------------------------------------------


def shared_items(*sides: Side) -> dict[str, str]:
    """Return the items eligible under every attack of all sides -> their documents, sorted."""
    documents: dict[str, str] = {}
    every: list[set[str]] = []
    for cell in (cell for side in sides for cell in side):
        eligible = [trial for trial in cell.trials if trial.is_eligible]
        documents |= {trial.item.id: trial.cluster for trial in eligible}
        every.append({trial.item.id for trial in eligible})
    return {item: documents[item] for item in sorted(set.intersection(*every))} if every else {}


def _units(items: Mapping[str, str]) -> Any:
    return np.unique(np.array([*items.values()], dtype=str), return_inverse=True)[1]


def _together(side: Side, items: Mapping[str, str]) -> Cell:
    """Return the eligible trials of all attacks of a side on some items."""
    return Cell.of([t for c in side for t in c.trials if t.is_eligible and t.item.id in items])


def success_difference(first: Side, second: Side, budget: int) -> Effect:
    """Estimate ASR of one side minus that of another on the items that all attacked.

    Every attack of one side is paired with every attack of the other.
    """
    items = shared_items(first, second)
    if len(items) < LEAST:
        return unknown(f"needs {LEAST} items in common, has {len(items)}", len(items))
    one, other = _together(first, items), _together(second, items)
    return compared(one, other, budget=budget)


def _settled(cell: Cell, *, hits: bool) -> Cell:
    """Return a cell whose open answers are all successes of the first query, or all misses."""
    first = cell.first.copy()
    if hits:
        first[cell.eligible & cell.lacks] = 1
    else:
        first[cell.unread] = NEVER
    return replace(cell, first=first)


def at_worst(
    effect: Callable[[Side, Side, Mapping[str, str]], Estimate], first: Side, second: Side
) -> Estimate:
    """Estimate an effect of two sides on the items that all attacked.

    Its worst ends are those where open answers favour either side; this assumes that the effect is
    extreme where all of them favour one side.
    """
    items, cells = shared_items(first, second), [*first, *second]
    if len(items) < LEAST:
        return unknown(f"needs {LEAST} items in common, has {len(items)}", len(items))
    value = effect(first, second, items)
    if not any((cell.eligible & (cell.lacks | cell.unread)).any() for cell in cells):
        return value
    extremes = (
        effect(
            [_settled(cell, hits=for_first) for cell in first],
            [_settled(cell, hits=not for_first) for cell in second],
            items,
        )
        for for_first in (False, True)
    )
    return hull(value, *extremes)


def hull(value: Estimate, *extremes: Estimate) -> Estimate:
    """Return an estimate whose worst ends hold its own interval and those of the extremes.

    Without any interval they go from the least value to the largest.
    """
    every = (value, *extremes)
    for one in every:
        if one.value is None:
            return unknown(f"{one.method} ({WORST})", one.n)
    values = [one.value for one in every if one.value is not None]
    lows = [one.low for one in every if one.low is not None] or values
    highs = [one.high for one in every if one.high is not None] or values
    has_all = len(lows) == len(highs) == len(every)
    return replace(value, worst=(min(lows), max(highs)) if has_all else (None, None))


def item_curves(side: Side, items: Iterable[str], budget: int) -> Numbers:
    """Return the share of trials that succeed within 1, 2, ... queries, item by item.

    Returns:
        The mean over the attacks of the side, shape (n_items, budget).
    """
    order = list(items)
    counted = [hits_of(cell, order, budget, by_item=True) for cell in side]
    return np.asarray(np.mean([c.successes / c.counts[:, None] for c in counted], axis=0))


def curve_effect(
    first: Side,
    second: Side,
    budget: int,
    of: Callable[[Numbers, Numbers], Numbers | Estimate],
    flat: Sequence[int],
    what: str,
) -> Estimate:
    """Estimate an effect of two curves over the budget, items drawn for both together.

    Args:
        first: attacks of the first side.
        second: attacks of the second.
        budget: the largest budget of both.
        of: takes both sides' curves, the observed ones first, then the resampled ones; returns the
            effect of each, or why there is none.
        flat: which sides (0, 1) must have a plateau within the budget.
        what: how the effect is made, for people.
    """
    if budget < 2:
        return unknown("one query an item: there is no curve")

    def effect(one: Side, other: Side, items: Mapping[str, str]) -> Estimate:
        rates = [item_curves(side, items, budget) for side in (one, other)]
        for i in flat:
            at = plateau(rates[i])
            if isinstance(at, Estimate):
                return at
        units = _units(items)
        drawn = (
            np.concatenate([r.mean(axis=0, keepdims=True), resampled_mean(r, units)]) for r in rates
        )
        values = of(*drawn)
        if isinstance(values, Estimate):
            return replace(values, n=len(items))
        method = f"{what}; bootstrap over {in_words(units)}, {RESAMPLES} resamples, paired"
        return around(bootstrapped(float(values[0]), values[1:], len(items), method))

    return at_worst(effect, first, second)


def _lead(ours: Numbers, others: Numbers) -> Numbers:
    """Return the mean lead of the first over the budgets past the second's inflection."""
    later = np.arange(1, ours.shape[1] + 1) > bend(others)[:, None]
    return np.asarray(((ours - others) * later).sum(axis=1) / later.sum(axis=1))


def _gap(ours: Numbers, others: Numbers) -> Numbers | Estimate:
    """Return the budget of the largest gap over that of the first's inflection."""
    gaps = np.round(np.abs(ours - others), _ROUNDED)
    if not gaps[0].any():
        return unknown("the two curves are the same")
    return np.asarray((gaps.argmax(axis=1) + 1.0) / bend(ours))


def _bends(ours: Numbers, others: Numbers) -> Numbers:
    """Return the budget of the first's inflection over that of the second's."""
    return np.asarray(bend(ours) / bend(others))


def _past(first: Side, second: Side, budget: int) -> Estimate:
    """Estimate the mean lead of the first past the second's inflection."""
    lead = curve_effect(first, second, budget, _lead, (1,), _MEAN)
    if lead.value is None:
        return lead
    items = shared_items(first, second)
    ours, others = (item_curves(side, items, budget) for side in (first, second))
    later = np.arange(1, budget + 1) > bend(others.mean(axis=0))
    return _of_few(lead, (ours - others)[:, later].mean(axis=1), _units(items))


def _of_few(effect: Estimate, values: Numbers, units: Any) -> Estimate:
    """Let the interval of a mean hold 0 where few items differ, and may do so by chance.

    Args:
        effect: the mean.
        values: of the items, shape (n_items,).
        units: of the items (documents), shape (n_items,).
    """
    sums = np.round(tally(units, values)[1], _ROUNDED)
    won, lost = int((sums > 0).sum()), int((sums < 0).sum())
    is_chance = 0 < won + lost < FEW and exact_p(won, lost) > LEVEL
    return holding_0(effect) if is_chance else effect


def rise_budget(largest: int) -> int:
    """Return the last budget of the rise: halfway to the largest on a logarithmic axis.

    >>> rise_budget(100), rise_budget(8)
    (10, 2)
    """
    return isqrt(largest)


def rise_difference(first: Side, second: Side, budget: int) -> Estimate:
    """Estimate by how much more one side succeeds over the budgets of the rise."""
    last = rise_budget(budget)

    def effect(one: Side, other: Side, items: Mapping[str, str]) -> Estimate:
        ours, others = (item_curves(x, items, budget)[:, :last].mean(axis=1) for x in (one, other))
        values, units = ours - others, _units(items)
        return _of_few(item_mean(values, -1.0, units), values, units)

    return at_worst(effect, first, second)


def dominated(cells: Sequence[Cell], lines: Lines) -> Estimate:
    """Estimate the share of successes that `TOP` names make, minus chance or `MOST`.

    The names are those that succeed most on other items: the names of an item are ranked without
    the items of its fold. Chance is the share that they have among all names that were drawn in
    this fold at the same query: what they would make if success did not depend on the name.
    The larger of chance and `MOST` is subtracted.
    """
    marks: list[tuple[tuple[str, ...], bool]] = []
    chances: list[float] = []
    for cell in cells:
        trials = [trial for trial in cell.trials if trial.is_eligible]
        tops, fold_of = cross_fitted(trials, TOP), folds(trial.item.id for trial in trials)
        drawn: dict[tuple[int, int], list[bool]] = defaultdict(list)
        at: list[tuple[int, int]] = []
        for trial in trials:
            first, top, fold = trial.first, tops[trial.item.id], fold_of[trial.item.id]
            last = NEVER if first is None else first.query
            names = {query: name for query, _, name in lines.of(trial) if query < last}
            for query, name in names.items():
                drawn[fold, query].append(name.casefold() in top)
            if first is not None and first.name is not None:
                drawn[fold, last].append(first.name in top)
                marks.append((trial.path, first.name in top))
                at.append((fold, last))
        chances += [fmean(drawn[key]) for key in at]
    if len(marks) < LEAST:
        return unknown(f"needs {LEAST} successes, has {len(marks)}", len(marks))
    share, least = rate_of(marks), max(fmean(chances), MOST)
    of_share = (share.value, share.low, share.high)
    value, low, high = (None if one is None else one - least for one in of_share)
    method = f"{share.method}, minus {least:.3f}"
    return Estimate(value=value, n=share.n, low=low, high=high, method=method)


# Claims of one series --------------------------------------------------------------------------


_MEAN = "mean over budgets past the inflection"
_METHODS: Sequence[tuple[int, str, str, str, Judge]] = (
    (4, "ASR is higher for n < 0 than n > 0", "near", "far", above),
    (7, "B-nearest is close to PDWS n < 0", "nearest", "near", CLOSE),
    (7, "B-farthest is close to PDWS n > 0", "farthest", "far", CLOSE),
)
"""Number and statement of claims on two methods, both methods, how their difference is judged."""


def _of_series(series: Series, lines: Lines) -> list[Claim]:
    claims = [*_of_methods(series), *_overtakes(series)]
    claims += [_moves(series, method) for method in REGIMES]
    claims.append(_candidates(series))
    for zoos in zoo_searches(series.of("discrete_zoo")) or [[]]:
        claims += _against_zoo(series, zoos)
    missing = series.missing("far")
    effect = unknown(missing) if missing else dominated(series.side("far"), lines)
    statement = "A few reusable names make most of the successes of n > 0"
    quantity = (
        f"share of successes by the {TOP} names that succeed most on other items, minus chance or "
        f"{MOST:g}, whichever is larger"
    )
    claims.append(Claim(series.at, 15, statement, quantity, None, effect))
    return sorted(claims, key=lambda claim: claim.number)


def _of_methods(series: Series) -> Iterator[Claim]:
    """Compare methods at one query, and at the largest budget of both."""
    for number, statement, *methods, judge in _METHODS:
        why_not = series.missing(*methods)
        quantity = f"ASR, {METHODS[methods[0]]} minus {METHODS[methods[1]]}"
        for budget in series.budgets(*methods):
            ours, others = (series.side(method, budget) for method in methods)
            effect = unknown(why_not) if why_not else success_difference(ours, others, budget)
            yield Claim(series.at, number, statement, quantity, budget, effect, judge)


def _overtakes(series: Series) -> Iterator[Claim]:
    """Compare random sampling with far names where more queries no longer help these."""
    methods = ("random", "far")
    budget = series.budgets(*methods)[-1]
    why_not = series.missing(*methods)
    if budget == 1:
        why_not = why_not or "one query an item: there is nothing past an inflection"
    ours, others = (series.side(method, budget) for method in methods)
    for where, measure, effect_of in (
        ("at the largest budget", "ASR", success_difference),
        ("over the budgets past the inflection", f"ASR, {_MEAN}", _past),
    ):
        effect = unknown(why_not) if why_not else effect_of(ours, others, budget)
        quantity = f"{measure}, {METHODS['random']} minus {METHODS['far']}"
        statement = f"Random sampling overtakes PDWS n > 0, {where}"
        yield Claim(series.at, 6, statement, quantity, budget, effect)


def _best(
    series: Series, attacks: Sequence[Competitor], budget: int, key: str = EXPONENT
) -> tuple[list[Cell], Items, float | None, list[str]]:
    """Return the cell of the best value, the items that chose it, the value, and notes."""
    values = {one.cell.attack.params.get(key) for one in attacks}
    if len(values) < 2:
        return [one.cell for one in attacks[:1]], NO_ITEMS, next(iter(values)), []
    choice = choose(attacks, key, budget, series.split)
    assert choice is not None
    cell = without(choice.chosen.cell, series.split)
    few = [choice.on_few] if choice.is_of_few else []
    return [cell] if cell else [], series.split, choice.value, few


def _against_zoo(series: Series, zoos: Sequence[Competitor]) -> Iterator[Claim]:
    """Compare PDWS at its best n with DiscreteZOO at its best learning rate."""
    regimes = [*series.of("near"), *series.of("far")]
    several = len(zoo_searches(series.of("discrete_zoo"))) > 1
    name = f"{METHODS['discrete_zoo']} ({zoos[0].label})" if several else METHODS["discrete_zoo"]
    gap: Effect = unknown(series.missing("discrete_zoo") or "no PDWS in this run")
    lead, budget, best_name, on_few = gap, 1, "PDWS at its best n", list[str]()
    if zoos and regimes:
        budget = min(zoos[0].budget, max(one.budget for one in regimes))
        enough = [one for one in regimes if one.budget >= budget]
        best, chose, n, few = _best(series, enough, budget)
        rivals, chose_rate, _, few_rate = _best(series, zoos, budget, LEARNING_RATE)
        on_few = [*few, *few_rate]
        ours, others = (
            [cell for one in side if (cell := without(one, chose | chose_rate))]
            for side in (best, rivals)
        )
        what = "budget of the largest gap over the inflection's"
        gap = curve_effect(ours, others, budget, _gap, (0,), what)
        lead = success_difference(ours, others, budget)
        best_name = "PDWS" if n is None else f"PDWS n = {minus(n)}"
        tuned = " at its best learning rate" if chose_rate else ", its learning rate given"
        name += tuned * (zoos[0].cell.attack.params.get("answers") != "hard")
    statement = f"The largest gap of PDWS and {name} is near the inflection"
    quantity = f"budget of the gap over that of the inflection, {best_name}"
    yield Claim(series.at, 8, statement, quantity, budget, gap, NEAR, on_few=on_few)
    quantity, statement = f"ASR, {best_name} minus {name}", f"PDWS at its best n is above {name}"
    yield Claim(series.at, 9, statement, quantity, budget, lead, on_few=on_few)


def _bends_apart(
    series: Series,
    number: int,
    statement: str,
    ends: Sequence[tuple[str, Competitor]],
    why_not: str,
    judge: Judge,
) -> Claim:
    """Compare where the curves of two attacks level off, the first over the second.

    Args:
        series: theirs.
        number: of the claim.
        statement: what is claimed.
        ends: the attacks, named; fewer than two cannot be compared.
        why_not: why they cannot.
        judge: of the ratio.
    """
    if len(ends) < 2:
        return Claim(series.at, number, statement, "inflections", 1, unknown(why_not), judge)
    (name, first), (other, second) = ends
    budget = min(first.budget, second.budget)
    if budget < LEAST_BUDGET:
        effect = unknown(f"needs a budget of at least {LEAST_BUDGET}, has {budget}")
    else:
        what = "ratio of the budgets where the curves level off"
        effect = curve_effect([first.cell], [second.cell], budget, _bends, (0, 1), what)
    quantity = f"inflection of {name} over that of {other}"
    return Claim(series.at, number, statement, quantity, budget, effect, judge)


def _moves(series: Series, method: str) -> Claim:
    """Compare where curves level off, at the lowest and the highest n of a regime."""
    members, regime = series.of(method), METHODS[method].removeprefix("PDWS ")
    why_not = series.missing(method) or f"one value of n alone for {regime}"
    ends = [(one.words, one) for one in (members[-1:] + members[:1])] if len(members) > 1 else []
    return _bends_apart(series, 12, f"n moves the inflection, {regime}", ends, why_not, MOVED)


def _candidates(series: Series) -> Claim:
    """Compare DiscreteZOO at its largest and smallest number of candidates M."""
    by_m: dict[int, Competitor] = {}
    for one in series.of("discrete_zoo"):
        by_m.setdefault(int(one.cell.attack.params.get("candidates") or 0), one)
    why_not = series.missing("discrete_zoo")
    why_not = why_not or "one number of candidates M alone: nothing to compare"
    ends = [(f"M = {m}", by_m[m]) for m in (max(by_m), min(by_m))] if len(by_m) > 1 else []
    statement = "DiscreteZOO reaches its plateau later with more candidates M"
    return _bends_apart(series, 13, statement, ends, why_not, LATER)


# Claims across embeddings, and of explanations -------------------------------------------------


def under_two_embeddings(attacks: Iterable[Competitor]) -> list[tuple[Competitor, Competitor]]:
    """Return the pairs of one attack on the same questions under two embeddings."""
    same: dict[Any, list[Competitor]] = defaultdict(list)
    for one in attacks:
        same[one.setting.asked, one.setting.rule, one.label].append(one)
    pairs = [
        (one, other)
        for members in same.values()
        for one, other in combinations(members, 2)
        if one.setting.embedding != other.setting.embedding
    ]
    order = {method: i for i, method in enumerate(METHODS)}
    return sorted(pairs, key=lambda both: order.get(both[0].method, len(order)))


def _of_embeddings(attacks: Sequence[Competitor]) -> Iterator[Claim]:
    """Test where the embedding matters: in the rise of PDWS, in the plateau of DiscreteZOO."""
    pairs = under_two_embeddings(one for one in attacks if one.method in METHODS)
    for words, methods, part in (
        ("PDWS", REGIMES, "rapid rise"),
        ("DiscreteZOO", ("discrete_zoo",), "plateau"),
    ):
        statement = f"The embedding matters in the {part} of {words}"
        members = [both for both in pairs if both[0].method in methods]
        for one, other in members:
            budget, measure = min(one.budget, other.budget), "ASR"
            effect = success_difference([other.cell], [one.cell], budget)
            if part == "rapid rise":
                measure = f"mean ASR over budgets 1 to {rise_budget(budget)}"
                effect = unknown(f"needs a budget of 3 for a rise, has {budget}")
                if budget >= 3:
                    effect = rise_difference([other.cell], [one.cell], budget)
            names = f"{other.setting.embedding} minus {one.setting.embedding}"
            alike = (own for own, _ in members if own.setting == one.setting)
            quantity = f"{measure} of {told_apart(one, alike)}, {names}"
            at = At(*one.setting.place, one.setting.rule or DEFAULT)
            yield Claim(at, 14, statement, quantity, budget, effect, DIFFERENT)
        if not members:
            none = unknown(f"no {words} under two embeddings in this run")
            yield Claim(At(*attacks[0].setting.place), 14, statement, part, None, none, DIFFERENT)


def _of_explanations(run: Run) -> Iterator[Claim]:
    """Test what Figure 5 shows: the top token lies in the option that the model answers."""
    explained = run.of(EXPLANATIONS)
    rows = [] if explained is None else [row for row in explained.rows if row.kind == "success"]
    for regime, words in (("n<0", "n < 0"), ("n>0", "n > 0")):
        statement = f"After a success the top token lies in the option that is answered, {words}"
        quantity = "share of successes whose top token lies there, minus chance"
        effects: list[tuple[str, Estimate]] = []
        for row in (row for row in rows if row.regime == regime):
            excess = row.top_after["answer"].excess
            if row.n < LEAST:
                excess = unknown(f"needs {LEAST} explained successes, has {row.n}", row.n)
            effects.append((row.victim, excess))
        why = f"no success with {words} was explained" if rows else NOT_EXPLAINED
        for victim, effect in effects or [(ALL_MODELS, unknown(why))]:
            yield Claim(At("", "", victim), 16, statement, quantity, None, effect)


# What is shown ---------------------------------------------------------------------------------


_FIELDS = (
    column("No.", lambda row: str(row.number), key="claim"),
    column("Claim", "statement"),
    column("Model", "at.victim"),
    column("Data", "at.dataset", wide=True),
    column("Group", "at.group", wide=True),
    column("Attacks", "at.arms", wide=True),
    column("Effect is", "quantity", wide=True),
    column("Budget", "budget", "count"),
    column("Effect", lambda row: None if row.reason else row.effect, "score"),
    column("p (adjusted)", "p_adjusted", "p"),
    column("Finding", lambda row: row.finding.value),
    column("Why not", lambda row: row.reason or None, key="reason", wide=True),
)
