"""A model that errs by chance alone, under an attack whose attempts gates and repeats take away.

Attack and control have up to 8 attempts an item, and every query errs with the same probability.
So the model loses nothing to the attack, and ASR net of the control should be 0. A gate rejects a
share of the attack's attempts; or a share of its queries asks a variant again, and gets the same
answer.

    python validation/controls.py                # 2,000 runs a cell, minutes on one core
    python validation/controls.py --runs 100     # a quick look

Writes controls.json: for each cell the mean of the net within some budgets, the mean where the
control is not cut (`analyses/success.py`), and how often the interval of the net misses 0. And
nets.json: of two models that lose as much or less to the attack, with noise of their own, how often
`compare` calls the net of B better or worse, and how often the interval of the difference alone
does.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from medstress.analyses.compare import Side, compare
from medstress.analyses.run import pair
from medstress.analyses.success import at_budget, reach
from medstress.core.items import Question
from medstress.core.trials import Trial

# Runs whose truth is planted are helpers of the tests.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "servers"))
from planted_trials import NEAR, arm, control, edit, planted_run, question, trial

BUDGET = 8
ITEMS = 60
TAKEN = {"gate": (0.0, 0.5, 0.6), "repeats": (0.5, 0.6)}
NOISE = (0.1, 0.25)
BUDGETS = (1, 4, BUDGET)
QUESTIONS = [question(i) for i in range(ITEMS)]
CONTROL = control()
COMPARED = 200
"""Items of two models that are compared."""
FIXED = arm(replace(NEAR, label="nearest", draws_names=False), seed=None)
MODEL = {"model_hash": "m", "model": "m", "task": {"prompt": "p"}}
TWO = (
    *(((0.3, 0.3), noise) for noise in ((0.05, 0.05), (0.05, 0.25), (0.05, 0.4), (0.4, 0.05))),
    ((0.0, 0.0), (0.01, 0.01)),
    ((0.4, 0.25), (0.05, 0.05)),
)
"""What A and B lose to the attack, and the probability that an edit changes their answers."""


def cell(kind: str, taken: float, noise: float, runs: int) -> dict[str, Any]:
    """Simulate one cell.

    Args:
        kind: `gate` rejects attempts, `repeats` asks variants again.
        taken: share of the attempts that are taken away.
        noise: probability that a query errs.
        runs: how many runs.
    """
    nets: dict[int, list[float]] = {budget: [] for budget in BUDGETS}
    uncut: list[float] = []
    missed = 0
    for number in range(runs):
        rng = np.random.default_rng([number, round(100 * taken), round(100 * noise), len(kind)])
        trials, edits = [], {}
        for i in range(ITEMS):
            # The trial's item seeds its draw, so its name differs from run to run.
            item = replace(QUESTIONS[i], id=f"q{i} of {number}")
            one, variants = _attack(kind, item, taken, noise, rng)
            trials += [one, _control(item, noise, rng)]
            edits[len(trials) - 1] = variants
        run = planted_run(trials, edits=edits)
        (attack,) = run.attacks
        other = run.controls(attack)["no_op"]
        pairs, left = pair(attack, other), reach(run, attack)
        for budget in BUDGETS:
            net = at_budget(attack, other, pairs, budget, left).net.estimate
            nets[budget].append(net.value or 0.0)
        missed += not (net.low or 0.0) <= 0 <= (net.high or 0.0)
        uncut.append(at_budget(attack, other, pairs, BUDGET).net.estimate.value or 0.0)
    return {
        "kind": kind,
        "taken": taken,
        "noise": noise,
        "runs": runs,
        "net": {budget: round(float(np.mean(nets[budget])), 4) for budget in BUDGETS},
        "net without the cut": round(float(np.mean(uncut)), 4),
        "interval misses 0": missed / runs,
    }


def _attack(
    kind: str, item: Question, taken: float, noise: float, rng: np.random.Generator
) -> tuple[Trial, list[Any]]:
    """Return a trial of the attack, and (query, edits) of its queries."""
    is_taken, errs = rng.random(BUDGET) < taken, rng.random(BUDGET) < noise
    if kind == "repeats":
        is_taken[0] = False  # the first variant is new
    hits = np.flatnonzero(errs & ~is_taken)
    last = int(hits[0]) + 1 if hits.size else BUDGET
    new = int((~is_taken[:last]).sum())
    if kind == "gate":
        flipped = new if hits.size else None
        return trial(0, item=item, flipped_at=flipped, asked=new, rejected=last - new), []
    one = trial(0, item=item, flipped_at=last if hits.size else None, asked=last)
    names = np.cumsum(~is_taken[:last]).tolist()
    variants = [(query + 1, (edit(f"name {name}"),)) for query, name in enumerate(names)]
    return replace(one, queries=one.queries._replace(paid=new, cached=last - new)), variants


def _control(item: Question, noise: float, rng: np.random.Generator) -> Trial:
    hits = np.flatnonzero(rng.random(BUDGET) < noise)
    return trial(0, CONTROL, item=item, flipped_at=int(hits[0]) + 1 if hits.size else None)


def cells(runs: int) -> Iterator[dict[str, Any]]:
    """Simulate every cell."""
    for kind, shares in TAKEN.items():
        for taken, noise in product(shares, NOISE):
            yield cell(kind, taken, noise, runs)


def nets(losses: tuple[float, float], noise: tuple[float, float], runs: int) -> dict[str, Any]:
    """Simulate two models on the same items; each loses items of its own to the attack.

    Args:
        losses: of A and B.
        noise: probability that an edit, of attack or control, changes the answer of A and of B.
        runs: how many pairs of runs.
    """
    told = {"better": 0, "worse": 0}
    alone = dict.fromkeys(told, 0)
    for number in range(runs):
        rng = np.random.default_rng([number, *(round(100 * x) for x in (*losses, *noise))])
        sides = []
        for loss, errs in zip(losses, noise, strict=True):
            attack = (rng.random(COMPARED) < loss) | (rng.random(COMPARED) < errs)
            harmless = rng.random(COMPARED) < errs
            rows = [trial(i, FIXED, flipped_at=1 if x else None) for i, x in enumerate(attack)]
            edits = control(of=FIXED)
            rows += [trial(i, edits, flipped_at=1 if x else None) for i, x in enumerate(harmless)]
            victims = {row.arm.place.victim: MODEL for row in rows}
            sides.append(Side(run=planted_run(rows, victims=victims)))
        (row,) = (row for row in compare(*sides, metric="asr_net").rows if row.metric == "asr_net")
        for claim in told:
            told[claim] += claim in row.claims
        alone["better"] += (row.difference.high or 0.0) < 0
        alone["worse"] += (row.difference.low or 0.0) > 0
    shares = {
        f"{claim}{more}": n / runs
        for more, counts in (("", told), (", by the net alone", alone))
        for claim, n in counts.items()
    }
    return {"losses": losses, "noise": noise, "runs": runs, **shares}


def main() -> None:
    """Simulate and write controls.json and nets.json, a line for each cell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=2_000, help="a cell")
    parser.add_argument("--to", type=Path, default=Path("runs/validation"))
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    parts = {"controls": cells(given.runs), "nets": (nets(*one, given.runs) for one in TWO)}
    for name, rows in parts.items():
        path, lines = given.to / f"{name}.json", []
        for row in rows:
            lines.append(json.dumps(row))
            print(lines[-1], flush=True)
            path.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")
        print(path)


if __name__ == "__main__":
    main()
