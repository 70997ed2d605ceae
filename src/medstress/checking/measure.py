"""Coverage, sensitivity and specificity of a checker, by entity type and stratum of distance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.checking.pairs import Pair
from medstress.entities.names import normalise
from medstress.results.formats import decimal
from medstress.results.table import Column, Format, Table, as_row, columns
from medstress.stats.estimates import Estimate
from medstress.stats.shares import design_effect_of, rate

FORMAT = 1
"""Of `--json`."""
N_STRATA = 3
"""Strata of numeric distances, of equal size as far as ties allow."""
ALL, TYPE, STRATUM = "all", "type", "distance"
NO_CORRECTION = (
    "sensitivity + specificity is not above 1: no correction by this checker exists; use bounds"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a checker did on some of the pairs."""

    by: str
    """`all`, `type` or `distance`."""
    name: str
    """Which type or stratum; empty for all."""
    n_pairs: int
    """Pairs."""
    coverage: Estimate
    """Share of the pairs that the checker places."""
    sensitivity: Estimate
    """Share called the same, of the covered pairs that are."""
    specificity: Estimate
    """Share called different, of the covered pairs that are."""
    design_effects: tuple[float, float] = (1.0, 1.0)
    """Of both: how many pairs are worth one independent pair."""

    @property
    def corrects(self) -> bool | None:
        """Whether counts could be corrected by these rates; None: a rate is unknown."""
        one, other = self.sensitivity.value, self.specificity.value
        return None if one is None or other is None else one + other > 1

    def as_json(self) -> dict[str, Any]:
        """Return its fields as JSON values."""
        return {
            "by": self.by,
            "name": self.name,
            "n_pairs": self.n_pairs,
            "coverage": self.coverage.as_json(),
            "sensitivity": self.sensitivity.as_json(),
            "specificity": self.specificity.as_json(),
            "corrects": self.corrects,
            "design_effects": list(self.design_effects),
        }


def measure(pairs: Sequence[Pair], said: Sequence[bool | None]) -> list[Measured]:
    """Measure a checker on all pairs, then by type, then by stratum of distance.

    Intervals are Wilson's 95 % at the effective sample size (`medstress.stats.shares.rate`): pairs
    with the same first name are a cluster.

    Args:
        pairs: at least one.
        said: whether the checker calls each pair the same; None: it cannot place it.
    """
    rows = [_measured(ALL, "", pairs, said)]
    by_distance = sorted(pairs, key=_nearness)
    for by, ordered, name_of in (
        (TYPE, pairs, lambda pair: pair.type),
        (STRATUM, by_distance, _strata(pairs)),
    ):
        names = list(dict.fromkeys(name for pair in ordered if (name := name_of(pair))))
        for name in names:
            kept = [i for i, pair in enumerate(pairs) if name_of(pair) == name]
            rows.append(_measured(by, name, [pairs[i] for i in kept], [said[i] for i in kept]))
    return rows


def _measured(by: str, name: str, pairs: Sequence[Pair], said: Sequence[bool | None]) -> Measured:
    judged = [(normalise(pair.a), pair.same, one) for pair, one in zip(pairs, said, strict=True)]
    covered = [(unit, truth, one) for unit, truth, one in judged if one is not None]
    right = {
        same: [(unit, one is same) for unit, truth, one in covered if truth is same]
        for same in (True, False)
    }
    return Measured(
        by=by,
        name=name,
        n_pairs=len(pairs),
        coverage=rate((unit, one is not None) for unit, _, one in judged),
        sensitivity=rate(right[True]),
        specificity=rate(right[False]),
        design_effects=(_effect(right[True]), _effect(right[False])),
    )


def _effect(observations: Sequence[tuple[str, bool]]) -> float:
    return design_effect_of(observations) if observations else 1.0


def _nearness(pair: Pair) -> tuple[bool, float]:
    return (False, pair.distance) if isinstance(pair.distance, float) else (True, 0.0)


def _strata(pairs: Sequence[Pair]) -> Callable[[Pair], str]:
    """Return the function that names a pair's stratum; empty for pairs without a distance."""
    import numpy as np

    numbers = sorted(pair.distance for pair in pairs if isinstance(pair.distance, float))
    quantiles = [i / N_STRATA for i in range(1, N_STRATA)]
    inner = sorted({float(e) for e in np.quantile(numbers, quantiles)}) if numbers else []
    ends = [*inner, numbers[-1]] if numbers else []

    def name(pair: Pair) -> str:
        if not isinstance(pair.distance, float):
            return pair.distance or ""
        i = int(np.searchsorted(inner, pair.distance, side="left"))
        low = numbers[0] if i == 0 else inner[i - 1]
        return f"{decimal(low)} to {decimal(ends[i])}"

    return name


def checker_table(checker: str, rows: Sequence[Measured]) -> Table:
    """Return the measurement as a table."""
    shares = columns(Format.SHARE, "Coverage", "Sensitivity", "Specificity")
    head = (Column(heading="Pairs of"), Column(heading="n", format=Format.COUNT))
    is_useless = any(row.corrects is False for row in rows)
    return Table(
        name="checker",
        caption=f"The checker {checker}",
        columns=(*head, *shares),
        rows=tuple(
            as_row(
                row.name or "all",
                row.n_pairs,
                row.coverage,
                row.sensitivity,
                row.specificity,
                rule_above=i > 0 and rows[i - 1].by != row.by,
            )
            for i, row in enumerate(rows)
        ),
        notes=tuple(_unplaced(rows)) + ((NO_CORRECTION,) if is_useless else ()),
    )


def _unplaced(rows: Sequence[Measured]) -> list[str]:
    covered = rows[0].coverage.hits or 0
    n = rows[0].n_pairs - covered
    told = [f"{n:,} of {rows[0].n_pairs:,} pairs cannot be placed: neither right nor wrong"]
    rates = {"sensitivity": rows[0].sensitivity, "specificity": rows[0].specificity}
    if lost := [name for name, found in rates.items() if not found.n]:
        told.append(
            f"it places no pair that tells its {' and its '.join(lost)}, so no correction by it "
            "exists; use bounds"
        )
    return told
