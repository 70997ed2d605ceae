"""What errs where names are drawn too: a test over items, the interval for names like these."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from drawn_tables import ITEMS, Bools, stream
from intervals import Cell
from numpy.typing import NDArray
from scipy.stats import binomtest

from medstress.stats.estimate import Z
from medstress.stats.paired import difference_of_names, p_of_names


def names(runs: int) -> list[Cell]:
    """McNemar's exact test over items where the names are what was sampled.

    An attack draws from a list of names, each lethal with probability .3, and flips an item if its
    name is; the other arm flips .3 of the items, one by one. In the population of names both
    arms are equal. All items share few names, so a test over items speaks of these names.
    """
    found = []
    for n_names in (10, 20, 50, 200, 2000):
        rng, rejected = stream("names", n_names), 0
        for _ in range(runs):
            first = (rng.random(n_names) < 0.3)[rng.integers(0, n_names, ITEMS)]
            second = rng.random(ITEMS) < 0.3
            b, c = int((first & ~second).sum()), int((second & ~first).sum())
            rejected += _exact(b, c) < 0.05
        found.append({"names": n_names, "rejected": rejected / runs})
    return found


SIGNIFICANT = 0.05
_P: dict[tuple[int, int], float] = {}


def _exact(b: int, c: int) -> float:
    if (b, c) not in _P:
        _P[b, c] = float(binomtest(b, b + c).pvalue) if b + c else 1.0
    return _P[b, c]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How two arms, equal over all names, draw theirs."""

    names: int
    """In a list."""
    budget: int
    """Names that a trial draws, all different; it asks them up to the first lethal one."""
    lethal: float
    """Probability that a name flips whatever item it is put into."""
    shared: bool
    """Both arms ask the same names in the same order, as two victims do; each has lethal names of
    its own. Else each arm has a list of its own."""
    items: int = 1
    """Items of a document; they share what else flips them."""
    noise: float = 0.0
    """Probability that an item, or its document, flips whatever its names are."""
    questions: int = ITEMS
    """Items in all."""


DRAWINGS = (
    Drawing(names=10, budget=1, lethal=0.5, shared=False),
    Drawing(names=20, budget=1, lethal=0.5, shared=False),
    Drawing(names=50, budget=1, lethal=0.5, shared=False),
    Drawing(names=200, budget=1, lethal=0.5, shared=False),
    Drawing(names=2000, budget=1, lethal=0.5, shared=False),
    Drawing(names=50, budget=1, lethal=0.1, shared=False),
    Drawing(names=50, budget=4, lethal=0.2, shared=False),
    Drawing(names=50, budget=8, lethal=0.1, shared=True),
    Drawing(names=200, budget=8, lethal=0.1, shared=True),
    Drawing(names=2000, budget=8, lethal=0.1, shared=True),
    Drawing(names=50, budget=1, lethal=0.3, shared=False, items=4, noise=0.3),
    Drawing(names=200, budget=1, lethal=0.3, shared=True, items=4, noise=0.3),
    Drawing(names=20, budget=1, lethal=0.1, shared=True, questions=40),
    Drawing(names=50, budget=8, lethal=0.02, shared=True, questions=40),
    Drawing(names=200, budget=8, lethal=0.02, shared=True, questions=40),
)


def two_way(runs: int) -> list[Cell]:
    """How often both miss that two arms are equal over all names.

    `difference_of_names` as it is; what `compare` decides by, which also asks for a `p_of_names` of
    at most .05; and the statistic of the test over items at .05, which is `difference`'s at 0
    where every item is a document of its own and occurs once.
    """
    found = []
    for drawing in DRAWINGS:
        rng, by_items, missed, decided, none = stream("two-way", asdict(drawing)), 0, 0, 0, 0
        for _ in range(runs):
            sides, differences, took = drawn(drawing, rng)
            b, c = differences.count(1), differences.count(-1)
            by_items += abs(b - c) > Z * (b + c) ** 0.5
            names = [frozenset((*one, *other)) for one, other in zip(*sides, strict=True)]
            n_names = min(len({name for row in side for name in row}) for side in sides)
            clusters = np.arange(drawing.questions) // drawing.items
            interval = difference_of_names(np.array(differences), clusters, names, n_names).estimate
            if interval.low is None or interval.high is None:
                none += 1
                continue
            is_missed = not interval.low <= 0 <= interval.high
            missed += is_missed
            decided += is_missed and p_of_names(*took) <= SIGNIFICANT
        items = by_items / runs if drawing.items == 1 else None
        rates = {"two-way": missed / runs, "decided": decided / runs, "none": none / runs}
        found.append({**asdict(drawing), "by items": items, **rates})
    return found


def drawn(
    how: Drawing, rng: np.random.Generator
) -> tuple[list[list[list[str]]], list[int], tuple[set[str], set[str]]]:
    """What each side's trials asked, what differs, and the names that took items on one side only.

    An item that no name took counts as a name.
    """
    lists = _asked(how, rng), _asked(how, rng)
    if how.shared:
        lists = lists[0], lists[0]
    told: list[list[list[str]]] = []
    held: list[Bools] = []
    by: list[list[str]] = []
    for side, asked in enumerate(lists):
        lethal = rng.random(how.names) < how.lethal
        hits = lethal[asked]
        n = how.questions
        noisy = np.repeat(rng.random(-(-n // how.items)) < how.noise, how.items)[:n]
        held.append(~hits.any(axis=1) & ~noisy)
        last = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, how.budget)
        of = 0 if how.shared else side
        rows = zip(asked.tolist(), last, strict=True)
        told.append([[f"{of} {name}" for name in row[:n]] for row, n in rows])
        taken = zip(told[-1], hits.any(axis=1), strict=True)
        by.append([row[-1] if is_hit else f"item {i}" for i, (row, is_hit) in enumerate(taken)])
    differences = (held[1].astype(int) - held[0].astype(int)).tolist()
    first = {name for name, value in zip(by[0], differences, strict=True) if value > 0}
    second = {name for name, value in zip(by[1], differences, strict=True) if value < 0}
    return told, differences, (first, second)


def _asked(how: Drawing, rng: np.random.Generator) -> NDArray[np.int64]:
    """Names of each item in the order of asking, all different, shape (questions, budget)."""
    found = rng.integers(0, how.names, (how.questions, how.budget))
    while True:
        ranked = np.sort(found, axis=1)
        again = (ranked[:, 1:] == ranked[:, :-1]).any(axis=1)
        if not again.any():
            return found
        found[again] = rng.integers(0, how.names, (int(again.sum()), how.budget))
