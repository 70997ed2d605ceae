"""Names that keep succeeding on items they were not chosen on, and lists that models share.

References:
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, section 5 (reusable entities).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter
from typing import Any

import numpy as np

from medstress.analyses.run import Cell, Reading, Run, share_of
from medstress.analyses.shown import (
    Chart,
    Field,
    OfAttack,
    Point,
    Remark,
    Shown,
    Table,
    attack_labels,
    column,
    label,
    panel,
    table,
    where,
)
from medstress.analyses.success import with_worst_line
from medstress.core.arms import Place
from medstress.core.hashing import content_hash
from medstress.core.outcomes import Outcome
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate
from medstress.stats.shares import number_units
from medstress.store.reader import StoredInquiry

PURPOSE = "reuse"
"""What its questions are stored as, and its setting is called."""
FOLDS = 5
LISTED = 20
"""Names listed an attack."""
OVERLAPS = (5, 10, 20)
"""Lengths of the lists that are compared between models."""
PERSISTENCE = 0.9
"""p of rank-biased overlap: the first ten places carry 86 % of the weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A name, and how often it succeeded."""

    name: str
    """Case-folded."""
    n_successes: int
    n_items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed(OfAttack):
    """The names that succeed most, read off the successes themselves."""

    names: Sequence[Ranked]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """The top m names of two models under one attack."""

    dataset: str
    group: str
    attack: str
    victim: str
    against: str
    m: int
    jaccard: float | None
    rank_biased_overlap: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reused(OfAttack):
    """Share of the eligible items that the top m names flip, ranked on other items and asked."""

    m: int
    n_items: int
    """Eligible items."""
    n_never_asked: int
    """Of these, those that no name was put into: none succeeded elsewhere, or none is allowed."""
    n_unanswered: int
    """Those with a call that failed before it was decided."""
    reuse: Estimate
    """Flipped / decided; at worst unreadable answers and missing ones flip too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse(Shown):
    """Reusable names."""

    names: Sequence[Listed]
    overlap: Sequence[Overlap]
    asked: Sequence[Reused]
    title = "Reusable names"

    def tables(self) -> Sequence[Table]:
        """What was asked on other items, then the lists, and what models share."""
        lines = [(row, name) for row in self.names for name in row.names if name.n_items > 1]
        return [
            table(
                "reuse",
                "Items that the top m names of other items flip",
                self.asked,
                ASKED,
                n_labels=5,
                notes=[
                    "The names that succeed most on four fifths of the items, put into the items "
                    "of the last fifth, in the span that the attack chose there, and asked."
                ],
            ),
            table(
                "names",
                "Names that succeed on several items",
                lines,
                NAMES,
                n_labels=5,
                notes=[
                    "Counted on the successes that rank them; names that flip one item are left "
                    "out."
                ],
            ),
            table("overlap", "Top names that two models share", self.overlap, OVERLAP, n_labels=6),
        ]

    def charts(self) -> Sequence[Chart]:
        """Share of items flipped against m."""
        points = [
            Point(row.m, row.reuse, row.attack, panel(row, self.asked))
            for row in self.asked
            if row.reuse.value is not None
        ]
        return [
            Chart(
                name="reuse",
                title="Items that the top names of other items flip",
                kind="lines",
                x="names that were put in (m)",
                y="share of items flipped",
                points=tuple(points),
            )
        ]

    def remarks(self) -> Sequence[Remark]:
        """Say which calls failed."""
        return [
            Remark(
                "not_answered",
                f"{label(row.attack).words}: {row.n_unanswered:,} items have a reusable name "
                "without an answer; run again with --retry-failed.",
                where(row, row.attack),
            )
            for row in self.asked
            if row.n_unanswered
        ]


class ReuseOfRun:
    """Reusable names."""

    name = "reuse"

    def compute(self, run: Run) -> Reuse | None:
        """Rank names, compare lists, and read what was asked; None where no attack draws names."""
        cells = [cell for cell in run.attacks if cell.attack.draws_names and cell.eligible.any()]
        if not cells:
            return None
        settings: Mapping[str, Any] = run.manifest["config"].get("analysis", {})
        sizes = sorted(map(int, settings.get(PURPOSE) or ()))
        asked: dict[tuple[Place, str, str], list[Question]] = defaultdict(list)
        for one in run.folder.inquiries if sizes else ():
            if one.purpose == PURPOSE:
                place = Place(one.dataset, one.group, one.victim)
                asked[place, one.attack, one.item_id].append(Question.of(one))
        ranked = [(cell, ranking(_eligible(cell))) for cell in cells]
        return Reuse(
            names=[Listed(**cell.labels, names=names[:LISTED]) for cell, names in ranked],
            overlap=_overlaps(ranked),
            asked=[row for cell in cells for row in _reused(cell, asked, sizes)],
        )


REUSE = ReuseOfRun()


def _eligible(cell: Cell) -> list[Trial]:
    return [trial for trial in cell.trials if trial.is_eligible]


def ranking(trials: Iterable[Trial]) -> list[Ranked]:
    """Rank the names of first successes by their number, then by items, then by spelling."""
    items: dict[str, Counter[str]] = defaultdict(Counter)
    for trial in trials:
        if trial.first is not None and trial.first.name is not None:
            items[trial.first.name][trial.item.id] += 1
    ranked = [
        Ranked(name=name, n_successes=counts.total(), n_items=len(counts))
        for name, counts in items.items()
    ]
    return sorted(ranked, key=lambda one: (-one.n_successes, -one.n_items, one.name))


def folds(items: Iterable[str], n_folds: int = FOLDS) -> dict[str, int]:
    """Assign items to folds whose sizes differ by at most one, by a hash of their identifiers."""
    order = sorted(set(items), key=lambda item: (content_hash(item), item))
    return {item: i % n_folds for i, item in enumerate(order)}


def cross_fitted(trials: Sequence[Trial], m: int) -> dict[str, tuple[str, ...]]:
    """Return the m names to ask on each item: the top of a ranking without the item's fold.

    Args:
        trials: eligible trials of one attack in one place.
        m: how many names.

    Returns:
        Item -> names, case-folded, best first; fewer if fewer ever succeeded.
    """
    fold_of = folds(trial.item.id for trial in trials)
    tops = {
        fold: tuple(
            one.name for one in ranking(t for t in trials if fold_of[t.item.id] != fold)[:m]
        )
        for fold in set(fold_of.values())
    }
    return {item: tops[fold] for item, fold in fold_of.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The top names, asked on one item in order until one was a success."""

    top: tuple[str, ...]
    """Ranked on the other folds, best first."""
    asked: tuple[str, ...]
    """Those that the attack may put into the item's span."""
    outcomes: tuple[str, ...]
    """One for each of `asked` that was answered."""
    is_reached: bool
    """Whether the last answer is a success by the attack's goal."""

    @classmethod
    def of(cls, stored: StoredInquiry) -> Question:
        """Read a stored question."""
        return cls(
            top=tuple(stored.spec["top"]),
            asked=tuple(stored.spec["asked"]),
            outcomes=tuple(stored.outcomes),
            is_reached=bool(stored.reached),
        )

    def places(self, m: int) -> int:
        """Return how many of the first m names were put in."""
        return sum(name in self.top[:m] for name in self.asked)

    def flips(self, m: int) -> bool | None:
        """Return whether one of the first m names is a success; None if a call failed first."""
        n = self.places(m)
        if self.is_reached and len(self.outcomes) <= n:
            return True
        return False if 0 < n <= len(self.outcomes) else None

    def surely(self, m: int) -> bool:
        """Return whether one of the first m names is a success by an answer that can be read."""
        return bool(self.flips(m)) and self.outcomes[-1] != Outcome.UNREADABLE

    def maybe(self, m: int) -> bool:
        """Return whether one of the first m names is a success, or may be."""
        return self.flips(m) is not False or Outcome.UNREADABLE in self.outcomes[: self.places(m)]


def _reused(
    cell: Cell, asked: Mapping[tuple[Place, str, str], Sequence[Question]], sizes: Sequence[int]
) -> list[Reused]:
    """Return a row for each m.

    Answers about rankings that later trials have changed are left out, as if not asked yet.
    """
    trials = _eligible(cell)
    tops = cross_fitted(trials, max(sizes, default=0))
    path = {trial.item.id: trial.path[:2] for trial in trials}
    current = {
        item: one
        for item, top in sorted(tops.items())
        for one in asked.get((cell.place, cell.attack.label, item), ())
        if top and one.top[: len(top)] == top
    }
    rows = []
    for m in sizes:
        put = {item: one for item, one in current.items() if one.places(m)}
        flips = [one.flips(m) for one in put.values()]
        decided = np.array([one is not None for one in flips], dtype=bool)
        share = Reading(
            counts=decided,
            hit=np.array([bool(one) for one in flips], dtype=bool),
            may_count=np.ones(len(put), dtype=bool),
            least=np.array([one.surely(m) for one in put.values()], dtype=bool),
            most=np.array([one.maybe(m) for one in put.values()], dtype=bool),
        )
        rows.append(
            Reused(
                **cell.labels,
                m=m,
                n_items=len(tops),
                n_never_asked=len(tops) - len(put),
                n_unanswered=int((~decided).sum()),
                reuse=share_of(share, number_units([path[item] for item in put])),
            )
        )
    return rows


def _overlaps(ranked: Iterable[tuple[Cell, Sequence[Ranked]]]) -> list[Overlap]:
    """Compare the top m names of every two models under one attack."""
    by_attack: dict[tuple[str, str, str], dict[str, list[str]]] = defaultdict(dict)
    for cell, names in ranked:
        key = cell.place.dataset, cell.place.group, cell.attack.label
        by_attack[key][cell.place.victim] = [one.name for one in names]
    rows = []
    for (dataset, group, attack), lists in sorted(by_attack.items()):
        for victim, against in combinations(sorted(lists), 2):
            for m in OVERLAPS:
                first, second = lists[victim][:m], lists[against][:m]
                rows.append(
                    Overlap(
                        dataset=dataset,
                        group=group,
                        attack=attack,
                        victim=victim,
                        against=against,
                        m=m,
                        jaccard=jaccard(first, second),
                        rank_biased_overlap=rank_biased_overlap(first, second),
                    )
                )
    return rows


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
        second: the same of another model.
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


ASKED: Sequence[Field[Reused]] = (
    *attack_labels(lambda row: row),
    column("Names (m)", lambda row: str(row.m)),
    column("Items", lambda row: row.n_items, "count"),
    column("Flipped", lambda row: with_worst_line(row.reuse), "share"),
    column(
        "Never asked", lambda row: row.n_never_asked, "count", tip="no name succeeded or is allowed"
    ),
    column("No answer", lambda row: row.n_unanswered, "count", wide=True),
)


NAMES: Sequence[Field[tuple[Listed, Ranked]]] = (
    column("Name", lambda pair: pair[1].name),
    *attack_labels(itemgetter(0)),
    column("Successes", lambda pair: pair[1].n_successes, "count"),
    column("Items", lambda pair: pair[1].n_items, "count"),
)
OVERLAP: Sequence[Field[Overlap]] = (
    column("Attack", lambda row: label(row.attack)),
    column("Model", lambda row: label(row.victim)),
    column("and", lambda row: label(row.against)),
    column("Data", lambda row: label(row.dataset), wide=True),
    column("Group", lambda row: label(row.group), wide=True),
    column("Top", lambda row: str(row.m)),
    column("Shared of all", lambda row: row.jaccard, "number", tip="Jaccard"),
    column("Rank-biased overlap", lambda row: row.rank_biased_overlap, "number"),
)
