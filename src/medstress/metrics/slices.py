"""Accuracy and ASR of parts of the data, with intervals that hold all at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from medstress.core.controls import BETWEEN
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.controls import net_bounds
from medstress.metrics.counts import cluster_of, is_unattacked
from medstress.metrics.criteria import Place
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.paired import unite
from medstress.metrics.old_stats.shares import design_effect, slice_shares
from medstress.metrics.old_stats.shrinkage import shrunken
from medstress.metrics.pairs import pair_trials
from medstress.metrics.worst_case import RULES, Rule, Within

Slice: TypeAlias = tuple[str, str]
"""(property, value): what a slice is by, and which it is."""
Hit: TypeAlias = Callable[[TrialRow], bool]
Tally: TypeAlias = tuple[list[int], list[int]]
"""Hits and answers by unit."""

WIDE = 0.4
"""An interval wider than this says next to nothing."""
_TIE = 1e-9
"""Shrunken rates that differ by less are the same but for rounding."""


def slice_rows(
    trials: Iterable[TrialRow],
    slices_of: Callable[[TrialRow], Iterable[Slice]],
    budgets: Mapping[str, int],
    controls: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Return a row for every slice of every attack on a data set, group and victim.

    The intervals of all slices of one attack hold at once, separately for accuracy and ASR. An
    item may be in several slices of one property.

    Args:
        trials: the trials; those on items that cannot be attacked are in no slice.
        slices_of: the slices that a trial's item is in.
        budgets: perturbed queries per item, by attack label.
        controls: labels of attacks that are controls of others; they have no slices of their own.

    Returns:
        The rows of `summary --json`, sorted: by, value, n_items, accuracy, asr, their bounds with
        unreadable and failed answers at their worst, `asr_shrunken`, the place, and `asr_net` by
        control where the attack has controls.
    """
    theirs: dict[Place, dict[str, list[TrialRow]]] = defaultdict(lambda: defaultdict(list))
    places: dict[Place, dict[Slice, list[TrialRow]]] = defaultdict(lambda: defaultdict(list))
    for row in trials:
        if row.attack in controls:
            attack, _, name = row.attack.rpartition(BETWEEN)
            theirs[row.dataset, row.group, row.victim, attack][name].append(row)
            continue
        for each in slices_of(row) if row.verdict is not Verdict.NOT_ATTACKABLE else ():
            places[row.dataset, row.group, row.victim, row.attack][each].append(row)
    return [
        row
        for place in sorted(places)
        for row in _of_place(place, places[place], budgets[place[3]], theirs.get(place, {}))
    ]


def _of_place(
    place: Place,
    members: Mapping[Slice, Sequence[TrialRow]],
    budget: int,
    controls: Mapping[str, Sequence[TrialRow]],
) -> list[dict[str, Any]]:
    names = sorted(members)
    rows = [members[name] for name in names]

    def estimates(counts: Hit, hits: Within) -> tuple[list[Estimate], list[Tally]]:
        tallies = [_tally(each, counts, lambda row: hits(row, budget)) for each in rows]
        return slice_shares(tallies), tallies

    def ends(rule: Rule) -> list[list[float | None]]:
        lows = estimates(rule.may_count, rule.least)[0]
        highs = estimates(rule.may_count, rule.most)[0]
        return [[low.low, high.high] for low, high in zip(lows, highs, strict=True)]

    before, under = RULES["accuracy"], RULES["asr"]
    accuracies, _ = estimates(before.counts, before.hit)
    if any(is_unattacked(row) for each in rows[:1] for row in each[:1]):
        under = replace(under, counts=_never, may_count=_never)
    rates, tallies = estimates(under.counts, under.hit)
    met = ends(before)
    worst = ends(under)
    pulled = _pulled(names, tallies)
    return [
        {
            **dict(zip(("dataset", "group", "victim", "attack"), place, strict=True)),
            "by": names[i][0],
            "value": names[i][1],
            "n_items": len({row.item_id for row in rows[i]}),
            "accuracy": accuracies[i].as_json(),
            "accuracy_bounds": met[i],
            "asr": rates[i].as_json(),
            "asr_bounds": worst[i],
            "asr_shrunken": pulled[i],
            **(_net(rows[i], controls, budget, len(names)) if controls else {}),
        }
        for i in range(len(names))
    ]


def _never(row: TrialRow) -> bool:
    """Count no trial: nothing was attacked."""
    return False


def _net(
    rows: Sequence[TrialRow],
    controls: Mapping[str, Sequence[TrialRow]],
    budget: int,
    m: int,
) -> dict[str, Any]:
    """Return `asr_net` and its worst ends by control, by Tango's interval at Sidak's level."""
    found, bounds = {}, {}
    level = 0.95 ** (1 / m)
    for name, theirs in controls.items():
        found[name] = unite(pair_trials(rows, theirs), level).estimate.as_json()
        bounds[name] = net_bounds(rows, theirs, budget, level)
    return {"asr_net": found, "asr_net_bounds": bounds}


def _tally(trials: Iterable[TrialRow], counts: Hit, hits: Hit) -> Tally:
    """Count hits and answers by unit: the document if it is known, else the item."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in trials:
        if counts(row):
            unit = found[cluster_of(row)]
            unit[0] += hits(row)
            unit[1] += 1
    ordered = [found[unit] for unit in sorted(found)]
    return [k for k, _ in ordered], [n for _, n in ordered]


def _pulled(names: Sequence[Slice], tallies: Sequence[Tally]) -> list[float | None]:
    """Pull the rates of the slices of each property towards the property's mean."""
    found: dict[int, float | None] = {}
    for by in dict.fromkeys(by for by, _ in names):
        places = [i for i, name in enumerate(names) if name[0] == by]
        hits, counts = [], []
        for i in places:
            y, c = (np.asarray(values, dtype=np.float64) for values in tallies[i])
            effect = design_effect(y, c) if c.size else 1.0
            hits.append(float(y.sum()) / effect)
            counts.append(float(c.sum()) / effect)
        found.update(zip(places, shrunken(hits, counts), strict=True))
    return [found[i] for i in range(len(names))]


def is_too_small(row: Mapping[str, Any]) -> bool:
    """Return True if the interval of a slice's ASR is wider than `WIDE`, or if there is none."""
    low, high = row["asr"]["low"], row["asr"]["high"]
    return low is None or high is None or high - low > WIDE


def worst_slices(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the slice with the highest shrunken ASR for each attack and property.

    Taking the highest plain rate would pick small slices, which are high by chance. Of slices that
    tie the plain rate decides, then the number of trials.

    Returns:
        Rows of `slice_rows` with `n_slices`, `too_small`, and `differs`: False where all of several
        slices are shrunken to one value, None where fewer than two have a rate to compare.
    """
    families: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        key = tuple(row[name] for name in ("dataset", "group", "victim", "attack", "by"))
        families[key].append(row)
    found = []
    for members in families.values():
        known = [row for row in members if row["asr_shrunken"] is not None]
        most = max((row["asr_shrunken"] for row in known), default=0.0)
        least = min((row["asr_shrunken"] for row in known), default=0.0)
        tied = [row for row in known if most - row["asr_shrunken"] < _TIE]
        if known:
            worst = max(tied, key=lambda row: (row["asr"]["value"], row["asr"]["n"]))
        else:
            worst = max(members, key=lambda row: int(row["n_items"]))
        more = {"n_slices": len(members), "too_small": is_too_small(worst)}
        differs = most - least >= _TIE if len(known) > 1 else None
        found.append({**worst, **more, "differs": differs})
    return found


def told_cuts(cuts: Mapping[str, Mapping[str, Sequence[int]]]) -> str:
    """Return where each data set's lengths are cut, for people.

    >>> told_cuts({"cases": {"question_length": [92, 113]}, "more": {"option_length": []}})
    'question_length of cases after 92 and 113 characters; option_length of more nowhere (one length)'
    """  # noqa: E501 - the output of one call
    return "; ".join(
        f"{by} of {dataset} {_told(lengths)}"
        for dataset, found in cuts.items()
        for by, lengths in found.items()
    )


def _told(cuts: Sequence[int]) -> str:
    if not cuts:
        return "nowhere (one length)"
    if len(cuts) == 1:
        return f"after {cuts[0]} characters (two slices, because lengths tie)"
    return f"after {' and '.join(map(str, cuts))} characters"
