"""What an entry of the plan is stored under: its arm's parameters and its own content hash."""

from __future__ import annotations

from typing import Any

from medstress.candidates import WHOLE, unit_of
from medstress.hashing import content_hash
from medstress.scheduler.inquiry import Inquiry
from medstress.scheduler.study import Study
from medstress.scheduler.trial import Trial


def arm_spec(trial: Trial | Inquiry | Study) -> dict[str, Any]:
    """The parameters of a trial's attack, as stored with its arm."""
    if isinstance(trial, Inquiry | Study):
        return trial.attack_spec
    return {"budget": trial.attack.traits.budget, **trial.attack.spec()}


def repeat_of(trial: Trial | Inquiry | Study) -> int:
    """Which run of an attack on its item a trial is; everything else runs once."""
    return trial.repeat if isinstance(trial, Trial) else 0


def trial_id(trial: Trial | Inquiry | Study) -> str:
    """Content hash of what a trial is; labels, item and seed, no order."""
    if isinstance(trial, Inquiry | Study):
        return trial.id
    return content_hash(
        [
            trial.dataset,
            trial.group,
            trial.item.id,
            trial.item.hash,
            trial.victim.label,
            trial.attack_label,
            trial.seed,
            trial.repeat,
            *([unit_of(trial.item)] if unit_of(trial.item) != WHOLE else []),
        ]
    )
