"""Compare two attacks on the same items: what one flips and the other does not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any, TypeAlias

from medstress.attacks.noise.non_entity_noise import NonEntityNoise, is_control_of
from medstress.core.controls import arm_label
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.arms import spec_of
from medstress.metrics.counts import is_eligible, is_flipped, unit_of
from medstress.metrics.old_stats.multiplicity import benjamini_hochberg
from medstress.metrics.old_stats.paired import Difference, unite
from medstress.metrics.old_stats.shares import Unit

CONTROLS, SAMPLERS = "controls", "samplers"
"""Families of `tests`: an attack against its own control, and attacks against each other."""
_METHOD = (
    "Tango's score statistic at 0, two-sided, over {n} pairs of {m} items (documents where known): "
    "every seed that both ran on an item eligible under both, at the effective sample size (a "
    "deterministic attack stands for every seed); adjusted by Benjamini-Hochberg within the family"
)

Hit: TypeAlias = Callable[[TrialRow], bool]
Pair: TypeAlias = tuple[Unit, bool, bool]
"""(document, item and entity; the first attack's hit; the second's)."""
Place: TypeAlias = tuple[str, str, str]
Outcomes: TypeAlias = Mapping[tuple[str, str, int], Mapping[int | None, tuple[Unit, bool]]]
"""(Item, entity, repeat) -> seed -> (unit, whether it is a hit)."""


def pair_trials(
    first: Iterable[TrialRow],
    second: Iterable[TrialRow],
    hit: Hit = is_flipped,
    hit_of_second: Hit | None = None,
    met: Hit = is_eligible,
) -> list[Pair]:
    """Pair the eligible trials of two attacks on the same items, entities, seeds and repeats.

    The single trial of a deterministic attack (seed None) pairs with every seed of the other. The
    pairs of one item are not independent; `unite` allows for that.

    Args:
        first: trials of one attack on one data set, group and victim.
        second: trials of another attack on the same.
        hit: what counts as a hit.
        hit_of_second: what counts as a hit of the second, if it differs.
        met: which trials are paired, if not the eligible ones.
    """
    ours = _outcomes(first, hit, met)
    return list(_pairs(ours, _outcomes(second, hit_of_second or hit, met)))


def attack_tests(trials: Iterable[TrialRow]) -> list[dict[str, Any]]:
    """Compare the attacks on the same data set, group and victim, in two families.

    Every attack is compared with each of its own controls (`controls`) and with every other attack
    (`samplers`); controls are not compared with each other or with another attack. Trials that
    are only measured flip nothing and are left out.

    Returns:
        Rows of `tests`, by place, controls first; `statistic` is [pairs that only the comparison
        flipped, pairs that only `against` flipped]. `p` and `p_adjusted` are None if the two share
        no eligible item.
    """
    arms: dict[Place, dict[str, list[TrialRow]]] = defaultdict(dict)
    for trial in trials:
        if trial.verdict != Verdict.MEASURED:
            place = (trial.dataset, trial.group, trial.victim)
            arms[place].setdefault(trial.attack, []).append(trial)
    rows = [row for place, by_attack in sorted(arms.items()) for row in _tests(place, by_attack)]
    for family in (CONTROLS, SAMPLERS):
        known = [row for row in rows if row["family"] == family and row["p"] is not None]
        for row, p in zip(known, benjamini_hochberg([row["p"] for row in known]), strict=True):
            row["p_adjusted"] = p
    return rows


def _tests(place: Place, by_attack: Mapping[str, list[TrialRow]]) -> Iterator[dict[str, Any]]:
    one_of = {attack: by_attack[attack][0] for attack in sorted(by_attack)}
    outcomes = {attack: _outcomes(by_attack[attack], is_flipped) for attack in one_of}
    attacks = [attack for attack, row in one_of.items() if not _is_control(row)]
    compared = [
        *(
            (CONTROLS, attack, control)
            for attack in attacks
            for control, row in one_of.items()
            if _is_control(row) and _is_own(row, one_of[attack])
        ),
        *((SAMPLERS, first, second) for first, second in combinations(attacks, 2)),
    ]
    for family, first, second in compared:
        pairs = list(_pairs(outcomes[first], outcomes[second]))
        found = unite(pairs)
        yield {
            "family": family,
            "dataset": place[0],
            "group": place[1],
            "victim": place[2],
            "comparison": first,
            "against": second,
            "statistic": [found.only_first, found.only_second],
            "difference": found.estimate.as_json(),
            "p": found.p,
            "p_adjusted": None,
            "method": _METHOD.format(n=len(pairs), m=len({unit[0] for unit, *_ in pairs})),
        }


def _is_control(row: TrialRow) -> bool:
    return row.arm != "attack" or spec_of([row]).get("name") == NonEntityNoise.name


def _is_own(control: TrialRow, row: TrialRow) -> bool:
    """Return True if a control belongs to an attack: by its label, or with as much noise."""
    if control.arm != "attack":
        return control.attack == arm_label(row.attack, control.arm)
    spec = spec_of([row])
    return "name" in spec and is_control_of(spec_of([control]), spec)


def difference_of(
    first: Iterable[TrialRow], second: Iterable[TrialRow], hit: Hit = is_flipped
) -> Difference:
    """Estimate how much more often the first of two attacks has a hit, on the items of both."""
    return unite(pair_trials(first, second, hit))


def _outcomes(trials: Iterable[TrialRow], hit: Hit, met: Hit = is_eligible) -> Outcomes:
    found: dict[tuple[str, str, int], dict[int | None, tuple[Unit, bool]]] = defaultdict(dict)
    for row in trials:
        if met(row):
            found[row.item_id, row.unit, row.repeat][row.seed] = (unit_of(row), hit(row))
    return found


def _pairs(ours: Outcomes, theirs: Outcomes) -> Iterator[Pair]:
    for key in ours.keys() & theirs.keys():
        for a, (unit, first) in ours[key].items():
            for b, (_, second) in theirs[key].items():
                if a == b or a is None or b is None:
                    yield unit, first, second
