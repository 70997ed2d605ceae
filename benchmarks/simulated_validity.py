"""Rates of valid successes where names are secretly other names of the key, held against the truth.

A share s of the names that an attack draws are synonyms of the key that no table knows: the victim
picks such a name rightly, and it counts as a success. Any other name fools it with probability
1/3. So s / (s + (1 - s)/3) of the successes are invalid: .14, .43, .75 at s = .05, .2, .5.

An estimate by `asr_valid` has labels of n successes, drawn at random; people are taken to be right.
Beside it stand two corrections. *Same tables*: what the attack excluded by, which flags nothing
that is left. *Panel*: judges with sensitivity .9 and specificity .7, measured on people's labels,
corrected by Lang and Reiczigel; and the same panel where its specificity is .4 among the successes
at hand, which the correction assumes not to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from medstress.core.evidence import Evidence, as_text
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.validity import REVIEW, RULE
from medstress.metrics.measured import KIND_OF, Measured
from medstress.metrics.validity import validity_fields

SHARES = (0.05, 0.1, 0.2, 0.35, 0.5)
"""Of names that are synonyms of the key."""
LABELS = (20, 50, 200)
FOOLED = 1 / 3
"""The probability that a wrong name fools the victim."""
BUDGET = 2
N_ITEMS = 400
SEEDS = 3
"""Trials an item, in the designs where answers of an item are alike."""
SENSITIVITY, SPECIFICITY, ELSEWHERE = 0.9, 0.7, 0.4
N_GOLD = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one simulated run says."""

    labelled: tuple[float, float] | None
    """Ends of the labelled estimate."""
    corrected: tuple[float, float] | None
    """Ends of the correction of a panel that errs as it was measured."""
    misled: tuple[float, float] | None
    """Those of a panel that errs otherwise among these successes."""
    invalid: float
    """Share of the successes that are invalid."""


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
    corrected: float
    """Coverage of the panel's correction."""
    misled: float
    """The same where the panel errs otherwise here."""

    def as_json(self) -> dict[str, Any]:
        """Return its fields."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


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
    maker = _Maker()
    truth = truth_of(share) if not alike else _truth_alike(share)
    found = [_run(rng, maker, share, n_labels, alike) for _ in range(runs)]

    def covered(name: str) -> float:
        ends = [getattr(one, name) for one in found]
        return float(np.mean([end is not None and end[0] <= truth <= end[1] for end in ends]))

    widths = [one.labelled[1] - one.labelled[0] for one in found if one.labelled is not None]
    return Cell(
        share=share,
        n_labels=n_labels,
        alike=alike,
        runs=runs,
        truth=truth,
        invalid=float(np.mean([one.invalid for one in found])),
        coverage=covered("labelled"),
        width=float(np.mean(widths)),
        corrected=covered("corrected"),
        misled=covered("misled"),
    )


def cells(runs: int) -> Iterator[Cell]:
    """Simulate all designs; alike items take long and have a fifth of the runs."""
    for alike in (False, True):
        for share in SHARES:
            for n_labels in LABELS:
                yield cell(share, n_labels, alike, runs // 5 if alike else runs)


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
    rng: np.random.Generator, maker: _Maker, share: float, n_labels: int, alike: bool
) -> Found:
    trials = SEEDS if alike else 1
    s, w = np.full(N_ITEMS, share), np.full(N_ITEMS, FOOLED)
    if alike:
        s = rng.beta(_ALIKE * share, _ALIKE * (1 - share), N_ITEMS)
        w = rng.beta(_ALIKE * FOOLED, _ALIKE * (1 - FOOLED), N_ITEMS)
    draws = rng.random((BUDGET, trials, N_ITEMS)) < s
    fooled = draws | (rng.random(draws.shape) < w)
    flipped = fooled.any(axis=0)
    valid = ~np.take_along_axis(draws, fooled.argmax(axis=0)[None], axis=0)[0]
    places = np.argwhere(flipped)
    n = min(n_labels, len(places))
    labelled = {tuple(places[i]) for i in rng.choice(len(places), n, replace=False)}
    says = _panel(rng, valid, SPECIFICITY)
    rows = maker.rows(flipped, valid, labelled, says)
    known = Measured(source="panel", cases=_gold(rng))
    fields_ = validity_fields(rows, {"panel": known})
    elsewhere = maker.rows(flipped, valid, labelled, _panel(rng, valid, ELSEWHERE))
    misled = validity_fields(elsewhere, {"panel": known})
    return Found(
        labelled=_ends(fields_["asr_valid"]),
        corrected=_ends(fields_["validity"]["checkers"][0]["asr_valid_corrected"]),
        misled=_ends(misled["validity"]["checkers"][0]["asr_valid_corrected"]),
        invalid=float(1 - valid[flipped].mean()),
    )


def _ends(found: dict[str, Any] | None) -> tuple[float, float] | None:
    return None if found is None else (found["low"], found["high"])


def _panel(rng: np.random.Generator, valid: Any, specificity: float) -> Any:
    return rng.random(valid.shape) < np.where(valid, SENSITIVITY, 1 - specificity)


def _gold(rng: np.random.Generator) -> list[Any]:
    """Return what people and the panel say of half valid, half invalid successes elsewhere."""
    valid = np.arange(N_GOLD) % 2 == 0
    says = _panel(rng, valid, SPECIFICITY)
    return [
        (("drugs", "different"), (f"g{i}",), bool(valid[i]), bool(says[i])) for i in range(N_GOLD)
    ]


class _Maker:
    """Makes rows of trials; each is made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], TrialRow] = {}

    def rows(self, flipped: Any, valid: Any, labelled: set[Any], says: Any) -> list[TrialRow]:
        """Return the trials of one run.

        Args:
            flipped: shape (n_seeds, n_items).
            valid: shape (n_seeds, n_items).
            labelled: (seed, item) of the successes that people labelled.
            says: what the panel says of each, shape (n_seeds, n_items).
        """
        return [
            self._row(seed, i, None, None)
            if not flipped[seed, i]
            else self._row(
                seed,
                i,
                bool(says[seed, i]),
                bool(valid[seed, i]) if (seed, i) in labelled else None,
            )
            for seed in range(flipped.shape[0])
            for i in range(flipped.shape[1])
        ]

    def _row(self, seed: int, item: int, panel: bool | None, people: bool | None) -> TrialRow:
        """Return one trial, held if the panel says nothing."""
        key = seed, item, panel, people
        if key not in self._known:
            self._known[key] = _trial(seed, item, panel, people)
        return self._known[key]


def _trial(seed: int, item: int, panel: bool | None, people: bool | None) -> TrialRow:
    values: dict[str, Any] = dict.fromkeys(field.name for field in fields(TrialRow))
    values |= {
        "dataset": "d",
        "group": "drugs",
        "victim": "v",
        "attack": "nearest",
        "arm": "attack",
    }
    values |= {
        "item_id": f"q{item}",
        "unit": "item",
        "seed": seed,
        "repeat": 0,
        "attack_spec": "{}",
    }
    values |= {"verdict": Verdict.HELD, "trial_id": f"q{item}/{seed}"}
    if panel is not None:
        said = [Evidence(kind=KIND_OF["panel"], source="panel", valid=panel)]
        values |= {"verdict": Verdict.FLIPPED, "first_success": 1, "first_unrefuted_success": 1}
        values |= {"variant_class": "different", "evidence": as_text(said)}
        values |= {"valid": people, "validity_reason": RULE if people is None else REVIEW}
        values |= {"sampled": people is not None}
    return TrialRow(**values)
