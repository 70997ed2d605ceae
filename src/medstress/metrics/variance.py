"""Where the variance of an attack success rate comes from, and what to buy next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from medstress.core.rows import TrialRow
from medstress.metrics.controls import attacks_only
from medstress.metrics.counts import cluster_of, is_eligible, is_flipped
from medstress.stats.components import Components, components

Place: TypeAlias = tuple[str, str, str, str]
"""(data set, group, victim, attack)."""
Key: TypeAlias = tuple[str, str, int | None, int]
"""(item, entity, seed, repeat) of a trial."""

ITEMS, SEEDS, NAMES, TEMPLATES = "items", "seeds", "names", "templates"
FACTORS = (ITEMS, SEEDS, NAMES, TEMPLATES)
METHOD = (
    "random effects of crossed factors on 0/1 flips, Henderson's method 1 (the analysis of "
    "variance where data are balanced); interactions are in the rest; negative components cut to 0"
)
_ALIKE = 0.02
"""Half-widths that differ by no more than this share are called alike."""


def variance_rows(
    trials: Sequence[TrialRow],
    names: Mapping[str, str],
    formats: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of `variance`: one for each data set, group, victim and attack.

    A model of `[sensitivity]` has one more row for all of its formats together, over the items
    that are eligible in each of them; there templates (with ways of answering) are a factor.

    Args:
        trials: the trials of a run; those of control arms are left out.
        names: trial_id -> the name that it put in, of trials that put in exactly one.
        formats: label of a victim of `[sensitivity]` -> the model behind it.
    """
    places: dict[Place, list[TrialRow]] = defaultdict(list)
    for row in attacks_only(trials):
        if is_eligible(row):
            places[row.dataset, row.group, row.victim, row.attack].append(row)
    models: dict[Place, dict[str, list[TrialRow]]] = defaultdict(dict)
    for (dataset, group, victim, attack), rows in places.items():
        if model := (formats or {}).get(victim):
            models[dataset, group, model, attack][victim] = rows
    found = [_row(place, rows, names, "one format") for place, rows in sorted(places.items())]
    for place, by_format in sorted(models.items()):
        if len(by_format) > 1:
            found.append(_row(place, _common(by_format), names, None))
    return found


def _common(by_format: Mapping[str, Sequence[TrialRow]]) -> list[TrialRow]:
    """Return the trials whose item, seed and repeat are eligible in every format."""
    keys = [{_key(row) for row in rows} for rows in by_format.values()]
    shared = set.intersection(*keys)
    return [row for rows in by_format.values() for row in rows if _key(row) in shared]


def _key(row: TrialRow) -> Key:
    return row.item_id, row.unit, row.seed, row.repeat


def _row(
    place: Place, rows: Sequence[TrialRow], names: Mapping[str, str], one_format: str | None
) -> dict[str, Any]:
    flips = [float(is_flipped(row)) for row in rows]
    factors, reasons = _factors(rows, names, one_format)
    found = components(flips, factors) if factors.get(ITEMS) else None
    if found is None and NAMES in factors:
        reasons[NAMES] = "names and the other factors cannot be told apart"
        del factors[NAMES]
        found = components(flips, factors)
    if found is None:
        for name in factors:
            reasons[name] = _why_not(rows)
    buy = _next(found) if found else {"half_width": None, "advice": _nothing(reasons)}
    dataset, group, victim, attack = place
    return {
        "dataset": dataset,
        "group": group,
        "victim": victim,
        "attack": attack,
        "n": len(rows),
        "asr": sum(flips) / len(rows) if rows else None,
        "components": dict.fromkeys((*FACTORS, "rest")) | dict(found.variances if found else {}),
        "levels": dict.fromkeys(FACTORS) | dict(found.levels if found else {}),
        "reasons": reasons,
        **buy,
        "method": METHOD,
    }


def _factors(
    rows: Sequence[TrialRow], names: Mapping[str, str], one_format: str | None
) -> tuple[dict[str, list[object]], dict[str, str]]:
    """Return the level of each trial by factor, and why other factors are unknown."""
    factors: dict[str, list[object]] = {ITEMS: [cluster_of(row) for row in rows]}
    reasons: dict[str, str] = {}
    seeds = [(row.seed, row.repeat) for row in rows]
    if rows and all(seed is None for seed, _ in seeds) and len(set(seeds)) < 2:
        reasons[SEEDS] = "the attack is deterministic: it has no seeds"
    elif len(set(seeds)) < 2:
        reasons[SEEDS] = "one seed"
    else:
        factors[SEEDS] = [*seeds]
    known = [names.get(row.trial_id) for row in rows]
    if rows and all(name is not None for name in known):
        factors[NAMES] = [*known]
    else:
        reasons[NAMES] = "not every trial put in exactly one name that is stored"
    if one_format is None:
        factors[TEMPLATES] = [row.victim for row in rows]
    else:
        reasons[TEMPLATES] = one_format
    return factors, reasons


def _why_not(rows: Sequence[TrialRow]) -> str:
    if not rows:
        return "no eligible trial"
    if len({cluster_of(row) for row in rows}) < 2:
        return "one item"
    return "one trial for each item: more seeds would tell items from the rest"


def _nothing(reasons: Mapping[str, str]) -> str:
    return f"Nothing can be predicted: {reasons.get(ITEMS, 'unknown')}."


def _next(found: Components) -> dict[str, Any]:
    """Return the predicted half-widths, and which of two purchases of equal cost is better.

    Twice the items and twice the seeds cost the same number of attacked trials, so that the
    narrower interval is also the one that buys more per query. Names and templates stay.
    """
    now, items = found.half_width(), found.half_width(items=2)
    if now == 0:
        return {"half_width": None, "advice": "All flips are alike: nothing can be predicted."}
    if SEEDS not in found.levels:
        advice = (
            f"Twice the items would make the half-width of the 95 % interval {items:.3f} instead "
            f"of {now:.3f}; what more seeds buy is unknown."
        )
        return {"half_width": {"now": now, "twice_items": items, "twice_seeds": None}} | {
            "advice": advice
        }
    seeds = found.half_width(seeds=2)
    told = f"half-width of the 95 % interval now {now:.3f}, then {{:.3f}} instead of {{:.3f}}"
    if abs(items - seeds) <= _ALIKE * now:
        advice = f"Items and seeds buy alike per query ({told.format(items, seeds)})."
    elif items < seeds:
        advice = f"Items buy more than seeds per query ({told.format(items, seeds)})."
    else:
        advice = f"Seeds buy more than items per query ({told.format(seeds, items)})."
    return {
        "half_width": {"now": now, "twice_items": items, "twice_seeds": seeds},
        "advice": advice,
    }
