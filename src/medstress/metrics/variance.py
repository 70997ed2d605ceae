"""Where the variance of an attack success rate comes from, and what to buy next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import sqrt
from statistics import stdev
from typing import Any, TypeAlias

from medstress.core.rows import TrialRow
from medstress.metrics.controls import attacks_only
from medstress.metrics.counts import cluster_of, is_eligible, is_flipped
from medstress.stats.components import REST, Components, components
from medstress.stats.estimates import Z

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
DETERMINISTIC = "the attack is deterministic: it has no seeds"
FEW_ITEMS, FEW_SEEDS = 20, 5
"""With fewer, the advice says that it is uncertain: 3 seeds tell little about all seeds."""
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
    found = components(flips, factors)
    if found is None and NAMES in factors:
        del factors[NAMES]
        reasons[NAMES] = "names and the other factors cannot be told apart"
        found = components(flips, factors)
    if found is None:
        reasons |= dict.fromkeys(factors, _why_not(rows))
    dataset, group, victim, attack = place
    return {
        "dataset": dataset,
        "group": group,
        "victim": victim,
        "attack": attack,
        "n": len(rows),
        "asr": sum(flips) / len(rows) if rows else None,
        "components": dict.fromkeys((*FACTORS, REST)) | dict(found.variances if found else {}),
        "levels": dict.fromkeys(FACTORS) | dict(found.levels if found else {}),
        "reasons": reasons,
        **(_next(found) if found else _more_items(rows, flips)),
        "method": METHOD,
    }


def _factors(
    rows: Sequence[TrialRow], names: Mapping[str, str], one_format: str | None
) -> tuple[dict[str, list[object]], dict[str, str]]:
    """Return the level of each trial by factor, and why other factors are unknown."""
    factors: dict[str, list[object]] = {ITEMS: [cluster_of(row) for row in rows]}
    reasons: dict[str, str] = {}
    seeds = [(row.seed, row.repeat) for row in rows]
    if len(set(seeds)) > 1:
        factors[SEEDS] = [*seeds]
    else:
        reasons[SEEDS] = DETERMINISTIC if _is_deterministic(rows) else "one seed"
    known = [names.get(row.trial_id) for row in rows]
    if None in known:
        reasons[NAMES] = "not every trial put in exactly one name"
    elif len(set(known)) == len(rows):
        reasons[NAMES] = "every trial put in a name of its own"
    else:
        factors[NAMES] = [*known]
    if one_format is None:
        factors[TEMPLATES] = [row.victim for row in rows]
    else:
        reasons[TEMPLATES] = one_format
    return factors, reasons


def _is_deterministic(rows: Sequence[TrialRow]) -> bool:
    return bool(rows) and all(row.seed is None for row in rows)


def _why_not(rows: Sequence[TrialRow]) -> str:
    if not rows:
        return "no eligible trial"
    if len({cluster_of(row) for row in rows}) < 2:
        return "one item"
    return "one trial for each item, so that items and the rest cannot be told apart"


def _more_items(rows: Sequence[TrialRow], flips: Sequence[float]) -> dict[str, Any]:
    """Return what more items buy where nothing is known of seeds: one trial for each item."""
    n = len({cluster_of(row) for row in rows})
    if n < 2 or n < len(rows) or len(set(flips)) < 2:
        why = "all flips are alike" if n > 1 and len(set(flips)) < 2 else _why_not(rows)
        return {"half_width": None, "advice": f"Nothing can be predicted: {why}."}
    now = Z * stdev(flips) / sqrt(n)
    items = now / sqrt(2)
    more = "seeds change nothing" if _is_deterministic(rows) else "one seed says nothing of seeds"
    return {
        "half_width": {"now": now, "twice_items": items, "twice_seeds": None},
        "advice": f"Items: {_told(now, items)}; {more}.",
    }


def _next(found: Components) -> dict[str, Any]:
    """Return the predicted half-widths, and which of two purchases of equal cost is better.

    Twice the items and twice the seeds cost the same number of attacked trials, so that the
    narrower interval is also the one that buys more per query. Names and templates stay.
    """
    now, items = found.half_width(), found.half_width(items=2)
    if now == 0:
        return {
            "half_width": None,
            "advice": "Nothing can be predicted: all flips are alike.",
        }
    if SEEDS not in found.levels:
        return {
            "half_width": {"now": now, "twice_items": items, "twice_seeds": None},
            "advice": f"Items: {_told(now, items)}; nothing is known of seeds.",
        }
    seeds = found.half_width(seeds=2)
    widths = {"now": now, "twice_items": items, "twice_seeds": seeds}
    n_items, n_seeds = found.levels[ITEMS], found.levels[SEEDS]
    few = n_items < FEW_ITEMS or n_seeds < FEW_SEEDS
    doubt = f"; uncertain, with {n_items:,} items and {n_seeds:,} seeds" if few else ""
    if abs(items - seeds) <= _ALIKE * now:
        told = f"Items and seeds buy alike per query: {_told(now, items)}"
    elif items < seeds:
        told = f"Items buy more per query than seeds: {_told(now, items, seeds)}"
    else:
        told = f"Seeds buy more per query than items: {_told(now, seeds, items)}"
    return {"half_width": widths, "advice": f"{told}{doubt}{_of_names(found)}."}


def _of_names(found: Components) -> str:
    """Return what is said where names give more of the variance than items, seeds and the rest."""
    parts = {name: v * found.weights[name] for name, v in found.variances.items()}
    of_names = parts.pop(NAMES, 0.0)
    if of_names <= max(parts.values(), default=0.0):
        return ""
    share = of_names / (of_names + sum(parts.values()))
    return (
        f"; but {share:.0%} of the variance are the names', more than items and seeds give: only "
        "more names, such as a larger vocabulary, make that less"
    ).replace("%", " %")


def _told(now: float, then: float, other: float | None = None) -> str:
    instead = "" if other is None else f", not {other:.3f}"
    return f"twice as many make the half-width {then:.3f}{instead}, from {now:.3f}"
