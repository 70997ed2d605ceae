"""The explanations of a run in its summary."""

from __future__ import annotations

from typing import Any

import numpy as np

from medstress.core.hashing import digest
from medstress.metrics.counts import is_flipped
from medstress.metrics.explanations import (
    TOLERANCE,
    Explained,
    Side,
    explanation_rows,
    mask_words,
)
from medstress.results.explanations import explained_trials, unexplained
from medstress.results.load import StoredRun

SHOWN = 12
"""Explanations whose heat maps stand in the summary; `export --table explanations` has all."""


def describe_explanations(run: StoredRun) -> dict[str, Any] | None:
    """Return the key `explanations` of a summary; None if nothing was explained."""
    explained, lost = explained_trials(run), unexplained(run)
    if not explained and not lost:
        return None
    broken = [one.trial.trial_id for one in explained if not one.holds]
    return {
        "n": len(explained),
        "n_successes": sum(is_flipped(one.trial) for one in explained),
        "n_not_explained": len(lost),
        "n_edit_not_shown": sum(not one.shows_edit for one in explained),
        "values": sorted({one.value for one in explained}),
        "units": sorted({one.units for one in explained}),
        "masks": sorted({one.mask for one in explained}),
        "evaluations": int(
            sum(one.before.evaluations + one.after.evaluations for one in explained)
        ),
        "largest_gap": max((one.gap for one in explained), default=None),
        "broken": broken,
        "rows": explanation_rows(explained),
        "cases": [as_case(one) for one in _shown(explained)],
    }


def about_explanations(found: dict[str, Any] | None) -> list[str]:
    """Return warnings about a summary's explanations."""
    if found is None:
        return []
    warnings = []
    if broken := found["broken"]:
        warnings.append(
            f"the Shapley values of {len(broken)} explanations do not add up within {TOLERANCE:g} "
            f"(first: trial {broken[0]}); do not use them."
        )
    if n := found["n_not_explained"]:
        warnings.append(
            f"{n} trials could not be explained, because a call failed: run again with "
            "--retry-failed, then explain again."
        )
    if n := found["n_edit_not_shown"]:
        warnings.append(
            f"the edit is not in the prompt of {n} explained trials, because the prompt does not "
            "list the options; they are left out where the edit is looked for."
        )
    if len(masks := found["masks"]) > 1:
        warnings.append(
            f"prompts were explained with {len(masks)} masks "
            f"({', '.join(map(mask_words, masks))}); values with different masks do not compare "
            "and are counted apart."
        )
    return warnings


def _shown(explained: list[Explained]) -> list[Explained]:
    """Return the successes to show, else failed attacks, by a hash and not by how they look."""
    order = sorted(
        explained,
        key=lambda one: (not is_flipped(one.trial), digest(["shown", one.trial.trial_id])),
    )
    return order[:SHOWN]


def as_case(one: Explained) -> dict[str, Any]:
    """Return the heat maps of one trial as JSON values."""
    trial = one.trial
    return {
        "trial_id": trial.trial_id,
        "dataset": trial.dataset,
        "item_id": trial.item_id,
        "victim": trial.victim,
        "attack": trial.attack,
        "verdict": trial.verdict.value,
        "regime": one.regime,
        "mask": one.mask,
        "key": one.key,
        "value": one.value,
        "gap": one.gap,
        "before": _map(one, one.before),
        "after": _map(one, one.after),
    }


def _map(one: Explained, side: Side) -> dict[str, Any]:
    """Return the values for the answer of a prompt; for the key where it has no answer."""
    output = side.answer if side.answer in one.outputs else one.key
    values = one.of(side, output)
    assert values is not None
    return {
        "answer": side.answer,
        "output": output,
        "tokens": list(side.tokens),
        "segments": [list(segment) for segment in side.segments],
        "values": np.round(values, 6).tolist(),
        "base": float(side.base[one.outputs.index(output)]),
        "full": float(side.full[one.outputs.index(output)]),
    }
