"""Power before spending: which difference the planned items can show, and how many more need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from medstress.experiment.plan.plan import Prepared
from medstress.metrics.counts import clean_items, is_eligible
from medstress.metrics.old_stats.power import (
    LEAST_DISCORDANCE,
    detectable,
    needed,
    needed_equivalent,
)
from medstress.results.formats import decimal
from medstress.results.load import open_run
from medstress.results.rows import trial_rows
from medstress.store.run_store import FILE

ACCURACY = 0.5
"""Accuracy where nothing is known."""
DISCORDANCE = LEAST_DISCORDANCE
"""Share of items on which two arms are assumed to differ."""
DIFFERENCE, MARGIN = 0.05, 0.02
"""The difference and the margin that lines speak of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """An accuracy to plan with."""

    value: float
    source: str


def power_lines(prepared: Prepared, folder: Path | None = None) -> Iterator[str]:
    """Yield a line for each data set and group: what the planned items can show, at 80 % power.

    Exact power of the paired test, for one pair an item; eligible items are planned items times
    accuracy.

    Args:
        prepared: the experiment; its victims need not be open.
        folder: folder of the run; the accuracy of the run it holds is planned with.
    """
    measured = {} if folder is None else _measured(folder)
    for place, n in _planned(prepared).items():
        known = _Known(value=ACCURACY, source="assumed")
        if place in measured:
            known = _Known(value=measured[place], source=f"of the run in {folder}")
        yield _line(place, n, known)


def _line(place: tuple[str, str], n: int, known: _Known) -> str:
    n_eligible = round(n * known.value)
    found = detectable(n_eligible, DISCORDANCE)
    shown = "no difference is" if found is None else f"a difference of {decimal(found)} is"
    of_all = detectable(n, DISCORDANCE)
    whole = "none" if of_all is None else decimal(of_all)
    return (
        f"power on {'/'.join(place)}: {n:,} planned items x accuracy {decimal(known.value)} "
        f"({known.source}) = {n_eligible:,} eligible: {shown} found with 80 % power "
        f"({whole} in accuracy after the attack, which counts all {n:,}); "
        f"{decimal(DIFFERENCE, 2)} needs {_needs(needed(DIFFERENCE, DISCORDANCE), known)}; "
        f"equivalence within {decimal(MARGIN, 2)} needs "
        f"{_needs(needed_equivalent(MARGIN, DISCORDANCE), known)} "
        f"(discordance {decimal(DISCORDANCE, 2)} assumed, each item once)"
    )


def _needs(n: int, known: _Known) -> str:
    planned = f" ({round(n / known.value):,} planned)" if known.value else ""
    return f"{n:,} eligible{planned}"


def _planned(prepared: Prepared) -> dict[tuple[str, str], int]:
    """Return the items that an attack can edit, by data set and group."""
    found: dict[tuple[str, str], int] = {}
    for dataset in prepared.datasets:
        for group in prepared.question_groups:
            resources = group.resources_on(dataset)
            attacks = [
                part for part in prepared.attacks if prepared.holds(dataset, group, "", part)
            ]
            n = sum(
                any(part.attack.obstacle(item, resources) is None for part in attacks)
                for item in prepared.items(dataset, group)
            )
            if n:
                found[dataset.label, group.label] = n
    return found


def _measured(folder: Path) -> dict[tuple[str, str], float]:
    """Return the accuracy of the run in a folder, by data set and group, over its victims."""
    if not (folder / FILE).is_file():
        return {}
    with open_run(folder) as run:
        rows = trial_rows(run)
        places: dict[tuple[str, str], list[bool]] = {}
        for dataset, group, victim in dict.fromkeys((r.dataset, r.group, r.victim) for r in rows):
            own = (r for r in rows if (r.dataset, r.group, r.victim) == (dataset, group, victim))
            right = [is_eligible(row) for row in clean_items(own)]
            places.setdefault((dataset, group), []).extend(right)
    return {place: sum(right) / len(right) for place, right in places.items() if right}
