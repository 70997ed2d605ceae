"""Success, diversity and prompt similarity by the exponent n: the two regimes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.metrics.arms import (
    Arms,
    Hits,
    Place,
    hits,
    items_of,
    largest_budget,
    place_fields,
    spec_of,
)
from medstress.metrics.counts import units_of
from medstress.metrics.item_means import item_mean
from medstress.metrics.old_stats.estimates import unknown
from medstress.metrics.old_stats.multiplicity import benjamini_hochberg
from medstress.metrics.old_stats.resampling import (
    RESAMPLES,
    around,
    bootstrapped,
    in_words,
    resampled_mean,
)

Lookup: TypeAlias = Callable[[Place, str], Mapping[str, Any] | None]
"""(place, attack) -> the pooled summary row."""

POINT_FIELDS = (
    "asr",
    "asr_valid",
    "diversity",
    "diversity_unbiased",
    "prompt_similarity",
)
PERMUTATIONS = 4_999
"""Number of sign flips drawn if there are too many to enumerate."""
REGIMES = ("near", "random", "far")
"""n < 0, n = 0 or plain random sampling, n > 0."""

_SEED = 20_260_102
_METHOD = (
    "difference of the mean success rate over the values of n of each regime, item by item; "
    "sign-flip permutation test, two-sided, over {units}; adjusted by Benjamini-Hochberg over "
    "all series"
)


def exponent_rows(arms: Arms, pooled: Lookup) -> list[dict[str, Any]]:
    """Return rows of `analysis.exponents`: one series per place and setting, ordered by n.

    A series has the `pdws` attacks that differ only in n; the random attack beside it differs
    from them only in sampler (and budget).

    Args:
        arms: eligible trials.
        pooled: finds the pooled summary row whose estimates a point repeats.
    """
    rows = []
    for place, by_attack in arms.items():
        specs = {attack: spec_of(trials) for attack, trials in by_attack.items()}
        series: dict[str, list[str]] = defaultdict(list)
        for attack, spec in specs.items():
            if spec.get("sampler") == "pdws" and spec.get("n") is not None:
                series[_without(spec, "n")].append(attack)
        met = [row for trials in by_attack.values() for row in trials]
        items = items_of(met)
        clusters = units_of(items, met)
        for shared, attacks in sorted(series.items()):
            asked = [row.n_asked for name in attacks for row in by_attack[name]]
            budget = largest_budget(int(json.loads(shared)["budget"]), asked)
            attacks.sort(key=lambda attack: float(specs[attack]["n"]))
            random = _random_beside(specs, attacks[0], budget)
            chosen = [*attacks, *([random] if random else [])]
            found = {name: hits(by_attack[name], items, budget) for name in chosen}
            exponents = {name: float(specs[name]["n"]) for name in attacks}
            points = [
                {"n": exponents[name], "attack": name, **_point(pooled(place, name))}
                for name in attacks
            ]
            row = {**place_fields(place), "spec": json.loads(shared), "points": points}
            beside = {"attack": random, **_point(pooled(place, random))} if random else None
            rows.append(
                {**row, "random": beside, **compare_regimes(found, exponents, random, clusters)}
            )
    _adjust(rows)
    return rows


def compare_regimes(
    found: Mapping[str, Hits],
    exponents: Mapping[str, float],
    random: str | None,
    clusters: NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    """Compare the regimes of one series over the items that all its attacks met.

    A regime's rate is the mean over its values of n, not that of its best n, which would be
    chosen on the items it is reported on.

    Args:
        found: successes by attack.
        exponents: n by attack, without `random`.
        random: the random attack; without one, n = 0 takes its place if it was run.
        clusters: the number of each item's document; whole documents are drawn and flipped. None
            if each item is its own cluster.

    Returns:
        `n_items`, `regimes`, `tests` and `peaks`.
    """
    members = _by_regime(exponents, random)
    met = np.all([arm.counts > 0 for arm in found.values()], axis=0)
    rates = {name: arm.successes[met, -1] / arm.counts[met] for name, arm in found.items()}
    means = {
        regime: np.mean([rates[name] for name in names], axis=0)
        for regime, names in members.items()
        if names
    }
    m = int(met.sum())
    numbers = np.arange(met.shape[0]) if clusters is None else clusters
    units = np.unique(numbers[met], return_inverse=True)[1]
    tests = [
        _test(first, second, means[first], means[second], units)
        for first, second in combinations(REGIMES, 2)
        if first in means and second in means and m
    ]
    regimes = {
        regime: (
            item_mean(means[regime], 0.0, units)
            if regime in means
            else unknown("no attack of this regime")
        ).as_json()
        for regime in REGIMES
    }
    peaks = {
        regime: peak(
            np.stack([rates[name] for name in members[regime]], axis=1),
            [exponents[name] for name in members[regime]],
            units,
        )
        for regime in ("near", "far")
        if members[regime] and m
    }
    return {"n_items": m, "regimes": regimes, "tests": tests, "peaks": peaks}


def _by_regime(exponents: Mapping[str, float], random: str | None) -> dict[str, list[str]]:
    return {
        "near": [name for name, n in exponents.items() if n < 0],
        "random": [random] if random else [name for name, n in exponents.items() if n == 0],
        "far": [name for name, n in exponents.items() if n > 0],
    }


def peak(
    rates: NDArray[np.float64], exponents: Sequence[float], units: NDArray[np.int64] | None = None
) -> dict[str, Any]:
    """Find the n with the highest success rate, and whether it lies inside the grid.

    Args:
        rates: success rates by item and n, shape (m, n_exponents).
        exponents: the values of n, ascending.
        units: the number of each item's document, shape (m,); None if each item is its own.

    Returns:
        `n` with a bootstrap interval, and `inside_share`: the share of the resamples in which
        the highest rate is not at an end of the grid, as of a local maximum.
    """
    m, k = rates.shape
    best = int(np.argmax(rates.mean(axis=0)))
    own = np.arange(m) if units is None else units
    drawn = np.argmax(np.round(resampled_mean(rates, own), 12), axis=1)
    method = (
        f"bootstrap over {in_words(own)}, {RESAMPLES} resamples; optimistic: chosen on these items"
    )
    at = around(bootstrapped(exponents[best], np.asarray(exponents, dtype=float)[drawn], m, method))
    inside = float(((drawn > 0) & (drawn < k - 1)).mean())
    return {"n": at.as_json(), "inside_share": inside}


def _test(
    first: str,
    second: str,
    ours: NDArray[np.float64],
    theirs: NDArray[np.float64],
    units: NDArray[np.int64],
) -> dict[str, Any]:
    """Test whether two regimes succeed equally often, on the same items."""
    difference = ours - theirs
    p = sign_flip_p(np.bincount(units, weights=difference).astype(np.float64))
    estimate = item_mean(difference, -1.0, units)
    return {
        "comparison": first,
        "against": second,
        "difference": estimate.as_json(),
        "p": p,
        "p_adjusted": p,
        "method": _METHOD.format(units=in_words(units)),
    }


def sign_flip_p(difference: NDArray[np.float64]) -> float:
    """Test whether paired differences are symmetric about 0, two-sided, by their mean.

    Uses all 2^m patterns of signs if there are fewer than 5,000, else (1 + c) / (1 + 4,999) with
    c the drawn patterns at least as extreme. scipy's `permutation_test` gives the same p but takes
    about fifty times as long, because it permutes pairs of general form.

    Args:
        difference: one value per item, or its sum over a document, shape (m,).

    References:
        Phipson and Smyth, "Permutation p-values should never be zero", 2010.
    """
    moved = difference[difference != 0]
    m = moved.shape[0]
    if m == 0:
        return 1.0
    observed = abs(float(moved.sum())) - 1e-9
    if 2**m <= PERMUTATIONS:
        signs = 1 - 2 * ((np.arange(2**m)[:, None] >> np.arange(m)) & 1)
        return float((np.abs(signs @ moved) >= observed).mean())
    rng = np.random.default_rng(_SEED)
    signs = 1 - 2 * rng.integers(0, 2, size=(PERMUTATIONS, m), dtype=np.int8)
    return float((1 + (np.abs(signs @ moved) >= observed).sum()) / (PERMUTATIONS + 1))


def _adjust(rows: Sequence[Mapping[str, Any]]) -> None:
    tests = [test for row in rows for test in row["tests"]]
    adjusted = benjamini_hochberg([test["p"] for test in tests])
    for test, p in zip(tests, adjusted, strict=True):
        test["p_adjusted"] = p


def _random_beside(specs: Mapping[str, Mapping[str, Any]], attack: str, budget: int) -> str | None:
    """Return the random attack that differs from this one only in sampler, n and budget."""
    shared = _without(specs[attack], "n", "sampler", "budget")
    found = [
        name
        for name, spec in specs.items()
        if spec.get("sampler") == "random"
        and _without(spec, "n", "sampler", "budget") == shared
        and int(spec["budget"]) >= budget
    ]
    return min(found, key=lambda name: (int(specs[name]["budget"]), name), default=None)


def _point(row: Mapping[str, Any] | None) -> dict[str, Any]:
    if row is None:
        return dict.fromkeys((*POINT_FIELDS, "asr_at_1"))
    return {**{name: row.get(name) for name in POINT_FIELDS}, "asr_at_1": row["asr_at"][0]}


def _without(spec: Mapping[str, Any], *keys: str) -> str:
    return json.dumps({k: v for k, v in spec.items() if k not in keys}, sort_keys=True)
