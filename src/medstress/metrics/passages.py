"""What a passage is worth: accuracy with it against accuracy without, on the same items."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from medstress.core.rows import TrialRow
from medstress.core.validity import EVIDENCE_CHANGED
from medstress.metrics.controls import is_control
from medstress.metrics.counts import (
    clean_items,
    is_answered,
    is_eligible,
    is_flipped,
    unit_of,
)
from medstress.metrics.old_stats.paired import unite
from medstress.metrics.old_stats.shares import rate

SLICES: Mapping[str, bool | None] = {"all": None, "deciding": True, "undecided": False}
"""Name of a slice -> whether its passages decide the question, as rows say; None: all."""


def passage_gains(
    trials: Iterable[TrialRow],
    pairs: Sequence[tuple[str, str]],
    decides: Mapping[tuple[str, str], bool],
) -> list[dict[str, Any]]:
    """Compare the clean answers of victims that read a passage with those of victims that do not.

    Args:
        trials: the rows of a run.
        pairs: labels of victims, (shown the passage, not shown it), otherwise the same.
        decides: (data set, item id) -> whether its passage decides the question, where a row says
            so. Undecided passages are a control: a reader gains nothing from them.

    Returns:
        A row for each place, pair and slice with items: `accuracy_open`, `accuracy_closed`, their
        paired difference `gain` (Tango's interval) and `p`.
    """
    by_place: dict[tuple[str, str], dict[str, list[TrialRow]]] = {}
    for row in trials:
        by_place.setdefault((row.dataset, row.group), {}).setdefault(row.victim, []).append(row)
    found = []
    for (dataset, group), victims in by_place.items():
        for reader, other in pairs:
            answered = [
                {row.item_id: row for row in clean_items(victims.get(name, ())) if is_answered(row)}
                for name in (reader, other)
            ]
            shared = [item for item in answered[0] if item in answered[1]]
            for name, wanted in SLICES.items():
                items = [
                    item
                    for item in shared
                    if wanted is None or decides.get((dataset, item)) is wanted
                ]
                if not items:
                    continue
                with_it, without = ([side[item] for item in items] for side in answered)
                gain = unite(
                    [
                        (unit_of(row), is_eligible(row), is_eligible(beside))
                        for row, beside in zip(with_it, without, strict=True)
                    ]
                )
                found.append(
                    {
                        "dataset": dataset,
                        "group": group,
                        "open": reader,
                        "closed": other,
                        "passages": name,
                        "n": len(items),
                        "accuracy_open": _accuracy(with_it),
                        "accuracy_closed": _accuracy(without),
                        "gain": gain.estimate.as_json(),
                        "p": gain.p,
                    }
                )
    return found


def accuracies_by_attack(
    trials: Iterable[TrialRow], free: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return accuracy before and after each attack and control, on the same items of a group.

    An item that an attack cannot edit keeps its clean answer, so that attacks with other
    attackable items can stand in one figure. Attacks that change the evidence are left out: what
    they take is no error. Of the arms of one control the one with the most queries stands for all,
    under the control's name.

    Args:
        trials: the rows of a run.
        free: groups of attacks that draw no names. Such attacks, controls among them, are asked
            about all items; here they are shown on the items of each other group, beside the
            attacks of that group.

    Returns:
        A row for each data set, group, victim and attack with an attackable item: `accuracy`, and
        `accuracy_after` over all seeds.
    """
    by_arm = _by_arm(trials)
    places = dict.fromkeys((dataset, group) for dataset, _, group, _ in by_arm)
    with_names = {dataset for dataset, group in places if group not in free}
    found = []
    for dataset, group in places:
        if group in free and dataset in with_names:
            continue
        clean = _clean_by_victim(by_arm, dataset, group)
        for (data, victim, of_group, attack), rows in by_arm.items():
            if data != dataset or victim not in clean or of_group not in (group, *free):
                continue
            if any(map(_changes_evidence, rows)) or not any(map(is_answered, rows)):
                continue
            met = [(clean[victim][r.item_id], r) for r in rows if r.item_id in clean[victim]]
            items = {before.item_id: before for before, _ in met}
            found.append(
                {
                    "dataset": dataset,
                    "group": group,
                    "victim": victim,
                    "attack": attack,
                    "accuracy": _accuracy([*items.values()]),
                    "accuracy_after": rate(
                        (unit_of(before), is_eligible(before) and not is_flipped(after))
                        for before, after in met
                    ).as_json(),
                }
            )
    return found


def _by_arm(
    trials: Iterable[TrialRow],
) -> dict[tuple[str, str, str, str], list[TrialRow]]:
    """Return (data set, victim, group, attack or control) -> trials."""
    found: dict[tuple[str, str, str, str], list[TrialRow]] = {}
    controls: dict[tuple[str, str, str, str], dict[str, list[TrialRow]]] = {}
    for row in trials:
        place = (row.dataset, row.victim, row.group)
        if is_control(row):
            arms = controls.setdefault((*place, row.arm), {})
            arms.setdefault(row.attack, []).append(row)
        else:
            found.setdefault((*place, row.attack), []).append(row)
    for key, of_attack in controls.items():
        found.setdefault(
            key, max(of_attack.values(), key=lambda rows: sum(r.n_asked for r in rows))
        )
    return found


def _clean_by_victim(
    by_arm: Mapping[tuple[str, str, str, str], Sequence[TrialRow]], dataset: str, group: str
) -> dict[str, dict[str, TrialRow]]:
    """Return victim -> item id -> a trial with the clean answer, for the items of a group."""
    by_victim: dict[str, list[TrialRow]] = {}
    for (data, victim, of_group, _), rows in by_arm.items():
        if (data, of_group) == (dataset, group):
            by_victim.setdefault(victim, []).extend(rows)
    return {
        victim: {row.item_id: row for row in clean_items(rows) if is_answered(row)}
        for victim, rows in by_victim.items()
    }


def _changes_evidence(row: TrialRow) -> bool:
    return row.supported is not None or row.validity_reason == EVIDENCE_CHANGED


def _accuracy(rows: Sequence[TrialRow]) -> dict[str, Any]:
    return rate((unit_of(row), is_eligible(row)) for row in rows).as_json()
