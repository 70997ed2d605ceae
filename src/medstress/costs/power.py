"""Power before spending: which difference the planned items can show, and how many more need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from medstress.analyses.run import Cell, Run
from medstress.core.arms import Place
from medstress.core.trials import Trial
from medstress.experiment.plan.plan import Prepared
from medstress.stats.power import ASSUMED, detectable, needed, needed_equivalent
from medstress.store.run_store import FILE

ACCURACY = 0.5
"""Accuracy where nothing is known."""
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

    def either(of: Callable[[float], str]) -> str:
        """Say a number at every assumed share of items on which two arms differ."""
        return " or ".join(map(of, ASSUMED))

    shares = " or ".join(f"{share:.0%}".replace("%", " %") for share in ASSUMED)
    return (
        f"power on {'/'.join(place)}: {n:,} planned items x accuracy {_number(known.value)} "
        f"({known.source}) = {n_eligible:,} eligible: where two arms differ on {shares} of them "
        f"(assumed, each item once), a difference of {either(lambda d: _least(n_eligible, d))} is "
        f"found with 80 % power ({either(lambda d: _least(n, d))} in accuracy after the attack, "
        f"which counts all {n:,}); {_number(DIFFERENCE, 2)} needs "
        f"{either(lambda d: _needs(needed(DIFFERENCE, d), known))} eligible; equivalence within "
        f"{_number(MARGIN, 2)} needs "
        f"{either(lambda d: _needs(needed_equivalent(MARGIN, d), known))}"
    )


def _least(n: int, discordance: float) -> str:
    difference = detectable(n, discordance)
    return "no size" if difference is None else _number(difference)


def _needs(n: int, known: _Known) -> str:
    return f"{n:,}" + (f" ({round(n / known.value):,} planned)" if known.value else "")


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


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
    trials: dict[Place, list[Trial]] = defaultdict(list)
    for trial in Run.open(folder).trials:
        trials[trial.arm.place].append(trial)
    right: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for place, own in trials.items():
        cell = Cell.of(own).one_per_item()
        right[place[:2]] += cell.eligible[cell.answered | cell.open_clean].tolist()
    return {place: sum(marks) / len(marks) for place, marks in right.items() if marks}
