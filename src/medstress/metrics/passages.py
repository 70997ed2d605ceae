"""What a passage is worth: accuracy with it against accuracy without, on the same items."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.accuracies import accuracy_after
from medstress.metrics.counts import clean_items, is_answered, is_eligible, unit_of
from medstress.stats.paired import unite
from medstress.stats.shares import rate

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
    """Return accuracy before and after each attack on the items of every group.

    Args:
        trials: the rows of a run.
        free: groups of attacks that draw no names. Such attacks, controls among them, are asked
            about all items; here they are shown on the items of each other group, beside the
            attacks of that group.

    Returns:
        A row for each data set, group, victim and attack: `accuracy` and `accuracy_after`.
    """
    by_arm: dict[tuple[str, str, str, str], list[TrialRow]] = {}
    for row in trials:
        by_arm.setdefault((row.dataset, row.victim, row.group, row.attack), []).append(row)
    places = dict.fromkeys((dataset, group) for dataset, _, group, _ in by_arm)
    with_names = {dataset for dataset, group in places if group not in free}
    named = [place for place in places if place[1] not in free or place[0] not in with_names]
    found = []
    for dataset, group in named:
        asked: dict[str, set[str]] = {}
        for (data, victim, of_group, _), rows in by_arm.items():
            if (data, of_group) == (dataset, group):
                asked.setdefault(victim, set()).update(r.item_id for r in rows if is_answered(r))
        for (data, victim, of_group, attack), rows in by_arm.items():
            if data != dataset or victim not in asked or of_group not in (group, *free):
                continue
            on_items = [row for row in rows if row.item_id in asked[victim]]
            found.append(
                {
                    "dataset": dataset,
                    "group": group,
                    "victim": victim,
                    "attack": attack,
                    "accuracy": _accuracy([row for row in on_items if is_answered(row)]),
                    "accuracy_after": accuracy_after(on_items).as_json(),
                }
            )
    return found


def _accuracy(rows: Sequence[TrialRow]) -> dict[str, Any]:
    return rate((unit_of(row), is_eligible(row)) for row in rows).as_json()
