"""The claims of Xian et al. (2025), tested on a run: an effect with its interval, and a finding.

A claim is supported where the whole interval lies on its side, contradicted where it lies on the
other side, and undecided where it lies on both. What cannot be tested says why. Unreadable and
missing answers count at their worst.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, sections 4 and 5, Appendices E and M.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import combinations
from math import isqrt, sqrt
from statistics import fmean, variance
from typing import Any, TypeAlias

import numpy as np

from medstress.analyses.choice import (
    EXPONENT,
    LEARNING_RATE,
    METHODS,
    NO_ITEMS,
    RULES,
    Competitor,
    Items,
    choose,
    competitors,
    has_learning_rate,
    minus,
    tuning_items,
    without,
    zoo_searches,
)
from medstress.analyses.diversity import gini_simpson
from medstress.analyses.explanations import EXPLANATIONS
from medstress.analyses.reuse import cross_fitted
from medstress.analyses.run import NEVER, Cell, Reading, Run, contrast, pair
from medstress.analyses.scaling import Sized, hits_of, peak, trend
from medstress.analyses.shown import Entry, Field, Remark, Shown, Table, column, table
from medstress.analyses.success import knowledge
from medstress.analyses.tuning import ASR, read
from medstress.core.hashing import canonical_json
from medstress.core.items import Question
from medstress.stats.curves import LEAST_BUDGET, bend, plateau
from medstress.stats.estimate import Estimate, unknown
from medstress.stats.multiplicity import benjamini_hochberg
from medstress.stats.paired import Difference
from medstress.stats.resampling import (
    RESAMPLES,
    ROUNDING,
    around,
    bootstrapped,
    in_words,
    item_mean,
    resampled_mean,
    resampled_ratio,
    resampled_sums,
    unit_weights,
)
from medstress.stats.shares import Mask, Numbers, Units, number_units, rate

LEAST = 10
"""The fewest items, or successes a side, for which an effect is estimated."""
MARGIN = 0.05
"""Two success rates are close where they differ by no more than this."""
NEARBY = 2.0
"""Two budgets are near where neither is more than this many times the other."""
CERTAIN = 0.975
TOP = 10
"""Names that would dominate."""
ALL_MODELS = "all models"
CHECK = 11
"""Number of the claim that checks the run; the paper does not make it."""
WORST = "open answers at their worst"
_ROUNDED, _UNDER = 12, " under the rules "
Side: TypeAlias = Sequence[Cell]
"""Attacks of one side; its value is the mean over them."""
Effect: TypeAlias = tuple[Estimate, float | None]
"""An estimate, and p of no effect where there is a test."""


class Finding(StrEnum):
    """What a run says of a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOT_TESTED = "not tested"


Judge: TypeAlias = Callable[[Estimate], Finding]


def above(estimate: Estimate, bound: float = 0.0) -> Finding:
    """Judge the claim that an effect lies above a bound.

    >>> above(Estimate(value=0.1, n=50, low=-0.02, high=0.2, method="")).value
    'undecided'
    """
    low, high = estimate.ends
    if estimate.value is None or low is None or high is None:
        return Finding.NOT_TESTED
    if low > bound:
        return Finding.SUPPORTED
    return Finding.CONTRADICTED if high < bound else Finding.UNDECIDED


def below(estimate: Estimate) -> Finding:
    """Judge the claim that an effect is negative."""
    turned = {
        Finding.SUPPORTED: Finding.CONTRADICTED,
        Finding.CONTRADICTED: Finding.SUPPORTED,
    }
    finding = above(estimate)
    return turned.get(finding, finding)


def inside(estimate: Estimate, low: float, high: float) -> Finding:
    """Judge the claim that an effect lies between two bounds.

    >>> inside(Estimate(value=0.0, n=50, low=-0.02, high=0.04, method=""), -0.05, 0.05).value
    'supported'
    """
    least, most = estimate.ends
    if estimate.value is None or least is None or most is None:
        return Finding.NOT_TESTED
    if low <= least and most <= high:
        return Finding.SUPPORTED
    return Finding.CONTRADICTED if most < low or least > high else Finding.UNDECIDED


def outside(estimate: Estimate, same: float, low: float, high: float) -> Finding:
    """Judge the claim that an effect differs from `same`: it does, or lies between two bounds.

    >>> outside(Estimate(value=0.0, n=50, low=-0.02, high=0.04, method=""), 0, -0.05, 0.05).value
    'contradicted'
    """
    finding = above(estimate, same)
    if finding in (Finding.SUPPORTED, Finding.CONTRADICTED):
        return Finding.SUPPORTED
    is_same = inside(estimate, low, high) is Finding.SUPPORTED
    return Finding.CONTRADICTED if is_same else finding


def frequent(estimate: Estimate) -> Finding:
    """Judge a claim by the share of resamples in which it holds: 97.5 % for, 2.5 % against."""
    if estimate.value is None:
        return Finding.NOT_TESTED
    low, high = estimate.ends
    if (estimate.value if low is None else low) >= CERTAIN:
        return Finding.SUPPORTED
    most = estimate.value if high is None else high
    return Finding.CONTRADICTED if most <= 1 - CERTAIN else Finding.UNDECIDED


CLOSE: Judge = partial(inside, low=-MARGIN, high=MARGIN)
DIFFERENT: Judge = partial(outside, same=0.0, low=-MARGIN, high=MARGIN)
NEAR: Judge = partial(inside, low=1 / NEARBY, high=NEARBY)
MOVED: Judge = partial(outside, same=1.0, low=1 / NEARBY, high=NEARBY)
LATER: Judge = partial(above, bound=1.0)
MOST: Judge = partial(above, bound=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim in one place."""

    dataset: str
    group: str
    victim: str
    arms: str
    """Rules of the attacks: `default`, `marked` (variants of the right answer are asked), or a
    list."""
    number: int
    statement: str
    """What is claimed, whatever the run says of it."""
    quantity: str
    """What the effect measures."""
    budget: int | None
    effect: Estimate
    p: float | None
    p_adjusted: float | None = None
    """p after Benjamini-Hochberg over all claims of a run."""
    finding: Finding
    caution: str = ""
    """Why one may not rely on the model's answers; empty where one may."""

    @property
    def reason(self) -> str:
        """Why it was not tested; empty where it was."""
        return self.effect.method if self.finding is Finding.NOT_TESTED else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims(Shown):
    """All claims in all places."""

    rows: Sequence[Claim]
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
        notes = [*self._notes(), *dict.fromkeys(map(_caution, filter(_has_caution, self.rows)))]
        made = table("claims", self.title, self.rows, _FIELDS, n_labels=2, notes=notes)
        rules = {
            i for i in range(1, len(self.rows)) if _where(self.rows[i]) != _where(self.rows[i - 1])
        }
        return [replace(made, rules=frozenset(rules))]

    def remarks(self) -> Sequence[Remark]:
        """What the run says of every claim that it tests."""
        return [
            Remark(
                rule="claim",
                level="note",
                where=(row.dataset, row.group, row.victim),
                sentence=f"{row.finding.capitalize()}: {row.statement} ({row.victim}, "
                f"{row.dataset}, {row.group}).",
            )
            for row in self.tested
        ]

    def _notes(self) -> Iterator[str]:
        n = Counter(row.finding for row in self.rows if row.number != CHECK)
        tried = n.total() - n[Finding.NOT_TESTED]
        yield (
            "A claim is a sentence of the paper; the finding says what this run shows. Supported: "
            "the whole 95 % interval lies on the claimed side; contradicted: on the other; "
            f"undecided: on both. Close: within ±{MARGIN:g} in ASR; near: within a factor of "
            f"{NEARBY:g}. A maximum lies inside the grid where it does in at least 97.5 % of the "
            "resamples of items, and does not where it does in at most 2.5 %."
        )
        yield (
            f"Not tested: an attack or analysis is missing, or a side has fewer than {LEAST} items "
            "or successes. A chosen n is chosen on a fifth of the items and measured on the others."
        )
        yield (
            f"{tried} tested: {n[Finding.SUPPORTED]} supported, {n[Finding.CONTRADICTED]} "
            f"contradicted, {n[Finding.UNDECIDED]} undecided; {n[Finding.NOT_TESTED]} not tested. "
            f"Claim {CHECK} checks the run and is not counted. Findings are not corrected for "
            "multiplicity: without any effect one in twenty would still get a direction."
        )


class ClaimsOfRun:
    """The claims of Xian et al. in every place."""

    name = "claims"

    def compute(self, run: Run) -> Claims | None:
        """Test every claim and adjust all p-values together; None without attacks on questions."""
        attacks = [one for one in competitors(run) if isinstance(one.cell.trials[0].item, Question)]
        attacks = [one for one in attacks if one.cell.eligible.any()]
        if not attacks:
            return None
        series = series_of(attacks)
        rows = [row for one in series for row in _of_series(one)]
        rows += _across_models(series)
        rows += _of_embeddings(attacks)
        rows += _of_explanations(run)
        adjusted = iter(benjamini_hochberg([row.p for row in rows if row.p is not None]))
        return Claims(
            rows=[row if row.p is None else replace(row, p_adjusted=next(adjusted)) for row in rows]
        )


CLAIMS = ClaimsOfRun()


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

    def side(self, method: str, budget: int = 1, left_out: Items = NO_ITEMS) -> list[Cell]:
        """Return the cells of a method's attacks with at least this budget."""
        cells = (without(one.cell, left_out) for one in self.of(method) if one.budget >= budget)
        return [cell for cell in cells if cell is not None]

    def missing(self, *methods: str) -> str:
        """Return which methods the run lacks under these rules; empty where it has all."""
        lacking = [METHODS[m] for m in dict.fromkeys(methods) if not self.of(m)]
        if not lacking:
            return ""
        rules = "" if self.label == "default" else f"{_UNDER}{self.label}"
        return f"no {' and no '.join(lacking)} in this run{rules}"

    def budgets(self, *methods: str) -> tuple[int, ...]:
        """Return 1, and the largest budget that every method has where it is larger."""
        most = min(max((one.budget for one in self.of(m)), default=1) for m in methods)
        return (1, most) if most > 1 else (1,)

    @property
    def middle(self) -> str:
        """The method that is n = 0: random sampling, unless only PDWS was run there."""
        return "random" if self.of("random") or not self.of("zero") else "zero"

    def claim(
        self,
        number: int,
        statement: str,
        quantity: str,
        budget: int | None,
        effect: Effect,
        judge: Judge = above,
    ) -> Claim:
        """Return a claim of this place with its finding."""
        place = self.attacks[0].setting.place
        return Claim(
            **place._asdict(),
            arms=self.label,
            number=number,
            statement=statement,
            quantity=quantity,
            budget=budget,
            effect=effect[0],
            p=effect[1],
            finding=judge(effect[0]),
            caution=self.caution,
        )


_OF_METHOD = ("n", "sampler", "budget")


def series_of(attacks: Sequence[Competitor]) -> list[Series]:
    """Group attacks into series: places in the order of their first attack, default rules first.

    DiscreteZOO has other parameters; it joins every series with equal values of the rules that both
    have. Of an attack with several budgets the largest counts.
    """
    places: dict[Any, list[Competitor]] = defaultdict(list)
    for one in attacks:
        if one.method in METHODS:
            places[one.setting.place].append(one)
    series = []
    for members in places.values():
        rules: dict[str, list[Competitor]] = defaultdict(list)
        zoos = [one for one in members if one.method == "discrete_zoo"]
        for one in members:
            if one not in zoos:
                rules[_rule(one)].append(one)
        for zoo in zoos:
            fitting = [group for group in rules.values() if _agree(zoo, group[0])]
            for group in fitting or [rules[_rule(zoo)]]:
                group.append(zoo)
        groups = list(rules.values())
        labels = _labels([group[0].cell.attack.params for group in groups])
        caution = _caution_of([one.cell for one in members])
        made = [
            Series(
                label=label,
                attacks=_largest(group),
                split=tuning_items(one.cell for one in group),
                caution=caution,
            )
            for label, group in zip(labels, groups, strict=True)
        ]
        series += sorted(made, key=lambda one: (one.label != "default", one.label))
    return series


def _rule(one: Competitor) -> str:
    params = one.cell.attack.params
    return canonical_json({k: v for k, v in params.items() if k not in _OF_METHOD})


def _agree(zoo: Competitor, other: Competitor) -> bool:
    first, second = zoo.cell.attack.params, other.cell.attack.params
    return all(first[key] == second[key] for key in RULES if key in first and key in second)


def _labels(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the rules of one place.

    >>> _labels([{"variants": "exclude"}, {"variants": "mark"}])
    ['default', 'marked']
    """
    names = ["marked" if spec.get("variants") == "mark" else "default" for spec in specs]
    keys = [key for key in RULES if len({canonical_json(spec.get(key)) for spec in specs}) > 1]
    return [
        ", ".join([name, *(f"{k} = {spec[k]}" for k in keys if k in spec and k != "variants")])
        if names.count(name) > 1
        else name
        for name, spec in zip(names, specs, strict=True)
    ]


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


def untested(reason: str) -> Effect:
    """Return an effect without a value, and why."""
    return unknown(reason), None


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


def _too_few(m: int, which: str = "in common") -> Estimate:
    return unknown(f"needs {LEAST} items {which}, has {m}", m)


def paired(first: Side, second: Side, budget: int, metric: str = ASR) -> Difference:
    """Estimate success of one side minus that of another on the items that all attacked.

    Every attack of one side is paired with every attack of the other.

    Args:
        first: attacks of the first side.
        second: attacks of the second.
        budget: queries an item within which success counts.
        metric: `asr`, or `asr_unrefuted`.
    """
    items = shared_items(first, second)
    ours: list[Reading] = []
    others: list[Reading] = []
    paths: list[tuple[Any, ...]] = []
    for one in first:
        kept = one.eligible & one.mask(lambda trial: trial.item.id in items)
        for other in second:
            pairs = pair(one, other)
            pairs = pairs.where(kept[pairs.first] & other.eligible[pairs.second])
            ours.append(read(one, metric, budget).at(pairs.first))
            others.append(read(other, metric, budget).at(pairs.second))
            paths += [one.trials[i].path for i in pairs.first]
    return contrast(_joined(ours), _joined(others), number_units(paths))


def _joined(readings: Sequence[Reading]) -> Reading:
    return Reading(*(np.concatenate(parts) for parts in zip(*readings, strict=True)))


def success_difference(first: Side, second: Side, budget: int) -> Effect:
    """Estimate ASR of one side minus that of another (`paired`), where there are enough items."""
    if (m := len(shared_items(first, second))) < LEAST:
        return _too_few(m), None
    difference = paired(first, second, budget)
    return difference.estimate, difference.p


def success_gain(side: Side, budget: int) -> Effect:
    """Estimate ASR within a budget minus ASR of one query, a share of the same trials."""
    items = shared_items(side)
    if len(items) < LEAST:
        return _too_few(len(items)), None
    parts: list[tuple[Mask, Mask, Mask]] = []
    paths: list[tuple[Any, ...]] = []
    for cell in side:
        kept = cell.eligible & cell.mask(lambda trial: trial.item.id in items)
        parts.append(
            (
                (cell.flipped(budget) & ~cell.flipped(1))[kept],
                (cell.surely(budget) & ~cell.maybe(1))[kept],
                (cell.maybe(budget) & ~cell.surely(1))[kept],
            )
        )
        paths += [trial.path for trial, keep in zip(cell.trials, kept, strict=True) if keep]
    units: Units = number_units(paths)
    gained, least, most = (rate(np.concatenate(p), units) for p in zip(*parts, strict=True))
    if (least.hits, most.hits) == (gained.hits, gained.hits):
        return gained, None
    return replace(gained, worst=(least.low, most.high)), None


def _settled(cell: Cell, *, hits: bool) -> Cell:
    """Return a cell whose open answers are all successes of the first query, or all misses."""
    first = cell.first.copy()
    if hits:
        first[cell.eligible & cell.lacks] = 1
    else:
        first[cell.unread] = NEVER
    return cell.with_first(first)


def at_worst(effect: Callable[[Side, Side], Estimate], first: Side, second: Side) -> Estimate:
    """Estimate an effect of two sides, with its ends where open answers favour either side.

    This assumes that the effect is extreme where all of them favour one side.
    """
    value = effect(first, second)
    cells = [*first, *second]
    if not any((cell.eligible & (cell.lacks | cell.unread)).any() for cell in cells):
        return value
    return hull(
        value,
        *(
            effect(
                [_settled(cell, hits=for_first) for cell in first],
                [_settled(cell, hits=not for_first) for cell in second],
            )
            for for_first in (False, True)
        ),
    )


def hull(value: Estimate, *extremes: Estimate) -> Estimate:
    """Return an estimate whose worst ends hold its own interval and those of the extremes.

    Without any interval they go from the least value to the largest.
    """
    every = (value, *extremes)
    for one in every:
        if one.value is None:
            return unknown(f"{one.method} ({WORST})", one.n)
    if all(one.low is None for one in every):
        values = [one.value for one in every if one.value is not None]
        return replace(value, worst=(min(values), max(values)))
    lows = [one.low for one in every if one.low is not None]
    highs = [one.high for one in every if one.high is not None]
    if len(lows) < len(every) or len(highs) < len(every):
        return replace(value, worst=(None, None))
    return replace(value, worst=(min(lows), max(highs)))


def item_curves(side: Side, items: Iterable[str], budget: int) -> Numbers:
    """Return the share of trials that succeed within 1, 2, ... queries, item by item.

    Returns:
        The mean over the attacks of the side, shape (n_items, budget).
    """
    order = list(items)
    counted = [hits_of(cell, order, budget, by_item=True) for cell in side]
    return np.asarray(np.mean([c.successes / c.counts[:, None] for c in counted], axis=0))


def peak_inside(side: Side, exponents: Sequence[float], budget: int) -> Effect:
    """Estimate how often the highest success lies inside the grid of n, as a local maximum does.

    Args:
        side: one attack for each exponent.
        exponents: ascending; with fewer than three there is no inside.
        budget: queries an item within which success counts.
    """
    if len(exponents) < 3:
        return untested(f"needs three values of n, has {len(exponents)}")

    def share(middle: Side, ends: Side) -> Estimate:
        cells = [ends[0], *middle, ends[1]]
        items = shared_items(cells)
        if len(items) < LEAST:
            return _too_few(len(items))
        rates = np.stack([item_curves([c], items, budget)[:, -1] for c in cells], axis=1)
        if np.ptp(rates.mean(axis=0)) < ROUNDING:
            return unknown("success is the same at every n", len(items))
        at = peak(rates, exponents, _units(items))
        ends_of = "" if at.n.low is None else f" [{at.n.low:g}, {at.n.high:g}]"
        method = (
            f"share of {RESAMPLES} resamples of {in_words(_units(items))} with the peak inside the "
            f"grid; peak at n = {at.n.value:g}{ends_of}"
        )
        return Estimate(value=at.inside_share, n=len(items), low=None, high=None, method=method)

    return at_worst(share, side[1:-1], [side[0], side[-1]]), None


Curves: TypeAlias = tuple[Numbers, Numbers]
"""Both sides' curves: those observed, then those of the resamples; shape (1 + RESAMPLES, B)."""


def curve_effect(
    first: Side,
    second: Side,
    budget: int,
    of: Callable[[Numbers, Numbers], Numbers | Estimate],
    flat: Sequence[int],
    what: str,
) -> Effect:
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
        return untested("one query an item: there is no curve")

    def effect(one: Side, other: Side) -> Estimate:
        items = shared_items(one, other)
        if len(items) < LEAST:
            return _too_few(len(items))
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

    return at_worst(effect, first, second), None


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


def rise_budget(largest: int) -> int:
    """Return the last budget of the rise: halfway to the largest on a logarithmic axis.

    >>> rise_budget(100), rise_budget(8)
    (10, 2)
    """
    return isqrt(largest)


def rises(first: Side, second: Side, budget: int) -> tuple[Estimate, Estimate, Estimate]:
    """Return mean success over the budgets of the rise: of both sides, and first minus second."""
    items, last = shared_items(first, second), rise_budget(budget)
    if not items:
        none = unknown("no item in common")
        return none, none, none
    ours, others = (item_curves(s, items, budget)[:, :last].mean(axis=1) for s in (first, second))
    units = _units(items)
    return (
        item_mean(ours, 0.0, units),
        item_mean(others, 0.0, units),
        item_mean(ours - others, -1.0, units),
    )


def rise_difference(first: Side, second: Side, budget: int) -> Effect:
    """Estimate by how much more one side succeeds in the rise, where there are enough items."""

    def effect(one: Side, other: Side) -> Estimate:
        m = len(shared_items(one, other))
        return _too_few(m) if m < LEAST else rises(one, other, budget)[2]

    return at_worst(effect, first, second), None


def diversity_difference(first: Side, second: Side, budget: int) -> Effect:
    """Estimate the difference of the unbiased Gini-Simpson index, mean over attacks.

    The index is taken within each seed and averaged. A resample repeats items, so that its index is
    too low: the interval is shifted by the difference of the estimate and the mean of the
    resamples.
    """
    items = list(shared_items(first, second))
    sides = [[_names_by_seed(cell, items, budget) for cell in side] for side in (first, second)]
    counts = [int(sum(seed.sum() for cell in cells for seed in cell)) for cells in sides]
    if (lack := _lack(len(items), counts)) is not None:
        return lack, None
    if not all(cell for cells in sides for cell in cells):
        return untested("an attack has fewer than 2 successes")
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = [
            np.mean([_mean_index([resampled_sums(s) for s in cell]) for cell in cells], axis=0)
            for cells in sides
        ]
    values = [
        fmean(float(_mean_index([seed.sum(axis=0) for seed in cell])) for cell in cells)
        for cells in sides
    ]
    return _difference(values, drawn, sum(counts), len(items), recentred=True), None


def _mean_index(seeds: Sequence[Numbers]) -> Numbers:
    return np.asarray(np.mean([gini_simpson(s, unbiased=True) for s in seeds], axis=0))


def _names_by_seed(cell: Cell, items: Sequence[str], budget: int) -> list[Any]:
    """Return how often each name was the first success, by seed and repeat, (n_items, n_names)."""
    from scipy.sparse import csr_array

    at = {item: i for i, item in enumerate(items)}
    seeds: dict[Any, list[tuple[int, str]]] = defaultdict(list)
    for trial, keep in zip(cell.trials, cell.flipped(budget), strict=True):
        name = trial.first and trial.first.name
        if keep and name and trial.item.id in at:
            seed = trial.arm.seed
            seeds[seed is not None, seed or 0, trial.repeat].append((at[trial.item.id], name))
    made = []
    for _, names in sorted(seeds.items()):
        columns = {name: j for j, name in enumerate(sorted({name for _, name in names}))}
        places = ([i for i, _ in names], [columns[name] for _, name in names])
        if len(names) > 1:
            made.append(csr_array((np.ones(len(names)), places), shape=(len(at), len(columns))))
    return made


def similarity_difference(first: Side, second: Side, budget: int) -> Effect:
    """Estimate the difference of prompt similarity over successes, mean over attacks."""
    items = list(shared_items(first, second))
    sides = [[_similarities(cell, items, budget) for cell in side] for side in (first, second)]
    counts = [int(sum(n.sum() for _, n in cells)) for cells in sides]
    if (lack := _lack(len(items), counts)) is not None:
        return lack, None
    if any(not n.any() for cells in sides for _, n in cells):
        return untested("an attack has no success")
    values = [fmean(float(sums.sum() / n.sum()) for sums, n in cells) for cells in sides]
    drawn = [np.mean([resampled_ratio(*one) for one in cells], axis=0) for cells in sides]
    return _difference(values, drawn, sum(counts), len(items), recentred=False), None


def _similarities(cell: Cell, items: Sequence[str], budget: int) -> tuple[Numbers, Numbers]:
    at = {item: i for i, item in enumerate(items)}
    totals, counts = np.zeros(len(items)), np.zeros(len(items))
    for trial, keep in zip(cell.trials, cell.flipped(budget), strict=True):
        similarity = trial.first and trial.first.similarity
        if keep and similarity is not None and trial.item.id in at:
            totals[at[trial.item.id]] += similarity
            counts[at[trial.item.id]] += 1
    return totals, counts


def _difference(
    values: Sequence[float], drawn: Sequence[Numbers], n: int, m: int, *, recentred: bool
) -> Estimate:
    value, again = values[0] - values[1], drawn[0] - drawn[1]
    how = "recentred percentile" if recentred else "percentile"
    method = (
        f"difference of means over attacks, paired; bootstrap over {m} items, {RESAMPLES} "
        f"resamples, {how} 95 %"
    )
    estimate = bootstrapped(value, again, n, method)
    if not recentred or estimate.low is None or estimate.high is None:
        return estimate
    shift = value - float(again[np.isfinite(again)].mean())
    return replace(
        estimate, low=max(estimate.low + shift, -1.0), high=min(estimate.high + shift, 1.0)
    )


def _lack(m: int, counts: Sequence[int]) -> Estimate | None:
    if m < LEAST:
        return _too_few(m)
    if min(counts) < LEAST:
        why = f"needs {LEAST} successes a side, has {counts[0]} and {counts[1]}"
        return unknown(why, sum(counts))
    return None


def length_correlation(cells: Sequence[Cell]) -> Effect:
    """Estimate Spearman's correlation of a question's length in words and prompt similarity.

    Of successes whose prompts were embedded; whole items are drawn, and every resample is ranked
    anew.
    """
    embedded = [
        (trial, trial.first.similarity)
        for cell in cells
        for trial in cell.trials
        if trial.first is not None and trial.first.similarity is not None
    ]
    items = sorted({trial.item.id for trial, _ in embedded})
    if len(items) < LEAST:
        return _too_few(len(items), "with an embedded success"), None
    at = {item: i for i, item in enumerate(items)}
    lengths = np.array([_n_words(trial.item) for trial, _ in embedded])
    values = np.array([similarity for _, similarity in embedded])
    columns = np.array([at[trial.item.id] for trial, _ in embedded])
    observed = float(_spearman(lengths, values, np.ones((1, len(embedded))))[0])
    if not np.isfinite(observed):
        return untested("lengths or similarities are all the same")
    weights = unit_weights(len(items))
    blocks = (weights[i : i + 100][:, columns] for i in range(0, RESAMPLES, 100))
    drawn = np.concatenate([_spearman(lengths, values, b.astype(np.float64)) for b in blocks])
    method = (
        f"Spearman's rank correlation; bootstrap over {len(items)} items, {RESAMPLES} resamples, "
        "percentile 95 %"
    )
    return bootstrapped(observed, drawn, len(embedded), method), None


def _n_words(item: Question) -> int:
    return sum(len(text.split()) for text in (item.passage, item.question, *item.options))


def _spearman(x: Any, y: Any, weights: Numbers) -> Numbers:
    """Return the rank correlation; every row of `weights` says how often each pair occurs."""
    centre = (weights.sum(axis=1, keepdims=True) + 1) / 2
    a, b = (_ranks(values, weights) - centre for values in (x, y))
    ab, aa, bb = ((weights * p * q).sum(axis=1) for p, q in ((a, b), (a, a), (b, b)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(ab / np.sqrt(aa * bb))


def _ranks(values: Any, weights: Numbers) -> Numbers:
    """Return mean ranks of values that occur `weights` times, shape of `weights`."""
    from scipy.sparse import csr_array

    _, kinds = np.unique(values, return_inverse=True)
    cells = (np.ones(len(values)), (np.arange(len(values)), kinds))
    by_kind = weights @ csr_array(cells, shape=(len(values), int(kinds.max()) + 1))
    return np.asarray((by_kind.cumsum(axis=1) - (by_kind - 1) / 2)[:, kinds])


def dominated(cells: Sequence[Cell], m: int = TOP) -> Effect:
    """Estimate the share of successes that the m names make which succeed most on other items.

    The names of an item are ranked without the items of its fold.
    """
    hits: list[bool] = []
    paths: list[tuple[Any, ...]] = []
    for cell in cells:
        trials = [trial for trial in cell.trials if trial.is_eligible]
        tops = cross_fitted(trials, m)
        for trial in trials:
            if trial.first is not None and trial.first.name is not None:
                hits.append(trial.first.name in tops[trial.item.id])
                paths.append(trial.path)
    if len(hits) < LEAST:
        return unknown(f"needs {LEAST} successes, has {len(hits)}", len(hits)), None
    return rate(np.array(hits), number_units(paths)), None


# Claims of one series --------------------------------------------------------------------------


def _of_series(series: Series) -> Iterator[Claim]:
    yield from _diversity(series)
    yield from _similarity(series)
    yield from _success(series)
    yield from _peaks(series)
    yield from _overtaking(series)
    yield from _proxies(series)
    for zoos in zoo_searches(series.of("discrete_zoo")) or [[]]:
        yield from _against_zoo(series, zoos)
    yield from _moves(series)
    yield from _candidates(series)
    yield from _dominance(series)
    yield from _gains(series)


def _compared(
    series: Series,
    effect: Callable[[Side, Side, int], Effect],
    first: str,
    second: str,
    budget: int,
) -> Effect:
    if missing := series.missing(first, second):
        return untested(missing)
    return effect(series.side(first, budget), series.side(second, budget), budget)


def _diversity(series: Series) -> Iterator[Claim]:
    for budget in series.budgets("near", "far"):
        effect = _compared(series, diversity_difference, "near", "far", budget)
        quantity = "diversity (unbiased), n < 0 minus n > 0"
        yield series.claim(1, "Diversity is higher for n < 0 than n > 0", quantity, budget, effect)


def _similarity(series: Series) -> Iterator[Claim]:
    cells = [one.cell for one in series.attacks]
    is_computed = any(
        t.first is not None and t.first.similarity is not None for c in cells for t in c.trials
    )
    not_computed = untested("prompt similarity was not computed: [analysis] prompt_similarity")
    middle = series.middle
    for statement, first, second in (
        ("Similarity is lower near n = 0 than for n < 0", "near", middle),
        ("Similarity is lower near n = 0 than for n > 0", "far", middle),
        ("Similarity is higher for n < 0 than n > 0", "near", "far"),
    ):
        for budget in series.budgets(first, second):
            effect = not_computed
            if is_computed:
                effect = _compared(series, similarity_difference, first, second, budget)
            quantity = f"prompt similarity, {METHODS[first]} minus {METHODS[second]}"
            yield series.claim(2, statement, quantity, budget, effect)
    effect = length_correlation(cells) if is_computed else not_computed
    quantity = "Spearman correlation, words of the question and similarity"
    yield series.claim(3, "Similarity is lower on short prompts", quantity, None, effect)


def _success(series: Series) -> Iterator[Claim]:
    for budget in series.budgets("near", "far"):
        effect = _compared(series, success_difference, "near", "far", budget)
        statement = "ASR is higher for n < 0 than n > 0"
        yield series.claim(4, statement, "ASR, n < 0 minus n > 0", budget, effect)


def _peaks(series: Series) -> Iterator[Claim]:
    for method in ("near", "far"):
        regime, members = METHODS[method].removeprefix("PDWS "), series.of(method)
        effect = untested(series.missing(method))
        if members:
            exponents = [one.n or 0.0 for one in members]
            effect = peak_inside(series.side(method), exponents, 1)
        statement = f"ASR has a local maximum inside {regime}"
        yield series.claim(5, statement, f"peak inside the grid, {regime}", 1, effect, frequent)
        if missing := series.missing(method, "random"):
            effect = untested(missing)
        else:
            cells, left_out, _ = _best(series, members, 1)
            effect = success_difference(cells, series.side("random", 1, left_out), 1)
        statement = f"ASR of random sampling is below the peak for {regime}"
        yield series.claim(5, statement, f"ASR, best {regime} minus random", 1, effect)


def _best(
    series: Series, attacks: Sequence[Competitor], budget: int, key: str = EXPONENT
) -> tuple[list[Cell], Items, float | None]:
    """Return the cell of the best value, the items that chose it, and the value."""
    values = {one.cell.attack.params.get(key) for one in attacks}
    if len(values) < 2:
        return [one.cell for one in attacks[:1]], NO_ITEMS, next(iter(values))
    choice = choose(attacks, key, budget, series.split)
    assert choice is not None
    cell = without(choice.chosen.cell, series.split)
    return [cell] if cell else [], series.split, choice.value


def _overtaking(series: Series) -> Iterator[Claim]:
    budget = series.budgets("random", "far")[-1]
    past = partial(curve_effect, of=_lead, flat=(1,), what="mean over budgets past the inflection")
    for where, effect in (
        ("at the largest budget", success_difference),
        ("over the budgets past the inflection", past),
    ):
        lead = _compared(series, effect, "random", "far", budget)
        if budget == 1 and not series.missing("random", "far"):
            lead = untested("one query an item: there is nothing past an inflection")
        statement = f"Random sampling overtakes PDWS n > 0, {where}"
        yield series.claim(6, statement, f"ASR, random minus n > 0, {where}", budget, lead)


def _proxies(series: Series) -> Iterator[Claim]:
    for first, second in (("nearest", "near"), ("farthest", "far")):
        statement = f"{METHODS[first]} is close to {METHODS[second]}"
        quantity = f"ASR, {METHODS[first]} minus {METHODS[second]}"
        for budget in series.budgets(first, second):
            effect, _ = _compared(series, success_difference, first, second, budget)
            yield series.claim(7, statement, quantity, budget, (effect, None), CLOSE)


def _against_zoo(series: Series, zoos: Sequence[Competitor]) -> Iterator[Claim]:
    """Compare PDWS at its best n with DiscreteZOO at its best learning rate."""
    regimes = [*series.of("near"), *series.of("far")]
    several = len(zoo_searches(series.of("discrete_zoo"))) > 1
    name = f"{METHODS['discrete_zoo']} ({zoos[0].label})" if several else METHODS["discrete_zoo"]
    gap = lead = untested(series.missing("discrete_zoo") or "no PDWS in this run")
    budget, best_name, rival_name = 1, "PDWS at its best n", name
    if zoos and regimes:
        budget = min(zoos[0].budget, max(one.budget for one in regimes))
        enough = [one for one in regimes if one.budget >= budget]
        ours, chose, n = _best(series, enough, budget)
        others, chose_rate, learning_rate = _best(series, zoos, budget, LEARNING_RATE)
        left_out = chose | chose_rate
        ours, others = (
            [cell for one in side if (cell := without(one, left_out))] for side in (ours, others)
        )
        gap = curve_effect(
            ours, others, budget, _gap, (0,), "budget of the largest gap over the inflection's"
        )
        lead = success_difference(ours, others, budget)
        best_name = "PDWS" if n is None else f"PDWS n = {minus(n)}"
        if zoos[0].cell.attack.params.get("answers") == "hard":
            name += " (answers alone: its learning rate has no effect)"
        elif chose_rate:
            name += " at its best learning rate"
        else:
            name += " (its learning rate is given, not tuned)"
        if has_learning_rate(zoos[0]):
            rival_name += f", learning rate {learning_rate:g}"
    statement = f"The largest gap of PDWS and {name} is near the inflection"
    quantity = f"budget of the gap over that of the inflection, {best_name}"
    yield series.claim(8, statement, quantity, budget, gap, NEAR)
    quantity = f"ASR, {best_name} minus {rival_name}"
    yield series.claim(9, f"PDWS at its best n is above {name}", quantity, budget, lead)


def _bend_ratio(first: Competitor, second: Competitor) -> tuple[int, Effect]:
    """Return the largest common budget, and the first's inflection over the second's."""
    budget = min(first.budget, second.budget)
    if budget < LEAST_BUDGET:
        return budget, untested(f"needs a budget of at least {LEAST_BUDGET}, has {budget}")
    what = "ratio of the budgets where the curves level off"
    return budget, curve_effect([first.cell], [second.cell], budget, _bends, (0, 1), what)


def _moves(series: Series) -> Iterator[Claim]:
    """Compare where curves level off, at the lowest and the highest n of each regime."""
    for method in ("near", "far"):
        members, regime = series.of(method), METHODS[method].removeprefix("PDWS ")
        budget, effect, quantity = 1, untested(series.missing(method)), f"inflections, {regime}"
        if len(members) == 1:
            effect = untested(f"one value of n alone for {regime}")
        elif members:
            budget, effect = _bend_ratio(members[-1], members[0])
            quantity = f"inflection of {members[-1].words} over that of {members[0].words}"
        yield series.claim(12, f"n moves the inflection, {regime}", quantity, budget, effect, MOVED)


def _candidates(series: Series) -> Iterator[Claim]:
    """Compare DiscreteZOO at its smallest and largest number of candidates M."""
    by_m: dict[int, Competitor] = {}
    for one in series.of("discrete_zoo"):
        by_m.setdefault(int(one.cell.attack.params.get("candidates") or 0), one)
    early = slow = untested(
        series.missing("discrete_zoo") or "one number of candidates M alone: nothing to compare"
    )
    budget, names = 1, ("many candidates", "few")
    if len(by_m) > 1:
        few, many = (by_m[m] for m in (min(by_m), max(by_m)))
        names = (f"M = {max(by_m)}", f"M = {min(by_m)}")
        budget, early = _bend_ratio(many, few)
        slow = rise_difference([few.cell], [many.cell], budget)
    statement = "DiscreteZOO reaches its plateau later with more candidates M"
    quantity = f"inflection of {names[0]} over that of {names[1]}"
    yield series.claim(13, statement, quantity, budget, early, LATER)
    statement = "DiscreteZOO rises more slowly with more candidates M"
    quantity = f"mean ASR over budgets 1 to {rise_budget(budget)}, {names[1]} minus {names[0]}"
    yield series.claim(13, statement, quantity, budget, slow)


def _dominance(series: Series) -> Iterator[Claim]:
    effect = untested(series.missing("far"))
    if series.of("far"):
        effect = dominated(series.side("far"))
    statement = "A few reusable names make most of the successes of n > 0"
    quantity = f"share of successes by the {TOP} names that succeed most on other items"
    yield series.claim(15, statement, quantity, None, effect, MOST)


def _gains(series: Series) -> Iterator[Claim]:
    for method in (m for m in METHODS if m != "zero"):
        members = series.of(method)
        most = max((one.budget for one in members), default=0)
        groups = [[one for one in members if one.budget == most]] if members else []
        if method == "discrete_zoo":
            groups = [[one] for one in members]
        for group in groups:
            budget, effect = group[0].budget, untested("one query an item")
            if budget > 1:
                effect = success_gain([one.cell for one in group], budget)
            name = group[0].label if method == "discrete_zoo" else METHODS[method]
            statement = f"ASR within the budget is above ASR of one query, {name}"
            quantity = f"ASR within the budget minus ASR of one query, {name}"
            yield series.claim(CHECK, statement, quantity, budget, effect)


# Claims across models, embeddings and explanations ---------------------------------------------


def _across_models(series: Sequence[Series]) -> Iterator[Claim]:
    """Test what is claimed of sizes and kinds of models; the models are the sample."""
    groups: dict[Any, list[Series]] = defaultdict(list)
    for one in series:
        place = one.attacks[0].setting.place
        groups[place.dataset, place.group, one.label].append(one)
    for members in groups.values():
        shared = [m for m in ("random", "near", "far") if all(one.of(m) for one in members)]
        models = [point for one in members if (point := _model(one, shared))]
        kinds = {
            k: [p for p in models if p.victim_group == k] for k in ("generalist", "specialist")
        }
        sized = [p for p in models if p.parameters]
        quantity = "change of ASR for ten times the parameters"
        rows: list[tuple[str, str, Estimate, Judge]] = [
            ("ASR falls with model size", quantity, _trend(sized, "model"), below)
        ]
        of_kinds: tuple[tuple[str, str, Judge], ...] = (
            ("generalist", "falls", below),
            ("specialist", "rises", above),
        )
        for kind, verb, judge in of_kinds:
            statement = f"ASR {verb} with the size of {kind}s"
            effect = _trend([p for p in kinds[kind] if p.parameters], kind)
            rows.append((statement, f"{quantity}, {kind}s", effect, judge))
        difference = mean_difference(kinds["specialist"], kinds["generalist"])
        statement = "Specialists are as robust as generalists"
        rows.append((statement, "mean ASR, specialists minus generalists", difference, CLOSE))
        cautions = [
            f"{one.attacks[0].setting.place.victim} is {one.caution}"
            for one in members
            if one.caution
        ]
        for statement, measured, effect, judged in rows:
            claim = members[0].claim(10, statement, measured, 1, (effect, None), judged)
            yield replace(claim, victim=ALL_MODELS, caution="; ".join(cautions))


def _model(series: Series, methods: Sequence[str]) -> Sized | None:
    """Return a model with its ASR of one query, the mean over methods; None without methods."""
    sides = [series.side(method) for method in methods]
    if not sides:
        return None
    value, least, most = (
        fmean(_mean_asr([_settled(c, hits=hits) for c in side] if hits is not None else side)
              for side in sides)
        for hits in (None, False, True)
    )  # fmt: skip
    setting = series.attacks[0].setting
    none = unknown("not used")
    return Sized(
        victim=setting.place.victim,
        parameters=setting.parameters or 0.0,
        family=None,
        victim_group=setting.victim_group,
        accuracy=none,
        accuracy_after=none,
        asr=Estimate(
            value=value,
            n=1,
            low=None,
            high=None,
            method="mean over methods",
            worst=None if least == most else (least, most),
        ),
    )


def _mean_asr(side: Side) -> float:
    items = shared_items(side)
    return float(item_curves(side, items, 1).mean()) if items else 0.0


def _ends(model: Sized) -> tuple[float, float]:
    low, high = model.asr.worst or (model.asr.value, model.asr.value)
    return low or 0.0, high or 0.0


def _trend(models: Sequence[Sized], kind: str) -> Estimate:
    if not models:
        return unknown(f"no {kind} of known size was run")
    return trend([(model, _ends(model)) for model in models])


def mean_difference(first: Sequence[Sized], second: Sequence[Sized]) -> Estimate:
    """Estimate the difference of mean ASR of two groups of models, by Welch's t.

    The models are the sample, as items do not say how another model would do.
    """
    value = _welch(*([m.asr.value or 0.0 for m in side] for side in (first, second)))
    if all(m.asr.worst is None for m in (*first, *second)):
        return value
    ends = [[[_ends(m)[i] for m in side] for i in (0, 1)] for side in (first, second)]
    return hull(value, *(_welch(ends[0][i], ends[1][1 - i]) for i in (0, 1)))


def _welch(first: Sequence[float], second: Sequence[float]) -> Estimate:
    from scipy.special import stdtrit

    a, b = len(first), len(second)
    if min(a, b) < 2:
        return unknown("needs two models of each group, generalist and specialist", a + b)
    value, u, v = fmean(first) - fmean(second), variance(first) / a, variance(second) / b
    if u + v < ROUNDING**2:
        return unknown("models of a group do not differ", a + b)
    freedom = (u + v) ** 2 / (u**2 / (a - 1) + v**2 / (b - 1))
    half = float(stdtrit(freedom, 0.975)) * sqrt(u + v)
    method = "difference of means over models, Welch's t 95 %"
    return Estimate(value=value, n=a + b, low=value - half, high=value + half, method=method)


def under_two_embeddings(attacks: Iterable[Competitor]) -> list[tuple[Competitor, Competitor]]:
    """Return the pairs of one attack on the same questions under two embeddings."""
    same: dict[Any, list[Competitor]] = defaultdict(list)
    for one in attacks:
        same[one.setting.asked, one.setting.rule, one.label].append(one)
    order = list(METHODS)
    pairs = [
        (one, other)
        for members in same.values()
        for one, other in combinations(members, 2)
        if one.setting.embedding != other.setting.embedding
    ]
    rank = {method: i for i, method in enumerate(order)}
    return sorted(pairs, key=lambda both: rank.get(both[0].method, len(order)))


def _of_embeddings(attacks: Sequence[Competitor]) -> Iterator[Claim]:
    """Test where the embedding matters: in the rise of PDWS, in the plateau of DiscreteZOO."""
    pairs = under_two_embeddings(one for one in attacks if one.method in METHODS)
    for methods, words, number in (
        (("near", "far"), "PDWS", 0),
        (("discrete_zoo",), "DiscreteZOO", 1),
    ):
        part = ("rapid rise", "plateau")[number]
        statement = f"The embedding matters in the {part} of {words}"
        members = [both for both in pairs if both[0].method in methods]
        for one, other in members:
            budget = min(one.budget, other.budget)
            compare = (rise_difference, success_difference)[number]
            effect = compare([other.cell], [one.cell], budget)
            if number == 0 and budget < 3:
                effect = untested(f"needs a budget of 3 for a rise, has {budget}")
            budgets = f"mean ASR over budgets 1 to {rise_budget(budget)}" if number == 0 else "ASR"
            quantity = (
                f"{budgets} of {one.words}, {other.setting.embedding} minus {one.setting.embedding}"
            )
            yield _claim_of(one, 14, statement, quantity, budget, effect, DIFFERENT)
        if not members:
            effect = untested(f"no {words} under two embeddings in this run")
            yield _claim_of(attacks[0], 14, statement, part, None, effect, DIFFERENT)


def _claim_of(
    one: Competitor,
    number: int,
    statement: str,
    quantity: str,
    budget: int | None,
    effect: Effect,
    judge: Judge,
) -> Claim:
    series = Series(label="default", attacks=(one,), split=NO_ITEMS, caution="")
    return series.claim(number, statement, quantity, budget, effect, judge)


def _of_explanations(run: Run) -> Iterator[Claim]:
    """Test what Figure 5 shows: the top token lies in the option that the model answers."""
    explained = run.of(EXPLANATIONS)
    rows = [] if explained is None else [r for r in explained.rows if r.kind == "success"]
    regimes: tuple[tuple[Any, str], ...] = (("n<0", "n < 0"), ("n>0", "n > 0"))
    for regime, words in regimes:
        statement = f"After a success the top token lies in the option that is answered, {words}"
        quantity = "share of successes whose top token lies there, minus chance"
        chosen = [row for row in rows if row.regime == regime and row.attack is None]
        if not chosen:
            why = "no success was explained: medstress explain" if not rows else None
            effect = untested(why or f"no success with {words} was explained")
            yield _of_model("", statement, quantity, effect)
        for row in chosen:
            excess = row.top_after["answer"].excess if row.top_after else unknown("no top token")
            if row.n < LEAST:
                excess = unknown(f"needs {LEAST} explained successes, has {row.n}", row.n)
            yield _of_model(row.victim, statement, quantity, (excess, None))


def _of_model(victim: str, statement: str, quantity: str, effect: Effect) -> Claim:
    return Claim(
        dataset="",
        group="",
        victim=victim or ALL_MODELS,
        arms="default",
        number=16,
        statement=statement,
        quantity=quantity,
        budget=None,
        effect=effect[0],
        p=effect[1],
        finding=above(effect[0]),
    )


# What is shown ---------------------------------------------------------------------------------


def _where(row: Claim) -> tuple[str, ...]:
    return row.dataset, row.group, row.victim, row.arms


def _has_caution(row: Claim) -> bool:
    return bool(row.caution) and row.number != 10


def _caution(row: Claim) -> str:
    return f"{row.victim} on {row.dataset}, {row.group}, is {row.caution}."


def _effect(row: Claim) -> Entry:
    if row.finding is Finding.NOT_TESTED:
        return Entry(value=None)
    lines: tuple[str, ...] = ("of resamples",) if row.effect.low is None else ()
    if row.effect.worst is not None and None not in row.effect.worst:
        low, high = row.effect.worst
        lines = (*lines, f"at worst [{low:.3f}, {high:.3f}]")
    return Entry(value=row.effect, lines=lines)


def _text(heading: str, key: str, *, wide: bool = False) -> Field[Claim]:
    def value(row: Claim) -> str:
        return str(getattr(row, key))

    return column(heading, value, key=key, wide=wide)


_FIELDS: Sequence[Field[Claim]] = (
    column("No.", lambda row: str(row.number), key="claim"),
    _text("Claim", "statement"),
    _text("Model", "victim"),
    _text("Data", "dataset", wide=True),
    _text("Group", "group", wide=True),
    _text("Attacks", "arms", wide=True),
    _text("Effect is", "quantity", wide=True),
    column("Budget", lambda row: row.budget, "count"),
    column("Effect", _effect, "score"),
    column("p (adjusted)", lambda row: row.p_adjusted, "p", key="p_adjusted"),
    column("Finding", lambda row: row.finding.value),
    column("Why not", lambda row: row.reason or None, key="reason", wide=True),
)
