"""How much of an attack's advantage over random draws is left if variants of the key do not count.

A variant may be a second right answer, so that the victim was not wrong.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_unrefuted_success
from medstress.metrics.pairs import difference_of
from medstress.metrics.success import asr
from medstress.metrics.valid_bounds import asr_unrefuted
from medstress.stats.estimates import Estimate

Place: TypeAlias = tuple[str, str, str]
"""(data set, group, victim)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedArm:
    """One attack that asks variants of the key and marks them."""

    attack: str
    """Label of the attack."""
    asr: Estimate
    """All successes."""
    asr_unrefuted: Estimate
    """Successes that are not refuted: the name is not a variant, synonym or repetition of the key.
    The rules do not know how many of them are valid."""
    advantage: Estimate | None = None
    """ASR minus that of random draws, on the items eligible under both; None for random draws
    and if no arm draws at random."""
    advantage_unrefuted: Estimate | None = None
    """The same for successes that are not refuted."""


def second_answers(trials: Iterable[TrialRow]) -> dict[Place, list[ClassifiedArm]]:
    """Compare ASR with ASR of unrefuted successes, for attacks that mark variants of the key.

    For all successes and for unrefuted ones, an attack's advantage is the difference of its rate
    and that of the arm that draws at random (same data, group and victim; the first label if there
    are several), over the items eligible under both (`paired_difference`).

    Args:
        trials: trials of a whole run; attacks with `variants` other than `mark` are left out.

    Returns:
        The arms of every place that has one, random draws first, then by label; empty if no
        attack marks variants.
    """
    places: dict[Place, dict[str, list[TrialRow]]] = defaultdict(lambda: defaultdict(list))
    for trial in trials:
        if _spec(trial).get("variants") == "mark":
            places[trial.dataset, trial.group, trial.victim][trial.attack].append(trial)
    return {place: _arms(by_attack) for place, by_attack in sorted(places.items())}


def _arms(by_attack: dict[str, list[TrialRow]]) -> list[ClassifiedArm]:
    random = sorted(label for label, trials in by_attack.items() if draws_at_random(trials[0]))
    first = random[:1]
    found = []
    for label in [*first, *sorted(by_attack.keys() - set(first))]:
        trials = by_attack[label]
        compared = bool(first) and label not in random
        against = by_attack[first[0]] if compared else []
        found.append(
            ClassifiedArm(
                attack=label,
                asr=asr(trials),
                asr_unrefuted=asr_unrefuted(trials),
                advantage=difference_of(trials, against).estimate if compared else None,
                advantage_unrefuted=difference_of(trials, against, is_unrefuted_success).estimate
                if compared
                else None,
            )
        )
    return found


def draws_at_random(trial: TrialRow) -> bool:
    """Return whether the arm of a trial draws names at random."""
    spec = _spec(trial)
    return spec.get("sampler") == "random" or (spec.get("sampler") == "pdws" and spec["n"] == 0)


def draws_near(trial: TrialRow) -> bool:
    """Return whether the arm of a trial draws names near the key: `nearest`, or `pdws` at n < 0."""
    spec = _spec(trial)
    return spec.get("sampler") == "nearest" or (spec.get("sampler") == "pdws" and spec["n"] < 0)


def _spec(trial: TrialRow) -> dict[str, Any]:
    found = json.loads(trial.attack_spec)
    return found if isinstance(found, dict) else {}
