"""Two attacks on the same items: which of them flips what the other does not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, TypeAlias

from scipy.stats import binomtest, false_discovery_control

from medstress.metrics.counts import is_eligible, is_flipped, seed_order
from medstress.rows import TrialRow

_METHOD = (
    "exact McNemar, two-sided, over {n} items eligible under both attacks, each item once "
    "with the first seed that both ran (a deterministic attack stands for every seed); "
    "adjusted by Benjamini-Hochberg within the family"
)

Outcomes: TypeAlias = Mapping[tuple[str, str], Mapping[int | None, bool]]
"""Item -> seed -> whether the attack flipped it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McNemar:
    """The comparison of two arms on the same items."""

    n: int
    """Pairs of trials."""
    only_first: int
    """Pairs of which only the first arm's trial flipped."""
    only_second: int
    """Pairs of which only the second arm's trial flipped."""
    p: float | None
    """Two-sided p-value; None without pairs, 1 where no pair is discordant."""


def mcnemar(pairs: Iterable[tuple[bool, bool]]) -> McNemar:
    """Test whether two arms flip items equally often, on the same items.

    Only discordant pairs tell: with b and c of the two kinds, b ~ Binomial(b + c, 1/2) if
    the arms are alike.

    >>> mcnemar([(True, False)] * 10 + [(False, True)] * 2 + [(True, True)]).p
    0.03857421875

    References:
        McNemar, "Note on the sampling error of the difference between correlated
        proportions or percentages", Psychometrika 1947; here with the exact distribution.
    """
    seen = list(pairs)
    b = sum(first and not second for first, second in seen)
    c = sum(second and not first for first, second in seen)
    p = None if not seen else 1.0 if b + c == 0 else float(binomtest(b, b + c, 0.5).pvalue)
    return McNemar(n=len(seen), only_first=b, only_second=c, p=p)


def pair_trials(first: Iterable[TrialRow], second: Iterable[TrialRow]) -> list[tuple[bool, bool]]:
    """Pair the eligible trials of two attacks, each item once.

    Of the seeds that both attacks ran on an item the first is taken, and of its repeats the
    first; the one trial of a deterministic attack (seed None) pairs with any seed. Several
    seeds of one item would not be independent, and the exact test needs independence.

    Args:
        first: trials of one attack on one data set, group and victim.
        second: trials of another attack on the same.

    Returns:
        For each item whether the first and whether the second attack flipped it.
    """
    return _pair(_by_item(first), _by_item(second))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that rejecting those below q keeps the false discovery rate at q.

    The i-th least of m becomes min over j >= i of p_(j) m / j.

    >>> [round(p, 6) for p in benjamini_hochberg([0.04, 0.01, 0.03])]
    [0.04, 0.03, 0.04]

    References:
        Benjamini and Hochberg, "Controlling the false discovery rate", 1995.
    """
    if not p_values:
        return []
    return [float(p) for p in false_discovery_control(p_values, method="bh")]


def sampler_tests(trials: Iterable[TrialRow]) -> list[dict[str, Any]]:
    """Compare every two attacks on the same data set, group and victim.

    Returns:
        Rows of `tests`, family `samplers`, sorted; `statistic` is [items only the
        comparison flipped, items only `against` flipped]. `p` and `p_adjusted` are None
        where the two share no eligible item.
    """
    arms: dict[tuple[str, str, str], dict[str, list[TrialRow]]] = defaultdict(dict)
    for trial in trials:
        place = (trial.dataset, trial.group, trial.victim)
        arms[place].setdefault(trial.attack, []).append(trial)
    compared = []
    for place, by_attack in sorted(arms.items()):
        outcomes = {attack: _by_item(by_attack[attack]) for attack in sorted(by_attack)}
        for first, second in combinations(outcomes, 2):
            test = mcnemar(_pair(outcomes[first], outcomes[second]))
            compared.append((place, first, second, test))
    adjusted = iter(benjamini_hochberg([test.p for *_, test in compared if test.p is not None]))
    return [
        {
            "family": "samplers",
            "dataset": place[0],
            "group": place[1],
            "victim": place[2],
            "comparison": first,
            "against": second,
            "statistic": [test.only_first, test.only_second],
            "p": test.p,
            "p_adjusted": None if test.p is None else next(adjusted),
            "method": _METHOD.format(n=test.n),
        }
        for place, first, second, test in compared
    ]


def _by_item(trials: Iterable[TrialRow]) -> Outcomes:
    """Return the outcome of each item's (or entity's) first eligible repeat, by seed."""
    found: dict[tuple[str, str], dict[int | None, bool]] = defaultdict(dict)
    for trial in sorted(trials, key=lambda row: row.repeat):
        if is_eligible(trial):
            found[trial.item_id, trial.unit].setdefault(trial.seed, is_flipped(trial))
    return found


def _pair(ours: Outcomes, theirs: Outcomes) -> list[tuple[bool, bool]]:
    """Pair two attacks, each item once."""
    pairs = []
    for item in sorted(ours.keys() & theirs.keys()):
        seeds = _first_in_common(tuple(ours[item]), tuple(theirs[item]))
        if seeds is not None:
            pairs.append((ours[item][seeds[0]], theirs[item][seeds[1]]))
    return pairs


@lru_cache(maxsize=256)
def _first_in_common(
    first: tuple[int | None, ...], second: tuple[int | None, ...]
) -> tuple[int | None, int | None] | None:
    """Return the least pair of seeds that may be compared, the first attack's seed first."""
    matching = [(a, b) for a in first for b in second if a == b or a is None or b is None]
    return min(matching, key=lambda pair: (seed_order(pair[0]), seed_order(pair[1])), default=None)
