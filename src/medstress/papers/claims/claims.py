"""Test each claim of Xian et al. (2025) on a run: effect with interval, and verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from medstress.core.rows import TrialRow
from medstress.metrics.contrasts import (
    Effect,
    Side,
    diversity_difference,
    length_correlation,
    similarity_difference,
    success_difference,
    success_gain,
)
from medstress.metrics.old_stats.multiplicity import benjamini_hochberg
from medstress.papers.arms import METHODS, NO_ITEMS, Arm
from medstress.papers.claims.across_victims import across_victims
from medstress.papers.claims.record import (
    CHECK,
    CLOSE,
    ClaimResult,
    Judge,
    caution_of,
    untested,
)
from medstress.papers.claims.series import Series, series_of
from medstress.papers.claims.verdicts import (
    NEAR,
    above,
    frequent,
    gap_over_inflection,
    inside,
    lead_after_inflection,
    peak_inside,
)
from medstress.papers.exponents import (
    EXPONENT,
    LEARNING_RATE,
    best_exponent,
    has_learning_rate,
    tuning_items,
    zoo_searches,
)

_NEARBY: Judge = partial(inside, low=1 / NEAR, high=NEAR)


def claims_of(arms: Sequence[Arm]) -> list[ClaimResult]:
    """Test every claim in every place, default rules first, and adjust all p-values together."""
    series = series_of(arms)
    tested = [row for each in series for row in _of_series(each)]
    tested += across_victims(series)
    known = [row.effect.p for row in tested if row.effect.p is not None]
    adjusted = iter(benjamini_hochberg(known))
    return [
        row if row.effect.p is None else replace(row, p_adjusted=next(adjusted)) for row in tested
    ]


@dataclass(frozen=True, slots=True)
class _Place:
    """One series under test."""

    series: Series
    split: frozenset[str] = field(init=False)
    """Hashes of the tuning items."""
    caution: str = field(init=False)

    def __post_init__(self) -> None:
        rows = (row for arm in self.series.arms for row in arm.trials)
        object.__setattr__(self, "split", tuning_items(rows))
        object.__setattr__(self, "caution", caution_of(self.series.arms))

    def side(self, method: str, budget: int, without: frozenset[str] = NO_ITEMS) -> Side:
        """Return the trials of every attack of a method with at least this budget."""
        return [
            [row for row in arm.trials if row.item_hash not in without]
            for arm in self.series.of(method)
            if arm.budget >= budget
        ]

    def tested(
        self, claim: int, statement: str, quantity: str, budget: int | None, effect: Effect,
        judge: Judge = above,
    ) -> ClaimResult:  # fmt: skip
        place = self.series
        return ClaimResult(
            dataset=place.dataset, group=place.group, victim=place.victim, arms=place.label,
            claim=claim, statement=statement, quantity=quantity, budget=budget, effect=effect,
            verdict=judge(effect.estimate), caution=self.caution,
        )  # fmt: skip

    def budgets(self, *methods: str) -> tuple[int, ...]:
        """Return 1, and the largest budget that every method has if it is greater."""
        most = [max((arm.budget for arm in self.series.of(m)), default=1) for m in methods]
        return (1, min(most)) if min(most) > 1 else (1,)


def _of_series(series: Series) -> Iterator[ClaimResult]:
    place = _Place(series)
    for claims in (_diversity, _similarity, _success, _peaks, _overtaking, _proxies, _search):
        yield from claims(place)
    yield from _gains(place)


def _compare(
    place: _Place, effect: Callable[..., Effect], first: str, second: str, budget: int
) -> Effect:
    """Return the effect between two methods, or the reason why it cannot be tested."""
    if missing := place.series.missing(first, second):
        return untested(missing)
    return effect(place.side(first, budget), place.side(second, budget), budget)


def _diversity(place: _Place) -> Iterator[ClaimResult]:
    for budget in place.budgets("near", "far"):
        effect = _compare(place, diversity_difference, "near", "far", budget)
        quantity = "diversity (unbiased), n < 0 minus n > 0"
        yield place.tested(1, "Diversity is higher for n < 0 than n > 0", quantity, budget, effect)


def _similarity(place: _Place) -> Iterator[ClaimResult]:
    rows = [row for arm in place.series.arms for row in arm.trials]
    not_computed = "prompt similarity was not computed: [analysis] prompt_similarity"
    computed = any(row.prompt_similarity is not None for row in rows)
    middle = place.series.middle
    claims = (
        ("Similarity is lower near n = 0 than for n < 0", "near", middle),
        ("Similarity is lower near n = 0 than for n > 0", "far", middle),
        ("Similarity is higher for n < 0 than n > 0", "near", "far"),
    )
    for statement, first, second in claims:
        for budget in place.budgets(first, second):
            effect = untested(not_computed)
            if computed:
                effect = _compare(place, similarity_difference, first, second, budget)
            quantity = f"prompt similarity, {METHODS[first]} minus {METHODS[second]}"
            yield place.tested(2, statement, quantity, budget, effect)
    effect = length_correlation(rows) if computed else untested(not_computed)
    quantity = "Spearman correlation, words of the prompt and similarity"
    yield place.tested(3, "Similarity is lower on short prompts", quantity, None, effect)


def _success(place: _Place) -> Iterator[ClaimResult]:
    for budget in place.budgets("near", "far"):
        effect = _compare(place, success_difference, "near", "far", budget)
        yield place.tested(
            4, "ASR is higher for n < 0 than n > 0", "ASR, n < 0 minus n > 0", budget, effect
        )


def _peaks(place: _Place) -> Iterator[ClaimResult]:
    for method in ("near", "far"):
        regime = METHODS[method].removeprefix("PDWS ")
        members = place.series.of(method)
        missing = place.series.missing(method)
        effect = (
            untested(missing)
            if missing
            else peak_inside(place.side(method, 1), [arm.n or 0.0 for arm in members], 1)
        )
        statement = f"ASR has a local maximum inside {regime}"
        yield place.tested(5, statement, f"peak inside the grid, {regime}", 1, effect, frequent)
        effect = _over_random(place, method)
        statement = f"ASR of random sampling is below the peak for {regime}"
        yield place.tested(5, statement, f"ASR, best {regime} minus random", 1, effect)


def _over_random(place: _Place, method: str) -> Effect:
    """Return ASR@1 of a regime at its best n, chosen on other items, minus random sampling."""
    if missing := place.series.missing(method, "random"):
        return untested(missing)
    best = _best(place, place.series.of(method), 1)
    return success_difference([best.rows], place.side("random", 1, best.without), 1)


def _overtaking(place: _Place) -> Iterator[ClaimResult]:
    largest = place.budgets("random", "far")[-1]
    missing = place.series.missing("random", "far")
    if not missing and largest == 1:
        missing = "one query an item: there is nothing past an inflection"
    for where, effect in (
        ("at the largest budget", success_difference),
        ("over the budgets past the inflection", lead_after_inflection),
    ):
        lead = untested(missing)
        if not missing:
            lead = _compare(place, effect, "random", "far", largest)
        statement = f"Random sampling overtakes PDWS n > 0, {where}"
        yield place.tested(6, statement, f"ASR, random minus n > 0, {where}", largest, lead)


def _proxies(place: _Place) -> Iterator[ClaimResult]:
    for first, second in (("nearest", "near"), ("farthest", "far")):
        statement = f"{METHODS[first]} is close to {METHODS[second]}"
        quantity = f"ASR, {METHODS[first]} minus {METHODS[second]}"
        for budget in place.budgets(first, second):
            effect = _compare(place, success_difference, first, second, budget)
            yield place.tested(7, statement, quantity, budget, replace(effect, p=None), CLOSE)


def _search(place: _Place) -> Iterator[ClaimResult]:
    searches = zoo_searches(place.series.of("discrete_zoo"))
    for zoos in searches or [[]]:
        yield from _against_zoo(place, zoos, several=len(searches) > 1)


def _against_zoo(place: _Place, zoos: Sequence[Arm], *, several: bool) -> Iterator[ClaimResult]:
    """Compare PDWS at its best n with arms of DiscreteZOO that differ only in learning rate."""
    series = place.series
    regimes = [*series.of("near"), *series.of("far")]
    known = METHODS["discrete_zoo"]
    name = f"{known} ({zoos[0].attack})" if several else known
    gap = lead = untested(series.missing("discrete_zoo") or "no PDWS in this run")
    budget, best_name, rival_name = 1, "PDWS at its best n", name
    if zoos and regimes:
        budget = min(zoos[0].budget, max(arm.budget for arm in regimes))
        best = _best(place, [arm for arm in regimes if arm.budget >= budget], budget)
        rival = _best(place, zoos, budget, LEARNING_RATE)
        without = best.without | rival.without
        ours, theirs = (
            [[row for row in each.rows if row.item_hash not in without]] for each in (best, rival)
        )
        gap = gap_over_inflection(ours, theirs, budget)
        lead = success_difference(ours, theirs, budget)
        best_name = f"PDWS n = {best.n:g}"
        if has_learning_rate(zoos[0]):
            rival_name = f"{name}, learning rate {rival.n:g}"
        name += _rate_remark(zoos[0], rival)
    statement = f"The largest gap of PDWS and {name} is near the inflection"
    quantity = f"budget of the gap over that of the inflection, {best_name}"
    yield place.tested(8, statement, quantity, budget, gap, _NEARBY)
    quantity = f"ASR, {best_name} minus {rival_name}"
    yield place.tested(9, f"PDWS at its best n is above {name}", quantity, budget, lead)


def _rate_remark(zoo: Arm, rival: _Best) -> str:
    """Return the claim's remark on whether DiscreteZOO's learning rate was tuned as n was."""
    if zoo.spec.get("answers") == "hard":
        return " (answers alone: its learning rate has no effect)"
    if rival.without:
        return " at its best learning rate"
    return " (its learning rate is given, not tuned)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Best:
    """The best exponent or learning rate, and its trials without the tuning items."""

    n: float | None
    rows: list[TrialRow]
    without: frozenset[str]


def _best(place: _Place, arms: Sequence[Arm], budget: int, key: str = EXPONENT) -> _Best:
    if len(arms) == 1:
        return _Best(n=arms[0].spec.get(key), rows=list(arms[0].trials), without=NO_ITEMS)
    rows = [row for arm in arms for row in arm.trials]
    choice = best_exponent(rows, budget=budget, split=place.split, key=key)
    if choice is None:
        raise ValueError("expected an arm to choose from")
    without = NO_ITEMS if choice.rule == "given" else place.split
    chosen = [arm for arm in arms if arm.spec[key] == choice.value]
    kept = [row for arm in chosen for row in arm.trials if row.item_hash not in without]
    return _Best(n=choice.value, rows=kept, without=without)


def _gains(place: _Place) -> Iterator[ClaimResult]:
    rest = (method for method in METHODS if method != "zero")
    groups = [(m, arms) for m in rest for arms in _largest_budgets(place.series.of(m))]
    for method, members in groups:
        budget = members[0].budget
        side = [arm.trials for arm in members]
        effect = success_gain(side, budget) if budget > 1 else untested("one query an item")
        name = METHODS[method] if method != "discrete_zoo" else members[0].attack
        statement = f"ASR within the budget is above ASR of one query, {name}"
        quantity = f"ASR within the budget minus ASR of one query, {name}"
        yield place.tested(CHECK, statement, quantity, budget, effect)


def _largest_budgets(arms: Sequence[Arm]) -> list[list[Arm]]:
    """Group the arms of a method that have the largest budget; each DiscreteZOO is a group."""
    if arms and arms[0].method == "discrete_zoo":
        return [[arm] for arm in arms]
    most = max((arm.budget for arm in arms), default=0)
    return [[arm for arm in arms if arm.budget == most]] if arms else []
