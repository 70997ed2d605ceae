"""What survives of near draws' advantage where names are secretly other names of the key.

A name that near draws take is a synonym of the key that no table knows with probability s: the
victim picks it rightly, and it counts as a success. Another near name fools it with probability
.35, a random one, which is never a synonym, with .2. How easily an item fools varies, for both arms
alike, and so does its s. Random draws have three seeds, near ones are the same in each. Labels are
of a random sample of the successes of both arms, and right.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache, lru_cache
from typing import Any

import numpy as np

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.validity import REVIEW, RULE
from medstress.metrics.near_advantage import LABELS, near_advantages

SHARES = (0.05, 0.1, 0.2)
"""Of the names that near draws take: synonyms."""
SAMPLES = (40, 100, 300)
"""Labels of both arms together."""
NEAR, RANDOM, BUDGET, N_ITEMS, SEEDS = 0.35, 0.2, 2, 400, 3
ALIKE = 4.0
"""Concentration of the beta distributions of an item's probabilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """All runs of one design."""

    share: float
    n_labels: int
    runs: int
    truth: float
    """The share of the advantage that survives."""
    exists: float
    """In how many runs the advantage is clear of 0; the rest have no share."""
    estimated: float
    """In how many both arms have ten labels besides."""
    coverage: float | None
    """How often the interval by labels holds the truth then."""
    width: float | None
    """Its median width."""
    bounded: float | None
    """How often the interval of the bounds (low end of the worst case, high end of the best)
    holds it."""

    def as_json(self) -> dict[str, Any]:
        """Return its fields."""
        return asdict(self)


def cells(runs: int) -> Iterator[Cell]:
    """Simulate all designs."""
    for share in SHARES:
        for n_labels in SAMPLES:
            yield cell(share, n_labels, runs)


def cell(share: float, n_labels: int, runs: int, n_items: int = N_ITEMS, seed: int = 0) -> Cell:
    """Simulate one design.

    Args:
        share: of near names that are synonyms.
        n_labels: labels of each run.
        runs: simulated runs.
        n_items: items of each.
        seed: of this design.
    """
    rng = np.random.default_rng([seed, round(1000 * share), n_labels])
    truth, exists, held, widths, bounded = truth_of(share), 0, [], [], []
    for _ in range(runs):
        (row,) = near_advantages(trials(rng, share, n_labels, n_items))
        if row["why_no_share"] is not None:
            continue
        exists += 1
        low, high = row["share"]["worst"]["low"], row["share"]["best"]["high"]
        bounded.append(low is None or low <= truth <= high)
        found = row["share"][LABELS]
        if found is not None:
            ends = [-np.inf, np.inf] if found["low"] is None else [found["low"], found["high"]]
            held.append(ends[0] <= truth <= ends[1])
            widths.append(ends[1] - ends[0])
    return Cell(
        share=share,
        n_labels=n_labels,
        runs=runs,
        truth=truth,
        exists=exists / runs,
        estimated=len(held) / runs,
        coverage=float(np.mean(held)) if held else None,
        width=float(np.median(widths)) if held else None,
        bounded=float(np.mean(bounded)) if bounded else None,
    )


@lru_cache
def truth_of(share: float, n: int = 400_000) -> float:
    """Integrate the share that survives over items."""
    s, near, random = _items(np.random.default_rng(7), share, n)
    any_ = s + (1 - s) * near
    whole, theirs = 1 - (1 - any_) ** BUDGET, 1 - (1 - random) ** BUDGET
    valid = whole * (1 - s) * near / any_
    return float((valid - theirs).mean() / (whole - theirs).mean())


def _items(rng: np.random.Generator, share: float, n: int) -> tuple[Any, Any, Any]:
    """Return the probabilities of items: near names are synonyms, they fool, random ones fool."""
    s = rng.beta(ALIKE * share, ALIKE * (1 - share), n)
    easy = rng.beta(ALIKE / 2, ALIKE / 2, n) * 2
    return s, NEAR * easy, RANDOM * easy


def trials(
    rng: np.random.Generator, share: float, n_labels: int, n_items: int = N_ITEMS
) -> list[TrialRow]:
    """Return the trials of one run."""
    s, near, random = _items(rng, share, n_items)
    draws = rng.random((BUDGET, n_items)) < s
    fooled = draws | (rng.random(draws.shape) < near)
    first = fooled.argmax(axis=0)
    ended = [
        ("near", None, i, bool(fooled[:, i].any()), not draws[first[i], i]) for i in range(n_items)
    ]
    hits = (rng.random((BUDGET, SEEDS, n_items)) < random).any(axis=0)
    ended += [
        ("random", seed, i, bool(hits[seed, i]), True)
        for seed in range(SEEDS)
        for i in range(n_items)
    ]
    successes = [k for k, one in enumerate(ended) if one[3]]
    n = min(n_labels, len(successes))
    chosen = set(rng.choice(successes, n, replace=False).tolist())
    return [_trial(*one, k in chosen) for k, one in enumerate(ended)]


_SPECS = {
    "near": json.dumps({"sampler": "pdws", "n": -20, "budget": BUDGET}),
    "random": json.dumps({"sampler": "random", "n": None, "budget": BUDGET}),
}


@cache
def _trial(
    attack: str, seed: int | None, item: int, flipped: bool, valid: bool, labelled: bool
) -> TrialRow:
    values: dict[str, Any] = dict.fromkeys(field.name for field in fields(TrialRow))
    values |= {"dataset": "d", "group": "drugs", "victim": "v", "arm": "attack", "unit": "item"}
    values |= {"attack": attack, "attack_spec": _SPECS[attack], "item_id": f"q{item}"}
    values |= {"seed": seed, "repeat": 0, "key": "A", "n_options": 4, "edits": "[]"}
    values |= dict.fromkeys(("n_asked", "n_paid", "n_cached", "n_failed", "n_unreadable"), 0)
    values["verdict"] = Verdict.HELD
    if flipped:
        values |= {"verdict": Verdict.FLIPPED, "first_success": 1, "first_unrefuted_success": 1}
        values |= {"validity_reason": REVIEW if labelled else RULE, "sampled": labelled}
        values["valid"] = valid if labelled else None
        values["first_valid_success"] = 1 if labelled and valid else None
    return TrialRow(**values)
