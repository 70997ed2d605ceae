"""Rates of valid successes where names are secretly other names of the key, held against the truth.

A share s of the names that an attack draws are synonyms of the key that no table knows: the victim
picks such a name rightly, and it counts as a success. Any other name fools it with probability
1/3. So s / (s + (1 - s)/3) of the successes are invalid: .14, .43, .75 at s = .05, .2, .5.

An estimate by `asr_valid` has labels of n successes, drawn at random; people are taken to be right.
Beside it stand two corrections. *Same tables*: what the attack excluded by, which flags nothing
that is left. *Panel*: judges with sensitivity .9 and specificity .7, measured on people's labels,
corrected by Lang and Reiczigel; and the same panel where its specificity is .4 among the successes
at hand, which the correction assumes not to be.

`panels`: nobody labelled this row, and a panel that people measured elsewhere in the run vouches;
its word taken as it is stands beside what `asr_valid` says.

    python validation/validity.py --runs 400 --to runs/validation/validity
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from medstress.core.evidence import Evidence, as_text
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.validity import REVIEW, RULE
from medstress.metrics.measured import KIND_OF, Measured
from medstress.metrics.validity import validity_fields
from medstress.stats.estimates import wilson

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelCell:
    """All runs of one panel that vouches alone."""

    share: float
    """Of names that are synonyms."""
    sensitivity: float
    specificity: float
    runs: int
    truth: float
    vouched: float
    """Share of runs in which it may vouch; the others have bounds."""
    coverage: float | None
    """How often `asr_valid` holds the truth then; None if it never vouches."""
    width: float | None
    """Mean width then."""
    at_its_word: float
    """Mean rate if what it says were true."""
    at_its_word_covers: float
    """How often Wilson's interval around that holds the truth."""
    met_wrongly: float
    """How often `asr_valid` meets an upper limit that the truth is .05 above."""
    bounded: float
    """How often `asr_valid_bounds` hold the rate of valid successes of the run."""

    def as_json(self) -> dict[str, Any]:
        """Return its fields."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


PANELS = ((0.9, 0.7), (0.9, 0.2), (0.4, 0.7), (0.95, 0.1), (0.5, 0.5), (0.3, 0.4))
"""Sensitivity and specificity of panels; the last two tell nothing."""


def panels(runs: int) -> Iterator[PanelCell]:
    """Simulate a panel that vouches alone, for each of `PANELS` and three shares of synonyms."""
    for share in (0.05, 0.2, 0.5):
        for sensitivity, specificity in PANELS:
            yield panel_cell(share, sensitivity, specificity, runs)


def panel_cell(
    share: float, sensitivity: float, specificity: float, runs: int, seed: int = 0
) -> PanelCell:
    """Simulate one panel."""
    drawn = [round(1000 * each) for each in (share, sensitivity, specificity)]
    rng, maker, truth = np.random.default_rng([seed, *drawn]), _Maker(), truth_of(share)
    widths, held, at_word, word_held, met, bounded = [], [], [], [], 0, []
    for _ in range(runs):
        flipped, valid = _searched(rng, np.full(N_ITEMS, share), np.full(N_ITEMS, FOOLED), 1)
        says = _panel(rng, valid, specificity, sensitivity)
        known = Measured(source="panel", cases=_gold(rng, specificity, sensitivity))
        found = validity_fields(maker.rows(flipped, valid, set(), says), {"panel": known})
        word = wilson(int((flipped & says).sum()), N_ITEMS)
        at_word.append(word.value)
        word_held.append(word.low <= truth <= word.high)
        low, _, high = found["asr_valid_bounds"]
        bounded.append(low <= (flipped & valid).mean() <= high)
        if (ends := _ends(found["asr_valid"])) is not None:
            widths.append(ends[1] - ends[0])
            held.append(ends[0] <= truth <= ends[1])
            met += ends[1] <= truth - 0.05
    return PanelCell(
        share=share,
        sensitivity=sensitivity,
        specificity=specificity,
        runs=runs,
        truth=truth,
        vouched=len(held) / runs,
        coverage=float(np.mean(held)) if held else None,
        width=float(np.mean(widths)) if held else None,
        at_its_word=float(np.mean(at_word)),
        at_its_word_covers=float(np.mean(word_held)),
        met_wrongly=met / runs,
        bounded=float(np.mean(bounded)),
    )


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
    flipped, valid = _searched(rng, s, w, trials)
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


def _searched(rng: np.random.Generator, s: Any, w: Any, trials: int) -> tuple[Any, Any]:
    """Return which searches end in a success, and whether it is valid, shape (trials, n_items)."""
    draws = rng.random((BUDGET, trials, N_ITEMS)) < s
    fooled = draws | (rng.random(draws.shape) < w)
    return fooled.any(axis=0), ~np.take_along_axis(draws, fooled.argmax(axis=0)[None], axis=0)[0]


def _ends(found: dict[str, Any] | None) -> tuple[float, float] | None:
    return None if found is None else (found["low"], found["high"])


def _panel(
    rng: np.random.Generator, valid: Any, specificity: float, sensitivity: float = SENSITIVITY
) -> Any:
    return rng.random(valid.shape) < np.where(valid, sensitivity, 1 - specificity)


def _gold(
    rng: np.random.Generator, specificity: float = SPECIFICITY, sensitivity: float = SENSITIVITY
) -> list[Any]:
    """Return what people and the panel say of half valid, half invalid successes elsewhere."""
    valid = np.arange(N_GOLD) % 2 == 0
    says = _panel(rng, valid, specificity, sensitivity)
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


def main() -> None:
    """Simulate and write coverage.json and panels.json, a line for each cell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=400, help="a cell")
    parser.add_argument("--to", type=Path, default=Path("runs/validation/validity"))
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    for name, simulated in (("coverage", cells), ("panels", panels)):
        rows = [cell.as_json() for cell in simulated(given.runs)]
        (given.to / f"{name}.json").write_text(
            "[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", "utf-8"
        )
        print(f"{name}: {len(rows)} cells; {given.to / name}.json", flush=True)


if __name__ == "__main__":
    main()
