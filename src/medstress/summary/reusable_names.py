"""Reusable entities: names that keep succeeding on items they were not chosen on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from medstress.core.hashing import content_hash
from medstress.core.rows import TrialRow
from medstress.metrics.arms import Arms, items_of, place_fields
from medstress.metrics.counts import is_flipped, success_name
from medstress.metrics.old_stats.shares import rate

FOLDS = 5
LISTED = 20
"""Names listed per row."""
OVERLAPS = (5, 10, 20)
"""Lengths of the lists that are compared between victims."""
PERSISTENCE = 0.9
"""p of rank-biased overlap: the first ten places carry 86 % of the weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriedNames:
    """The result of asking the top names on one item."""

    place: tuple[str, str, str]
    """Data set, group, victim."""
    attack: str
    """The attack whose successes were ranked."""
    item_id: str
    """The item."""
    top: tuple[str, ...]
    """Names ranked on the other folds, case-folded, best first."""
    asked: tuple[str, ...]
    """The top names that the attack may put into the item's span, in the order asked."""
    n_answered: int
    """How many of `asked` were answered, up to the first success."""
    reached: bool
    """True if the last one answered is a success by the attack's goal."""

    def flips(self, m: int) -> bool | None:
        """Return whether one of the first m names is a success; None if that was not asked."""
        n = sum(name in self.top[:m] for name in self.asked)
        if self.reached and self.n_answered <= n:
            return True
        return False if 0 < n <= self.n_answered else None


def ranking(trials: Iterable[TrialRow]) -> list[tuple[str, int, int]]:
    """Rank the names that successes inserted, case ignored.

    Returns:
        (name, successes, items) by falling number of successes, then of items, then by name.
    """
    successes: Counter[str] = Counter()
    items: dict[str, set[str]] = defaultdict(set)
    for row in trials:
        if (name := success_name(row)) is not None:
            successes[name] += 1
            items[name].add(row.item_id)
    found = [(name, n, len(items[name])) for name, n in successes.items()]
    return sorted(found, key=lambda entry: (-entry[1], -entry[2], entry[0]))


def folds(items: Iterable[str], n_folds: int = FOLDS) -> dict[str, int]:
    """Assign items to folds whose sizes differ by at most one.

    The assignment uses a hash of the identifiers, so it depends neither on order nor on a seed.
    """
    order = sorted(set(items), key=lambda item: (content_hash(item), item))
    return {item: i % n_folds for i, item in enumerate(order)}


def cross_fitted(trials: Sequence[TrialRow], m: int) -> dict[str, tuple[str, ...]]:
    """Return the m names to ask on each item: the top of a ranking without the item's fold.

    Args:
        trials: eligible trials of one attack in one place.
        m: how many names.

    Returns:
        Item identifier -> names, case-folded, best first; fewer if fewer ever succeeded.
    """
    fold_of = folds(row.item_id for row in trials)
    tops = {
        fold: tuple(
            name
            for name, _, _ in ranking(row for row in trials if fold_of[row.item_id] != fold)[:m]
        )
        for fold in set(fold_of.values())
    }
    return {item: tops[fold] for item, fold in fold_of.items()}


def universality_rows(
    arms: Arms, asked: Iterable[QueriedNames], sizes: Sequence[int]
) -> list[dict[str, Any]]:
    """Return rows of `analysis.universality`: share of eligible items that the top m names flip.

    universality@m = #{eligible items on which one of the top m names, ranked on other items
    and really substituted and asked, is a success} / #{eligible items on which one of them was
    asked}. Answers to rankings that later trials have changed are left out, as if not asked yet.

    Args:
        arms: eligible trials.
        asked: answers that `run` collected.
        sizes: the values of m.

    Returns:
        Rows with `universality`, whose n counts the items asked: `n_items` minus `n_never_asked`
        (no name succeeded elsewhere, or none is allowed there) and `n_unanswered` (a call failed).
    """
    known: dict[tuple[Any, ...], list[QueriedNames]] = defaultdict(list)
    for one in asked:
        known[one.place, one.attack, one.item_id].append(one)
    rows = []
    for place, by_attack in arms.items():
        for attack, trials in by_attack.items():
            tops = cross_fitted(trials, max(sizes, default=0))
            found = {
                item: one
                for item, top in sorted(tops.items())
                for one in known[place, attack, item]
                if top and one.top[: len(top)] == top
            }
            head = {**place_fields(place), "attack": attack}
            rows += [{**head, **_universality(found, len(tops), m)} for m in sorted(sizes)]
    return rows


def _universality(asked: Mapping[str, QueriedNames], n_items: int, m: int) -> dict[str, Any]:
    """Return one row: how the first m names do on the items on which one of them was asked."""
    put = {item: one for item, one in asked.items() if set(one.top[:m]) & set(one.asked)}
    flips = {item: one.flips(m) for item, one in put.items()}
    share = rate((item, flip) for item, flip in flips.items() if flip is not None)
    return {
        "m": m,
        "n_items": n_items,
        "n_never_asked": n_items - len(put),
        "n_unanswered": sum(flip is None for flip in flips.values()),
        "universality": share.as_json(),
    }


def reusable_rows(arms: Arms) -> list[dict[str, Any]]:
    """Return rows of `analysis.reusable`: the names that succeed most, and on how many items."""
    rows = []
    for place, by_attack in arms.items():
        for attack, trials in by_attack.items():
            ranked = ranking(trials)
            rows.append(
                {
                    **place_fields(place),
                    "attack": attack,
                    "n_successes": sum(n for _, n, _ in ranked),
                    "n_names": len(ranked),
                    "n_items": len(items_of(filter(is_flipped, trials))),
                    "names": [
                        {"name": name, "n_successes": n, "n_items": n_items}
                        for name, n, n_items in ranked[:LISTED]
                    ],
                }
            )
    return rows


def overlap_rows(arms: Arms) -> list[dict[str, Any]]:
    """Return rows of `analysis.overlap`: top-m lists of every two victims under one attack."""
    lists: dict[tuple[str, str, str], dict[str, list[str]]] = defaultdict(dict)
    for (dataset, group, victim), by_attack in arms.items():
        for attack, trials in by_attack.items():
            names = [name for name, _, _ in ranking(trials)]
            lists[dataset, group, attack][victim] = names
    return [
        {
            "dataset": dataset,
            "group": group,
            "attack": attack,
            "victim": first,
            "against": second,
            "m": m,
            "n_names": [len(by_victim[first][:m]), len(by_victim[second][:m])],
            "jaccard": jaccard(by_victim[first][:m], by_victim[second][:m]),
            "rank_biased_overlap": rank_biased_overlap(by_victim[first][:m], by_victim[second][:m]),
        }
        for (dataset, group, attack), by_victim in sorted(lists.items())
        for first, second in combinations(sorted(by_victim), 2)
        for m in OVERLAPS
    ]


def jaccard(first: Sequence[str], second: Sequence[str]) -> float | None:
    """Return shared names over all names of two lists; None if both are empty.

    >>> jaccard(["a", "b"], ["b", "c"])
    0.3333333333333333
    """
    union = set(first) | set(second)
    return len(set(first) & set(second)) / len(union) if union else None


def rank_biased_overlap(
    first: Sequence[str], second: Sequence[str], p: float = PERSISTENCE
) -> float | None:
    """Return the extrapolated rank-biased overlap of two rankings without ties (RBO_EXT).

    With X_d the overlap of the first d places, s and l the lengths of the shorter and the
    longer list: RBO_EXT = (1-p)/p [sum_{d=1..l} X_d/d p^d + sum_{d=s+1..l} X_s (d-s)/(s d) p^d]
    + [(X_l - X_s)/l + X_s/s] p^l.

    Args:
        first: names, best first, each once.
        second: the same of another victim.
        p: how slowly the weight of ranks falls, in (0, 1).

    Returns:
        A value in [0, 1]; None if a list is empty.

    >>> rank_biased_overlap(["a", "b"], ["a", "b"]), rank_biased_overlap(["a"], ["b"])
    (1.0, 0.0)

    References:
        Webber, Moffat and Zobel, "A similarity measure for indefinite rankings", ACM TOIS
        2010, Eq. 32.
    """
    short, long = sorted((first, second), key=len)
    s, n = len(short), len(long)
    if s == 0:
        return None
    overlap = [len(set(short[:d]) & set(long[:d])) for d in range(1, n + 1)]
    agreement = sum(overlap[d - 1] / d * p**d for d in range(1, n + 1))
    unseen = sum(overlap[s - 1] * (d - s) / (s * d) * p**d for d in range(s + 1, n + 1))
    tail = ((overlap[n - 1] - overlap[s - 1]) / n + overlap[s - 1] / s) * p**n
    return min((1 - p) / p * (agreement + unseen) + tail, 1.0)
