"""Predicates and counts of trials by how they ended."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medstress.attacks.unasked import NAME as UNASKED
from medstress.core.calls import LENGTH
from medstress.core.errors import MedstressError
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.validity import REVIEW, VARIANT_CLASSES

# A tuple is faster than a set here: members are found by identity, without hashing in Python.
_NOT_ELIGIBLE = (Verdict.ALREADY_WRONG, Verdict.NOT_ATTACKABLE, Verdict.UNREADABLE)

_LOST = (Verdict.FAILED, Verdict.CUT_SHORT)


def check_trial(trial: TrialRow, budgets: Mapping[str, int]) -> None:
    """Check that a trial keeps the contract behind the identities of the counts.

    Raises:
        MedstressError: the attack has no budget; or the trial failed without saying where, has a
            query number of a success that is missing or out of range, or an unknown class.
    """
    if trial.attack not in budgets:
        raise MedstressError(f"no budget is given for the attack {trial.attack!r}")
    if trial.verdict == Verdict.FAILED and trial.at not in ("baseline", "attack"):
        raise MedstressError(
            f"trial {trial.trial_id} failed at {trial.at!r}, which is neither baseline nor attack"
        )
    if trial.verdict != Verdict.FLIPPED:
        return
    budget = budgets[trial.attack]
    if trial.first_success is None or not 1 <= trial.first_success <= budget:
        raise MedstressError(
            f"trial {trial.trial_id} succeeded at query {trial.first_success} "
            f"of a budget of {budget}"
        )
    unrefuted, valid = trial.first_unrefuted_success, trial.first_valid_success
    if is_valid_success(trial) and valid is None:
        raise MedstressError(
            f"trial {trial.trial_id} succeeded validly and does not say at which query"
        )
    for name, number in (("unrefuted", unrefuted), ("validly", valid)):
        if number is not None and not trial.first_success <= number <= budget:
            raise MedstressError(
                f"trial {trial.trial_id} succeeded at query {trial.first_success} and {name} at "
                f"{number} of a budget of {budget}"
            )
    if trial.variant_class is not None and trial.variant_class not in VARIANT_CLASSES:
        raise MedstressError(
            f"trial {trial.trial_id} succeeded with a replacement of the unknown class "
            f"{trial.variant_class!r}"
        )


def cluster_of(trial: TrialRow) -> str:
    """Return the cluster that intervals and tests treat as one unit: `cluster`, else the item.

    It includes all entities, seeds and repeats of an item.
    """
    return trial.item_id if trial.cluster is None else trial.cluster


def unit_of(trial: TrialRow) -> tuple[str, str, str]:
    """Return the nested units, the widest first: the cluster, the item, its entity."""
    return cluster_of(trial), trial.item_id, trial.unit


def is_failed_at_baseline(trial: TrialRow) -> bool:
    """Return True if the clean item was never answered."""
    return trial.at == "baseline" and trial.verdict in _LOST


def is_eligible(trial: TrialRow) -> bool:
    """Return True if the victim was right on the clean item, so that it was attacked."""
    return trial.verdict not in _NOT_ELIGIBLE and not is_failed_at_baseline(trial)


def is_answered(trial: TrialRow) -> bool:
    """Return True if the clean item was asked and answered: the denominator of accuracy."""
    return trial.verdict != Verdict.NOT_ATTACKABLE and not is_failed_at_baseline(trial)


def is_readable(trial: TrialRow) -> bool:
    """Return True if the answer about the clean item could be read."""
    return is_answered(trial) and trial.verdict != Verdict.UNREADABLE


def is_flipped(trial: TrialRow) -> bool:
    """Return True if the attack succeeded."""
    return trial.verdict == Verdict.FLIPPED


def flipped_within(trial: TrialRow, budget: int) -> bool:
    """Return True if the attack succeeded within `budget` queries."""
    first = trial.first_success
    return is_flipped(trial) and first is not None and first <= budget


def success_edits(trial: TrialRow) -> str:
    """Return *the* edit of a success, as JSON: that of the first success, which ASR counts.

    Everything that looks at the edit of a success uses this rule. If the search went on after an
    invalid success, or for a smaller edit, the row's other columns are about a later edit, the
    pick. Rows without columns for the first success have only one edit.
    """
    return trial.first_success_edits or trial.edits


def success_name(trial: TrialRow) -> str | None:
    """Return the name that a success inserted, folded; None if there is none."""
    name = trial.first_success_replacement or trial.replacement
    return None if name is None or not is_flipped(trial) else name.casefold()


def success_valid(trial: TrialRow) -> bool | None:
    """Return whether the key still holds after the edit of a success; None if unknown.

    If the edit is not the pick's, the search went on. A search that knows the class of a name
    does so only after an invalid success.
    """
    if success_edits(trial) == trial.edits:
        return trial.valid
    return None if trial.variant_class is None else False


def success_repeats(trial: TrialRow) -> bool | None:
    """Return whether a success repeated when asked again alone; None if it was not asked."""
    again = trial.first_success_repeats
    return trial.repeats if again is None else again


def is_never_asked(trial: TrialRow) -> bool:
    """Return True if an eligible trial showed the victim no edit, only probes or the same text."""
    without_edit = (trial.n_probes or 0) + (trial.n_unchanged or 0)
    return is_eligible(trial) and not is_flipped(trial) and trial.n_asked <= without_edit


def is_unattacked(trial: TrialRow) -> bool:
    """Return True if the experiment asks clean items alone, so that nothing can be lost."""
    return bool(json.loads(trial.attack_spec).get("name") == UNASKED)


def is_valid_success(trial: TrialRow) -> bool:
    """Return True if the attack succeeded with a pick after which the key is known to hold."""
    return is_flipped(trial) and trial.valid is True


def is_unrefuted_success(trial: TrialRow) -> bool:
    """Return True if the attack succeeded with a pick that is not refuted: valid or unknown."""
    return is_flipped(trial) and trial.valid is not False


def pick_success(trial: TrialRow) -> int | None:
    """Return the query number of a trial's pick; None without a success."""
    if not is_flipped(trial):
        return None
    return trial.first_unrefuted_success or trial.first_success


def is_refused(trial: TrialRow) -> bool:
    """Return True if the attack succeeded, but experts found that the key no longer holds."""
    return is_flipped(trial) and trial.valid is False and trial.validity_reason == REVIEW


def seed_order(seed: int | None) -> tuple[bool, int]:
    """Return a sort key of seeds; the seed of deterministic attacks, None, comes first.

    >>> sorted([1, None, 0], key=seed_order)
    [None, 0, 1]
    """
    return seed is not None, seed or 0


def first_of_each_item(trials: Iterable[TrialRow]) -> list[TrialRow]:
    """Return one trial per item, independent of the order of the trials.

    It is the one with the smallest seed, then attack label, then repeat. The clean item is asked
    once and its answer shared, so further trials add nothing about it.
    """
    first: dict[str, tuple[Any, TrialRow]] = {}
    for trial in trials:
        place = (seed_order(trial.seed), trial.attack, trial.repeat)
        known = first.get(trial.item_id)
        if known is None or place < known[0]:
            first[trial.item_id] = (place, trial)
    return [first[item][1] for item in sorted(first)]


def clean_items(trials: Iterable[TrialRow]) -> list[TrialRow]:
    """Return one trial per item whose clean answer was requested, an answered one if possible.

    Failed items are included; decisions count them as wrong.
    """
    met = list(trials)
    items = first_of_each_item(filter(is_answered, met))
    known = {item.item_id for item in items}
    failed = first_of_each_item(filter(is_failed_at_baseline, met))
    return [*items, *(one for one in failed if one.item_id not in known)]


def count_verdicts(trials: Sequence[TrialRow]) -> dict[str, int]:
    """Count items, and trials by verdict, under the names of `summary --json`.

    n_trials = n_already_wrong + n_not_attackable + n_unreadable_at_baseline
    + n_failed_at_baseline + n_eligible, and
    n_eligible = n_flipped + n_held + n_measured + n_cut_short + n_failed.

    >>> count_verdicts([])["n_trials"]
    0
    """
    by_verdict = Counter(trial.verdict for trial in trials)
    lost = Counter(trial.verdict for trial in trials if is_failed_at_baseline(trial))
    return {
        "n_items": len({trial.item_id for trial in trials}),
        "n_trials": len(trials),
        "n_already_wrong": by_verdict[Verdict.ALREADY_WRONG],
        "n_not_attackable": by_verdict[Verdict.NOT_ATTACKABLE],
        "n_unreadable_at_baseline": by_verdict[Verdict.UNREADABLE],
        "n_failed_at_baseline": lost.total(),
        "n_eligible": sum(map(is_eligible, trials)),
        "n_flipped": by_verdict[Verdict.FLIPPED],
        "n_held": by_verdict[Verdict.HELD],
        "n_measured": by_verdict[Verdict.MEASURED],
        "n_cut_short": by_verdict[Verdict.CUT_SHORT] - lost[Verdict.CUT_SHORT],
        "n_failed": by_verdict[Verdict.FAILED] - lost[Verdict.FAILED],
        "n_unreadable_answers": sum(trial.n_unreadable for trial in trials),
        "n_length_at_baseline": sum(trial.finish_reason == LENGTH for trial in trials),
        "n_length_answers": sum(trial.n_length or 0 for trial in trials),
    }


def units_of(items: Sequence[str], trials: Iterable[TrialRow]) -> NDArray[np.int64]:
    """Return the number of each item's document if it is known, else of the item; shape (m,)."""
    known = {row.item_id: cluster_of(row) for row in trials}
    found: NDArray[np.int64] = np.unique([known[item] for item in items], return_inverse=True)[1]
    return found
