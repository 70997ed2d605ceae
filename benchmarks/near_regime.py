"""What share of near draws' advantage over random ones survives if only valid successes count.

    python benchmarks/near_regime.py RUN                 # a run folder with a near and a random arm
    python benchmarks/near_regime.py OUT --planted DATA  # make one of a planted victim

DATA is the folder of MedMCQA.

The advantage is the rate of the arm that draws nearest names minus that of the arm that draws at
random, on the items eligible under both. Of it survives what is left if only valid successes count:

* *nobody knows*: between every unknown success of the near arm invalid and every one of the random
  arm valid, and the reverse with every censored search of the near arm a valid success;
* *all valid*: every unknown success valid, in both arms;
* *estimate*: v x rate in each arm, v the valid share of a random labelled sample of its successes
  (the review room's), where each arm has ten labels; the interval is a bootstrap over items.

The share that survives is that over the whole advantage. It has no meaning where the interval of
the advantage itself holds 0, and is then not given.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from medstress.api.run import Run
from medstress.core.rows import TrialRow
from medstress.core.validity import REVIEW
from medstress.metrics.arms import spec_of
from medstress.metrics.controls import attacks_only
from medstress.metrics.counts import is_eligible, is_flipped
from medstress.metrics.measured import LEAST_LABELS, said_by
from medstress.metrics.pairs import difference_of
from medstress.metrics.second_answers import draws_at_random
from medstress.metrics.valid_bounds import reach

REPEATS = 2_000
SEED = 0


def survival_of_run(folder: Path) -> list[dict[str, Any]]:
    """Return a row for each place of a run with a near arm and a random one."""
    arms: dict[tuple[str, str, str], dict[str, list[TrialRow]]] = defaultdict(dict)
    for row in attacks_only(Run(folder).rows()):
        arms[row.dataset, row.group, row.victim].setdefault(row.attack, []).append(row)
    found = []
    for place, by_attack in sorted(arms.items()):
        random = [rows for rows in by_attack.values() if draws_at_random(rows[0])]
        near = [rows for rows in by_attack.values() if spec_of(rows).get("sampler") == "nearest"]
        if random and near:
            found.append({"place": list(place), **survival(near[0], random[0])})
    if not found:
        sys.exit(f"{folder}: expected an attack with sampler = 'nearest' and one with 'random'")
    return found


def survival(near: Sequence[TrialRow], random: Sequence[TrialRow]) -> dict[str, Any]:
    """Return the advantage of an arm, and what of it survives, for one victim."""
    items = sorted(
        {row.item_id for row in near if is_eligible(row)}
        & {row.item_id for row in random if is_eligible(row)}
    )
    tables = [_Arm(rows, items) for rows in (near, random)]
    advantage = difference_of(near, random).estimate
    ours, theirs = (each.bounds() for each in tables)
    whole = tables[0].rate() - tables[1].rate()
    clear = advantage.low is not None and advantage.low > 0
    left = {
        "worst": ours[0] - theirs[1],
        "all_valid": ours[1] - theirs[1],
        "best": ours[2] - theirs[0],
    }
    return {
        "n_items": len(items),
        "near": tables[0].rate(),
        "random": tables[1].rate(),
        "advantage": advantage.as_json(),
        "left": left,
        "share": {name: value / whole for name, value in left.items()} if clear else None,
        "n_labels": [each.n_labels for each in tables],
        "estimate": _estimate(tables) if clear else None,
    }


class _Arm:
    """One arm on the items of both: how many trials each has, and how they ended."""

    def __init__(self, rows: Sequence[TrialRow], items: Sequence[str]) -> None:
        place = {item: i for i, item in enumerate(items)}
        met = [row for row in rows if is_eligible(row) and row.item_id in place]
        self._reached = [reach(row) for row in met]
        self._counts = np.zeros((4, len(items)))
        """Trials, successes, labels, valid labels of each item."""
        for row in met:
            label = said_by(row, REVIEW) if is_flipped(row) and row.sampled else None
            told = (True, is_flipped(row), label is not None, label is True)
            self._counts[:, place[row.item_id]] += told

    @property
    def n_labels(self) -> int:
        """Labelled successes of the random sample."""
        return int(self._counts[2].sum())

    def rate(self, weights: Any = None) -> float:
        """Return the rate of successes."""
        trials, flipped, *_ = self._summed(weights)
        return float(flipped / trials)

    def valid_rate(self, weights: Any = None) -> float:
        """Return the rate of valid ones by the labels; nan without any."""
        trials, flipped, labels, valid = self._summed(weights)
        return float(flipped / trials * valid / labels) if labels else float("nan")

    def bounds(self) -> list[float]:
        """Return the three bounds of the rate of valid successes."""
        return [
            float(np.mean([q is not None for q in each]))
            for each in zip(*self._reached, strict=True)
        ]

    def _summed(self, weights: Any) -> Any:
        return (self._counts if weights is None else self._counts * weights).sum(axis=1)


def _estimate(arms: Sequence[_Arm]) -> dict[str, Any] | None:
    """Estimate the share that survives from labels; None where an arm has too few."""
    if any(arm.n_labels < LEAST_LABELS for arm in arms):
        return None
    near, random = arms
    rng, n = np.random.default_rng(SEED), near._counts.shape[1]
    found = []
    for _ in range(REPEATS):
        weights = np.bincount(rng.integers(0, n, n), minlength=n)
        whole = near.rate(weights) - random.rate(weights)
        left = near.valid_rate(weights) - random.valid_rate(weights)
        found.append((left, left / whole if whole > 0 else np.nan))
    low, high = np.nanquantile(np.array(found), [0.025, 0.975], axis=0)
    left = near.valid_rate() - random.valid_rate()
    return {
        "left": [left, float(low[0]), float(high[0])],
        "share": [left / (near.rate() - random.rate()), float(low[1]), float(high[1])],
    }


def lines_of(runs: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[str]:
    """Return the table of the page."""
    lines = [
        "| run | victim, group | items | near | random | advantage | survives: nobody knows | "
        "all valid in both | labels | survives: estimate |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for run, rows in runs.items():
        for each in rows:
            _, group, victim = each["place"]
            share, estimate, left = each["share"], each["estimate"], each["left"]
            told = [
                f"*{_three(left['worst'])} to {_three(left['best'])}*",
                f"*{_three(left['all_valid'])}*",
            ]
            if share is not None:
                told = [
                    f"{_cut(share['worst'])} to {_cut(share['best'])}",
                    _cut(share["all_valid"]),
                ]
            value = "–" if estimate is None else _ends(estimate["share"])
            known = each["advantage"]
            advantage = _ends([known["value"], known["low"], known["high"]])
            cells = [
                run,
                f"{victim}, {group}",
                str(each["n_items"]),
                _three(each["near"]),
                _three(each["random"]),
                advantage,
                *told,
                " + ".join(map(str, each["n_labels"])),
                value,
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cut(share: float) -> str:
    """Write a share; below 0 the advantage is gone and reversed."""
    return "none" if share <= 0 else "all" if share >= 1 else f"{share:.0%}"


def _ends(found: Sequence[float]) -> str:
    value, low, high = map(_three, found)
    return f"{value} [{low}, {high}]"


def _three(value: float) -> str:
    return f"{value:.3f}".replace("0.", ".").replace("-", "−")


def main() -> None:
    """Print the table of a run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, metavar="DIR", help="a run folder")
    parser.add_argument("--planted", type=Path, metavar="DATA", help="make it, planted")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.planted:
        from near_planted import make

        make(args.run, args.planted)
    found = survival_of_run(args.run)
    print(json.dumps(found, indent=1) if args.json else "\n".join(lines_of({args.run.name: found})))


if __name__ == "__main__":
    main()
