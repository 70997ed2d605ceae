"""Choose the best exponent n from the trials of a grid."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.hashing import canonical_json, digest
from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_answered, is_eligible
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.success import asr
from medstress.metrics.valid_bounds import asr_unrefuted

NEAR, FAR = "n < 0", "n > 0"
REGIMES = (NEAR, FAR)
RULE = "largest {metric} over the grid, within each regime; ties: the smaller |n|"


def split_position(key: Sequence[object]) -> float:
    """Return a pseudo-random position in [0, 1); below the tuning share, n is chosen on the item.

    Args:
        key: JSON values that identify the item.
    """
    return int.from_bytes(digest(["tune", *key])[:8], "big") / 2**64


METRICS = {"asr": asr, "asr_unrefuted": asr_unrefuted}
"""The metrics that n may be chosen by; `asr_valid` is not known while n is tuned."""


def metric_of(name: str) -> str:
    """Return the metric that a folder's settings name; first versions called unrefuted valid.

    >>> metric_of("asr"), metric_of("asr_valid")
    ('asr', 'asr_unrefuted')
    """
    return "asr_unrefuted" if name == "asr_valid" else name


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPoint:
    """One value of n."""

    n: float
    """The exponent."""
    attack: str
    """Label of the attack with this exponent."""
    estimate: Estimate
    """The metric, pooled over seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """All values of n of one attack in one place."""

    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    victim: str
    """Label of the victim."""
    template: str
    """The attack's parameters without n, as canonical JSON."""
    points: tuple[GridPoint, ...]
    """The points by ascending n."""
    n_items: int
    """Distinct items asked."""
    n_eligible: int
    """Distinct items right at baseline."""

    @property
    def place(self) -> tuple[str, str, str]:
        """Data set, group and victim."""
        return self.dataset, self.group, self.victim

    @property
    def name(self) -> str:
        """The attack's label without n."""
        first = self.points[0]
        return first.attack.replace(f" n={first.n:g}", "", 1)


def regime_of(n: float) -> str | None:
    """Return the regime of an exponent; 0 belongs to neither.

    >>> regime_of(-5.0), regime_of(0.0), regime_of(5.0)
    ('n < 0', None, 'n > 0')
    """
    return NEAR if n < 0 else FAR if n > 0 else None


def is_pdws(spec: Mapping[str, Any]) -> bool:
    """Return True if an attack draws with an exponent n."""
    return spec.get("sampler") == "pdws"


def template_of(spec: Mapping[str, Any], budget: int | None = None) -> str:
    """Return an attack's parameters without n, as canonical JSON.

    Args:
        spec: the attack's parameters.
        budget: replaces the attack's budget, if tuning has its own.

    >>> template_of({"sampler": "pdws", "n": -5.0, "budget": 8}, budget=1)
    '{"budget":1,"sampler":"pdws"}'
    """
    shared = {key: value for key, value in spec.items() if key != "n"}
    return canonical_json(shared if budget is None else {**shared, "budget": budget})


def tuning_grids(trials: Iterable[TrialRow], metric: str = "asr") -> list[Grid]:
    """Group the trials of a grid by data set, group, victim and attack.

    Attacks other than `pdws` are left out.

    Args:
        trials: trials of any attacks.
        metric: `asr` or `asr_unrefuted`, at the budget of the trials.
    """
    found: dict[tuple[str, str, str, str], dict[float, list[TrialRow]]] = {}
    for trial in trials:
        spec = json.loads(trial.attack_spec)
        if is_pdws(spec):
            key = (trial.dataset, trial.group, trial.victim, template_of(spec))
            found.setdefault(key, defaultdict(list))[float(spec["n"])].append(trial)
    return [_grid(key, found[key], metric) for key in sorted(found)]


def choose(points: Sequence[GridPoint]) -> dict[str, GridPoint]:
    """Choose the best n of each regime: the largest value; of equals the smaller |n|.

    A regime without a point, or without an eligible trial, has none.

    >>> def at(n, hits): return GridPoint(n=n, attack="", estimate=wilson(hits, 10))
    >>> from medstress.metrics.old_stats.estimates import wilson
    >>> {k: p.n for k, p in choose([at(-9.0, 5), at(-5.0, 5), at(0.0, 9), at(5.0, 1)]).items()}
    {'n < 0': -5.0, 'n > 0': 5.0}

    References:
        Xian et al., "Assessing biomedical knowledge robustness in large language models by
        query-efficient sampling attacks", TMLR 2025, Table 1: the best n of either sign.
    """
    chosen: dict[str, GridPoint] = {}
    for point in sorted(points, key=lambda each: abs(each.n)):
        regime, value = regime_of(point.n), point.estimate.value
        if regime is None or value is None:
            continue
        best = chosen.get(regime)
        if best is None or best.estimate.value is None or value > best.estimate.value:
            chosen[regime] = point
    return chosen


def _grid(
    key: tuple[str, str, str, str], by_n: Mapping[float, list[TrialRow]], metric: str
) -> Grid:
    trials = [trial for each in by_n.values() for trial in each]
    return Grid(
        dataset=key[0],
        group=key[1],
        victim=key[2],
        template=key[3],
        points=tuple(
            GridPoint(n=n, attack=by_n[n][0].attack, estimate=METRICS[metric](by_n[n]))
            for n in sorted(by_n)
        ),
        n_items=len({trial.item_id for trial in trials if is_answered(trial)}),
        n_eligible=len({trial.item_id for trial in trials if is_eligible(trial)}),
    )
