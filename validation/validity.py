"""Rates of valid successes where names are secretly other names of the key, held against the truth.

A share s of the names that an attack draws are synonyms of the key that no table knows: the victim
picks such a name rightly, and it counts as a success. Any other name fools it with probability
1/3. So s / (s + (1 - s)/3) of the successes are invalid: .14, .43, .75 at s = .05, .2, .5.

An estimate by `asr_valid` has labels of n successes, drawn at random; people are taken to be right.
What the attack excluded by would flag nothing that is left.

    python validation/validity.py --runs 400 --to runs/validation
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from medstress.analyses import run as analyses
from medstress.analyses.validity import validity
from medstress.core.arms import AttackRecord
from medstress.core.trials import Trial
from medstress.core.validity import REVIEW, RULE

# Runs whose truth is planted are helpers of the tests.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "servers"))
from planted_trials import arm, trial

SHARES = (0.05, 0.1, 0.2, 0.35, 0.5)
"""Of names that are synonyms of the key."""
LABELS = (20, 50, 200)
FOOLED = 1 / 3
"""The probability that a wrong name fools the victim."""
BUDGET = 2
N_ITEMS = 400
SEEDS = 3
"""Trials an item, in the designs where answers of an item are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """All runs of one design."""

    share: float
    """Of names that are synonyms."""
    n_labels: int
    alike: bool
    """Whether each item has `SEEDS` trials with a propensity of its own."""
    runs: int
    truth: float
    """The rate of valid successes."""
    invalid: float
    """Mean share of invalid successes."""
    coverage: float
    """How often the labelled estimate holds the truth."""
    width: float
    """Its mean width."""


def truth_of(share: float) -> float:
    """Return the rate of valid successes within `BUDGET` draws; the first success ends a search."""
    valid, any_ = (1 - share) * FOOLED, share + (1 - share) * FOOLED
    return valid / any_ * (1 - (1 - any_) ** BUDGET)


def cell(share: float, n_labels: int, alike: bool, runs: int, seed: int = 0) -> Cell:
    """Simulate one design.

    Args:
        share: of names that are synonyms.
        n_labels: labels of each run.
        alike: whether items have several trials that are alike.
        runs: simulated runs.
        seed: of this design.
    """
    rng = np.random.default_rng([seed, round(1000 * share), n_labels, alike])
    truth = truth_of(share) if not alike else _truth_alike(share)
    ends, invalid = zip(*(_run(rng, share, n_labels, alike) for _ in range(runs)), strict=True)
    known = [end for end in ends if end is not None]
    return Cell(
        share=share,
        n_labels=n_labels,
        alike=alike,
        runs=runs,
        truth=truth,
        invalid=float(np.mean(invalid)),
        coverage=sum(low <= truth <= high for low, high in known) / runs,
        width=float(np.mean([high - low for low, high in known])),
    )


_ALIKE = 4.0
"""Concentration of the beta distributions of an item's probabilities."""


def _truth_alike(share: float, n: int = 400_000) -> float:
    """Integrate the rate over items whose probabilities vary, once for all runs."""
    rng = np.random.default_rng(7)
    s = rng.beta(_ALIKE * share, _ALIKE * (1 - share), n)
    w = rng.beta(_ALIKE * FOOLED, _ALIKE * (1 - FOOLED), n)
    valid, any_ = (1 - s) * w, s + (1 - s) * w
    return float((valid / any_ * (1 - (1 - any_) ** BUDGET)).mean())


def _run(
    rng: np.random.Generator, share: float, n_labels: int, alike: bool
) -> tuple[tuple[float, float] | None, float]:
    """Return the ends of the labelled estimate, and the share of the successes that are invalid."""
    trials = SEEDS if alike else 1
    s, w = np.full(N_ITEMS, share), np.full(N_ITEMS, FOOLED)
    if alike:
        s = rng.beta(_ALIKE * share, _ALIKE * (1 - share), N_ITEMS)
        w = rng.beta(_ALIKE * FOOLED, _ALIKE * (1 - FOOLED), N_ITEMS)
    flipped, valid = _searched(rng, s, w, trials)
    places = np.argwhere(flipped)
    n = min(n_labels, len(places))
    labelled = {tuple(places[i]) for i in rng.choice(len(places), n, replace=False)}
    made = [
        _trial(*at, bool(flipped[at]), bool(valid[at]) if at in labelled else None)
        for at in np.ndindex(flipped.shape)
    ]
    result = validity(analyses.Cell.of(made))
    assert result is not None
    rate = result.asr_valid
    ends = None if rate is None else (float(rate.low or 0.0), float(rate.high or 0.0))
    return ends, float(1 - valid[flipped].mean())


def _searched(rng: np.random.Generator, s: Any, w: Any, trials: int) -> tuple[Any, Any]:
    """Return which searches end in a success, and whether it is valid, shape (trials, n_items)."""
    draws = rng.random((BUDGET, trials, N_ITEMS)) < s
    fooled = draws | (rng.random(draws.shape) < w)
    return fooled.any(axis=0), ~np.take_along_axis(draws, fooled.argmax(axis=0)[None], axis=0)[0]


_ATTACK = AttackRecord(label="nearest", name="entity_substitution", budget=1)


@cache
def _trial(seed: int, item: int, flipped: bool, people: bool | None) -> Trial:
    """Return a trial; nothing is known of a success without a label."""
    made = trial(
        item,
        arm(_ATTACK, seed=seed),
        flipped_at=1 if flipped else None,
        valid=people,
        reason=(RULE if people is None else REVIEW) if flipped else None,
    )
    return replace(made, sampled=people is not None) if flipped else made


def main() -> None:
    """Simulate and write validity.json, a line for each cell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400, help="a cell")
    parser.add_argument("--to", type=Path, default=Path("runs/validation"))
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    path = given.to / "validity.json"
    # Alike items take long and have a fifth of the runs.
    rows = [
        json.dumps(asdict(cell(share, n, alike, given.runs // 5 if alike else given.runs)))
        for alike, share, n in product((False, True), SHARES, LABELS)
    ]
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n", "utf-8")
    print(path)


if __name__ == "__main__":
    main()
